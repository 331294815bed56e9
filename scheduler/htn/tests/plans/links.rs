use goalmill_htn::{
    Dependencies, Domain, PlanningProblem, SearchLimits, SearchOutcome, Solution, dependencies, parse_domain,
    parse_problem, solve,
};
use proptest::prelude::*;

use crate::checker::{check, check_order};

/// Parcels are carried by vans that hold one each; written for this test.
const DOMAIN: &str = "(define (domain parcels) (:requirements :typing :hierarchy)
  (:types place thing - object van parcel - thing)
  (:predicates (at ?t - thing ?p - place) (in ?x - parcel ?v - van) (free ?v - van) (told ?x - parcel))
  (:task bring :parameters (?x - parcel ?p - place))
  (:task get :parameters (?v - van ?p - place))
  (:method there :parameters (?x - parcel ?p - place) :task (bring ?x ?p) :precondition (at ?x ?p) :subtasks ())
  (:method carry :parameters (?x - parcel ?a ?p - place ?v - van) :task (bring ?x ?p)
    :precondition (and (at ?x ?a) (not (= ?a ?p)))
    :ordered-subtasks (and (get ?v ?a) (load ?x ?v ?a) (get ?v ?p) (unload ?x ?v ?p) (tell ?x)))
  (:method stay :parameters (?v - van ?p - place) :task (get ?v ?p) :precondition (at ?v ?p) :subtasks ())
  (:method move :parameters (?v - van ?a ?p - place) :task (get ?v ?p)
    :precondition (not (= ?a ?p)) :subtasks (and (drive ?v ?a ?p)))
  (:action drive :parameters (?v - van ?a ?b - place) :precondition (at ?v ?a) :effect (and (not (at ?v ?a)) (at ?v ?b)))
  (:action load :parameters (?x - parcel ?v - van ?p - place)
    :precondition (and (at ?x ?p) (at ?v ?p) (free ?v)) :effect (and (in ?x ?v) (not (at ?x ?p)) (not (free ?v))))
  (:action unload :parameters (?x - parcel ?v - van ?p - place)
    :precondition (and (in ?x ?v) (at ?v ?p)) :effect (and (not (in ?x ?v)) (at ?x ?p) (free ?v)))
  (:action tell :parameters (?x - parcel) :precondition (not (told ?x)) :effect (told ?x)))";

#[test]
fn an_action_waits_only_for_what_it_reads() {
    let (_, _, solution, found) = planned(&[1, 2], 2, 5);
    let names = solution.action_lines();
    let find = |what: &str| names.iter().position(|n| n.starts_with(what)).expect("it is part of the plan");
    assert!(found.before[find("(tell")].is_empty(), "telling reads nothing that the plan writes");
    assert_eq!(found.before[find("(load")], [find("(drive")], "{names:?}");
}

#[test]
fn each_link_names_the_fact_that_its_consumer_reads() {
    let (_, _, solution, found) = planned(&[1], 1, 1);
    let names = solution.action_lines();
    let link = found.links.iter().find(|l| names[l.consumer].starts_with("(unload") && l.fact.starts_with("(in"));
    let link = link.expect("unloading needs what loading did");
    assert!(names[link.producer].starts_with("(load"), "{names:?}");
    assert!(link.holds);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_order_that_respects_the_dependencies_is_valid(
        goals in proptest::collection::vec(0u8..3, 1..5),
        vans in 1usize..4,
        seed in 1u64..1_000,
        draws in proptest::collection::vec(any::<prop::sample::Index>(), 64),
    ) {
        let (domain, problem, solution, found) = planned(&goals, vans, seed);
        let plan = solution.action_lines();
        let mut open: Vec<usize> = (0..plan.len()).collect();
        let mut order: Vec<usize> = Vec::new();
        let mut draws = draws.iter().cycle();
        while !open.is_empty() {
            let ready: Vec<usize> =
                open.iter().copied().filter(|n| found.before[*n].iter().all(|b| order.contains(b))).collect();
            let next = *draws.next().expect("it goes on for ever").get(&ready);
            open.retain(|n| *n != next);
            order.push(next);
        }
        let verdict = check_order(&domain, &problem, &solution, &order);
        prop_assert!(verdict.is_ok(), "{verdict:?}: {order:?} of {plan:?}");
    }
}

/// Parcel n stands at place n and is to be brought to the place that `goals` names for it.
fn planned(goals: &[u8], vans: usize, seed: u64) -> (Domain, PlanningProblem, Solution, Dependencies) {
    let count = |what: &str, n: usize| (0..n).map(|i| format!("{what}{i} ")).collect::<String>();
    let vans_at: String = (0..vans).map(|v| format!("(at v{v} depot) (free v{v}) ")).collect();
    let at: String = (0..goals.len()).map(|n| format!("(at x{n} p{n}) ")).collect();
    let tasks: String = goals.iter().enumerate().map(|(n, g)| format!("(bring x{n} p{g}) ")).collect();
    let told: String = goals.iter().enumerate().map(|(n, g)| format!("(at x{n} p{g}) ")).collect();
    let text = format!(
        "(define (problem some) (:domain parcels) (:objects depot {} - place {} - van {} - parcel)
         (:htn :subtasks (and {tasks})) (:init {vans_at}{at}) (:goal (and {told})))",
        count("p", goals.len().max(3)),
        count("v", vans),
        count("x", goals.len()),
    );
    let domain = parse_domain(DOMAIN).expect("the domain is well formed");
    let problem = parse_problem(&domain, &text).expect("the problem is well formed");
    let limits = SearchLimits { seed, ..SearchLimits::default() };
    let SearchOutcome::Solved { solution, .. } = solve(&domain, &problem, limits, &mut || false) else {
        panic!("there is always a way to bring a parcel")
    };
    check(&domain, &problem, &solution).expect("the plan is valid");
    let found = dependencies(&domain, &problem, &solution);
    (domain, problem, solution, found)
}
