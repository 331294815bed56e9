use goalmill_htn::{ActionEffect, Formula, SearchLimits, SearchOutcome, Term, parse_domain, parse_problem, solve};

use crate::checker::check;

const DOMAIN: &str = "(define (domain Garden)
 (:requirements :hierarchy :typing)
 (:types rose tulip - flower flower tool - object water)
 (:constants Can - tool)
 (:predicates (wet ?f - flower) (holds ?t - tool) (near ?a ?b - (either flower tool)))
 (:functions (total-cost))
 (:task tend :parameters (?f - flower))
 (:method all :parameters (?F - flower ?t - tool) :task (tend ?f)
  :precondition (imply (holds ?t) (exists (?x - rose) (near ?x ?f)))
  :tasks (and (second (pour ?f)) (first (take ?t)) (third (pour ?f)))
  :ordering (and (< first second) (first < third))
  :constraints (and (not (= ?t CAN)) (sortof ?f - tulip)))
 (:method none :parameters (?f - flower) :task (tend ?f) :ordered-subtasks ())
 (:action take :parameters (?t - tool) :precondition () :effect (and (holds ?t) (increase (total-cost) 1)))
 (:action pour :parameters (?f - flower) :precondition (holds can)
  :effect (forall (?g - flower) (when (near ?f ?g) (and (wet ?g) (not (holds can)))))))";

#[test]
fn a_domain_is_read_whole_with_the_spelling_of_its_declarations() {
    let domain = parse_domain(DOMAIN).expect("the domain is well formed");
    assert_eq!(domain.name, "Garden");
    assert!(domain.is_a("rose", "flower") && domain.is_a("rose", "object") && !domain.is_a("rose", "tool"));
    let method = &domain.methods[0];
    assert_eq!(method.parameters[0].name, "?f");
    assert_eq!(method.network.before, [(1, 0), (1, 2)]);
    let text = format!("{:?}", method.precondition);
    assert!(text.contains("Constant(\"Can\")") && text.contains("SortOf"), "{text}");
    assert_eq!(domain.methods[1].network.subtasks, []);
    let can = vec![Term::Constant("Can".into())];
    assert!(matches!(&domain.actions[1].precondition, Formula::Atom(atom) if atom.terms == can));
    assert!(matches!(&domain.actions[1].effect, ActionEffect::Forall(variables, _) if variables[0].name == "?g"));
}

#[test]
fn a_problem_is_read_with_its_network_and_goal() {
    let domain = parse_domain(DOMAIN).expect("the domain is well formed");
    let problem = parse_problem(
        &domain,
        "(define (problem p) (:domain garden) (:objects Red blue - rose)
         (:htn :parameters (?x - rose) :ordered-subtasks (and (tend red) (t2 (tend ?x))) :constraints (not (= ?x red)))
         (:init (near RED blue) (not (wet red)) (= (total-cost) 0)) (:goal (and (wet red))) (:metric minimize (total-cost)))",
    )
    .expect("the problem is well formed");
    assert_eq!(problem.init, [("near".to_owned(), vec!["Red".to_owned(), "blue".into()])]);
    assert_eq!(problem.network.before, [(0, 1)]);
    assert_eq!(problem.network.subtasks[0].terms, [Term::Constant("Red".into())]);
}

#[test]
fn errors_have_line_column_and_hint() {
    for (from, to, told) in [
        ("(wet ?g)", "(dry ?g)", "16:58: predicate `dry` is not declared; add it to `:predicates`"),
        ("(wet ?g)", "(wet ?h)", "16:62: variable `?h` is not declared; add it to the parameters"),
        ("(wet ?g)", "(wet ?g ?g)", "16:57: `wet` takes 1 argument(s), not 2"),
        ("(second (pour ?f))", "(second (sprinkle ?f))", "10:24: task `sprinkle` is not declared"),
        ("(< first second)", "(< first last)", "11:27: label `last` is not there"),
        ("(< first second)", "(and (< third first))", "11:18: write `(< first second)`"),
        (":ordering (and (< first second)", ":ordering (and (< third first)", "11:13: the ordering goes in a circle"),
        ("?x - rose", "?x - weed", "9:49: type `weed` is not declared; add it to `:types`"),
        (":tasks (and", ":jobs (and", "10:3: `:jobs` is not known here"),
        ("(:task tend", "(:derived tend", "7:2: section `:derived` of a domain is not supported"),
        ("(:action pour", "(:action take", "15:11: `take` is declared twice; rename one"),
        (" CAN)", " MUG)", "12:32: object `MUG` is not declared"),
    ] {
        let text = DOMAIN.replacen(from, to, 1);
        assert_ne!(text, DOMAIN, "{from}");
        let fault = parse_domain(&text).map(|d| d.name).map_err(|e| e.to_string());
        assert!(fault.as_ref().is_err_and(|e| e.starts_with(told)), "{told}: {fault:?}");
    }
}

proptest::proptest! {
    #[test]
    fn whatever_is_cut_out_or_put_in_never_panics(at in 0usize..1_300, cut in 0usize..40, put in "[()?:a-z \n-]{0,8}") {
        let at = at.min(DOMAIN.len());
        let text = format!("{}{put}{}", &DOMAIN[..at], &DOMAIN[(at + cut).min(DOMAIN.len())..]);
        let problem = "(define (problem p) (:domain garden) (:objects r - rose) (:htn :subtasks (tend r)) (:init))";
        if let Ok(domain) = parse_domain(&text)
            && let Ok(problem) = parse_problem(&domain, problem)
        {
            let limits = SearchLimits { nodes_max: 500, ..SearchLimits::default() };
            if let SearchOutcome::Solved { solution, .. } = solve(&domain, &problem, limits, &mut || false) {
                check(&domain, &problem, &solution).expect("the checker accepts what the search found");
            }
        }
    }
}
