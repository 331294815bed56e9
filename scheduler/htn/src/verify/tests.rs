use super::*;
use crate::{parse_domain, parse_problem};

const DOMAIN: &str = "(define (domain lamps) (:requirements :typing :conditional-effects)
  (:types room lamp) (:predicates (in ?l - lamp ?r - room) (at ?r - room) (lit ?l - lamp) (door ?a ?b - room))
  (:action go :parameters (?a ?b - room) :precondition (and (at ?a) (or (door ?a ?b) (door ?b ?a)))
    :effect (and (not (at ?a)) (at ?b)))
  (:action press :parameters (?r - room) :precondition (at ?r)
    :effect (forall (?l - lamp) (when (in ?l ?r) (and (lit ?l)))))
  (:action break :parameters (?l - lamp ?r - room) :precondition (and (at ?r) (in ?l ?r) (lit ?l))
    :effect (not (lit ?l))))";
const PROBLEM: &str = "(define (problem two) (:domain lamps) (:objects Hall Attic - room a b - lamp)
  (:init (at Hall) (door Hall Attic) (in a Attic) (in b Attic)) (:goal (and (lit a) (lit b) (at hall))))";

#[test]
fn a_plan_is_valid_or_fails_at_a_step_for_a_reason() {
    let verifier = verifier();
    let valid = "(go hall attic) (PRESS attic) (go attic hall)";
    for (plan, verdict) in [
        (valid, "the plan is valid"),
        ("(go hall attic)\n(press attic)", "the goal is not reached: (at Hall) does not hold"),
        ("(press attic)", "step 1, `(press attic)`: (at Attic) does not hold"),
        ("(go hall attic) (break b attic)", "step 2, `(break b attic)`: (lit b) does not hold"),
        ("(go hall hall)", "step 1, `(go hall hall)`: (or …) does not hold"),
        ("(press attic) (dance)", "step 2, `(dance)`: there is no such action"),
        ("(press cellar)", "step 1, `(press cellar)`: there is no object `cellar`"),
        ("(press a)", "step 1, `(press a)`: `a` is not of the right type"),
        ("(go hall)", "step 1, `(go hall)`: it takes 2 argument(s), not 1"),
        ("", "the goal is not reached: (lit a) and (lit b) does not hold"),
    ] {
        assert_eq!(verifier.verify(&parse_plan(plan)).to_string(), verdict, "{plan}");
    }
}

#[test]
fn many_facts_are_held_in_a_set_with_the_same_verdicts() {
    let domain = parse_domain(DOMAIN).expect("the domain is well formed");
    let more: String = (0..300).map(|n| format!("r{n} - room ")).collect();
    let problem = PROBLEM.replace("(:objects ", &format!("(:objects {more}"));
    let problem = parse_problem(&domain, &problem).expect("the problem is well formed");
    let verifier = PlanVerifier::new(&domain, &problem).expect("the problem is small");
    let plan = parse_plan("(go hall attic) (press attic) (go attic hall)");
    assert_eq!(verifier.verify(&plan), PlanVerdict::Valid);
    assert!(!verifier.verify(&plan[1..]).is_valid());
}

#[test]
fn actions_are_taken_out_of_prose_and_fences() {
    let plan = parse_plan("First:\n```\n(a b c)\n ( d )\n```\nthen ( ) and (unclosed");
    assert_eq!(plan, [vec!["a".to_owned(), "b".into(), "c".into()], vec!["d".into()]]);
}

fn verifier() -> PlanVerifier {
    let domain = parse_domain(DOMAIN).expect("the domain is well formed");
    let problem = parse_problem(&domain, PROBLEM).expect("the problem is well formed");
    PlanVerifier::new(&domain, &problem).expect("the problem is small")
}
