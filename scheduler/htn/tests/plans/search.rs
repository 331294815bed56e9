use goalmill_htn::{
    Domain, PlanningProblem, SearchLimits, SearchOutcome, Solution, parse_domain, parse_problem, solve,
};

use crate::checker::check;
use crate::fixtures::{MEALS, meals};

#[test]
fn a_deep_decomposition_takes_nodes_in_proportion_to_its_actions() {
    for guests in [20, 200] {
        let (solution, nodes) = solved(MEALS, &meals(guests));
        assert_eq!(solution.actions().count(), guests * 5);
        assert!(nodes <= guests as u64 * 10, "{guests} guests took {nodes} nodes");
    }
}

#[test]
fn the_same_seed_gives_the_same_plan() {
    assert_eq!(solved(MEALS, &meals(30)), solved(MEALS, &meals(30)));
}

#[test]
fn the_way_back_is_found_when_the_first_choice_was_wrong() {
    // Taking any key locks out the other; only the second one opens.
    let domain =
        "(define (domain keys) (:types key) (:predicates (free ?k - key) (opens ?k - key) (held ?k - key) (open))
      (:task enter :parameters ())
      (:method try :parameters (?k - key) :task (enter) :subtasks (and (a (take ?k)) (b (turn ?k))) :ordering (< a b))
      (:action take :parameters (?k - key) :precondition (free ?k)
        :effect (and (held ?k) (forall (?o - key) (not (free ?o)))))
      (:action turn :parameters (?k - key) :precondition (held ?k) :effect (when (opens ?k) (open))))";
    let problem = "(define (problem door) (:domain keys) (:objects red green - key)
      (:htn :subtasks (enter)) (:init (free red) (free green) (opens green)) (:goal (open)))";
    let (solution, _) = solved(domain, problem);
    assert_eq!(solution.action_lines(), ["(take green)", "(turn green)"]);
}

#[test]
fn tasks_in_any_order_may_have_to_mesh() {
    // Neither pair can run as a whole: each second half needs the other's first.
    let domain = "(define (domain mesh) (:predicates (a) (b))
      (:task left :parameters ()) (:task right :parameters ())
      (:method l :parameters () :task (left) :ordered-subtasks (and (l1) (l2)))
      (:method r :parameters () :task (right) :ordered-subtasks (and (r1) (r2)))
      (:action l1 :parameters () :effect (a)) (:action l2 :parameters () :precondition (b))
      (:action r1 :parameters () :precondition (a) :effect (b)) (:action r2 :parameters () :precondition (a)))";
    let problem = "(define (problem p) (:domain mesh) (:htn :subtasks (and (right) (left))) (:init))";
    let (solution, _) = solved(domain, problem);
    let place = |what: &str| solution.action_lines().iter().position(|a| a == what);
    assert!(place("(l1)") < place("(r1)") && place("(r1)") < place("(l2)"), "{:?}", solution.action_lines());
}

#[test]
fn a_problem_without_a_plan_is_proven_to_have_none() {
    let domain = "(define (domain loop) (:types x) (:predicates (p ?x - x) (q))
      (:task again :parameters (?x - x))
      (:method more :parameters (?x - x) :task (again ?x) :ordered-subtasks (and (act ?x) (again ?x)))
      (:method end :parameters (?x - x) :task (again ?x) :precondition (q) :ordered-subtasks ())
      (:action act :parameters (?x - x) :precondition (p ?x)))";
    let problem = "(define (problem p) (:domain loop) (:objects o - x) (:htn :subtasks (again o)) (:init (p o)))";
    let (domain, problem) = read(domain, problem);
    let outcome = solve(&domain, &problem, SearchLimits::default(), &mut || false);
    assert!(matches!(outcome, SearchOutcome::Exhausted { .. }), "{outcome:?}");
}

#[test]
fn limits_and_the_caller_end_a_search() {
    let domain = "(define (domain count) (:predicates (never)) (:task more :parameters ())
      (:method twice :parameters () :task (more) :ordered-subtasks (and (more) (tick) (more)))
      (:action tick :parameters () :precondition (never)))";
    let (domain, problem) = read(domain, "(define (problem p) (:domain count) (:htn :subtasks (more)) (:init))");
    let limits = SearchLimits { nodes_max: 10_000, depth_max: 1_000, ..SearchLimits::default() };
    let outcome = solve(&domain, &problem, limits, &mut || false);
    assert!(matches!(outcome, SearchOutcome::GaveUp { nodes } if nodes <= 10_000), "{outcome:?}");
    let stopped = solve(&domain, &problem, SearchLimits::default(), &mut || true);
    assert!(matches!(stopped, SearchOutcome::GaveUp { nodes: 0..=2_000 }), "{stopped:?}");
}

#[test]
fn types_and_constraints_narrow_what_is_tried() {
    let domain = "(define (domain sorts) (:types cat dog - animal animal - object)
      (:task pet :parameters (?a - animal))
      (:method any :parameters (?a ?b - animal) :task (pet ?a) :ordered-subtasks (and (stroke ?a ?b))
        :constraints (and (not (= ?a ?b)) (sortof ?b - dog)))
      (:action stroke :parameters (?a - cat ?b - (either cat dog))))";
    let problem = |who: &str| {
        format!(
            "(define (problem p) (:domain sorts) (:objects tom - cat rex - dog) (:htn :parameters (?x - {who})
             :subtasks (pet ?x) :constraints (not (= ?x rex))) (:init))"
        )
    };
    let (solution, _) = solved(domain, &problem("animal"));
    assert_eq!(solution.action_lines(), ["(stroke tom rex)"]);
    assert_eq!(solution.binding, ["tom"]);
    let (domain, problem) = read(domain, &problem("dog"));
    assert!(matches!(
        solve(&domain, &problem, SearchLimits::default(), &mut || false),
        SearchOutcome::Exhausted { .. }
    ));
}

fn read(domain: &str, problem: &str) -> (Domain, PlanningProblem) {
    let domain = parse_domain(domain).expect("the domain is well formed");
    let problem = parse_problem(&domain, problem).expect("the problem is well formed");
    (domain, problem)
}

fn solved(domain: &str, problem: &str) -> (Solution, u64) {
    let (domain, problem) = read(domain, problem);
    match solve(&domain, &problem, SearchLimits::default(), &mut || false) {
        SearchOutcome::Solved { solution, nodes } => {
            check(&domain, &problem, &solution).expect("the checker accepts what the search found");
            (solution, nodes)
        }
        other
        @ (SearchOutcome::Exhausted { .. } | SearchOutcome::GaveUp { .. } | SearchOutcome::Unsupported { .. }) => {
            panic!("{other:?}")
        }
    }
}
