use goalmill_htn::{
    Decomposition, Domain, Formula, PlanningProblem, SearchLimits, SearchOutcome, Solution, parse_domain,
    parse_problem, solve,
};

use crate::checker::check;

const DOMAIN: &str = "(define (domain tea) (:types cup) (:predicates (hot) (full ?c - cup) (clean ?c - cup))
  (:task serve :parameters (?c - cup)) (:task prepare :parameters ())
  (:method with :parameters (?c - cup) :task (serve ?c) :precondition (clean ?c)
    :ordered-subtasks (and (prepare) (pour ?c)))
  (:method cold :parameters () :task (prepare) :precondition (not (hot)) :ordered-subtasks (and (boil)))
  (:method warm :parameters () :task (prepare) :precondition (hot) :ordered-subtasks ())
  (:action boil :parameters () :effect (hot))
  (:action pour :parameters (?c - cup) :precondition (hot) :effect (and (full ?c) (not (clean ?c)))))";
const PROBLEM: &str = "(define (problem two) (:domain tea) (:objects a b - cup)
  (:htn :ordered-subtasks (and (serve a) (serve b))) (:init (clean a) (clean b)) (:goal (and (full a) (full b))))";

#[test]
fn what_the_search_finds_is_accepted() {
    let (domain, problem, solution) = solved();
    assert_eq!(check(&domain, &problem, &solution), Ok(()));
    assert_eq!(solution.action_lines(), ["(boil)", "(pour a)", "(pour b)"]);
}

#[test]
fn whatever_is_changed_is_refused() {
    let (domain, problem, solution) = solved();
    let refused = |change: &dyn Fn(&mut Solution), told: &str| {
        let mut changed = solution.clone();
        change(&mut changed);
        assert_ne!(changed, solution);
        let flaw = check(&domain, &problem, &changed);
        assert!(flaw.as_ref().is_err_and(|e| e.contains(told)), "{told}: {flaw:?}");
    };
    let find = |task: &str| solution.nodes.iter().position(|n| n.task == task).expect("it is in the plan");
    let (boil, pour, serve) = (find("boil"), find("pour"), find("serve"));
    refused(&|s| s.events.retain(|e| *e != boil), "before node");
    refused(&|s| s.events.reverse(), "comes from no method");
    refused(&|s| s.events.push(pour), "done twice");
    refused(&|s| s.events.truncate(2), "never finished");
    refused(&|s| s.roots.swap(0, 1), "is not `serve a`");
    refused(&|s| s.roots.truncate(1), "2 subtasks are expected, not 1");
    refused(&|s| s.nodes[pour].arguments[0] = "b".into(), "is not `pour a`");
    refused(&|s| s.nodes[boil].task = "pour".into(), "is not `boil");
    refused(&|s| method(s, serve).binding[0] = "b".into(), "bound to other arguments");
    refused(&|s| method(s, serve).binding[0] = "c".into(), "`c` does not fit `?c`");
    refused(&|s| method(s, serve).children.reverse(), "is not `prepare");
    refused(&|s| method(s, serve).index = 9, "there is no method");
    refused(
        &|s| {
            let prepare = s.nodes.iter().rposition(|n| n.task == "prepare").expect("it is in the plan");
            (method(s, prepare).index, method(s, prepare).name) = (1, "cold".into());
        },
        "the precondition of method `cold` does not hold",
    );
    let unmet = PlanningProblem { goal: Formula::Not(Box::new(problem.goal.clone())), ..problem.clone() };
    assert!(check(&domain, &unmet, &solution).is_err_and(|e| e.contains("goal")));
    let dirty = PlanningProblem { init: problem.init[..1].to_vec(), ..problem.clone() };
    assert!(check(&domain, &dirty, &solution).is_err_and(|e| e.contains("method `with`")));
}

fn method(solution: &mut Solution, node: usize) -> &mut Decomposition {
    solution.nodes[node].method.as_mut().expect("the task is compound")
}

fn solved() -> (Domain, PlanningProblem, Solution) {
    let domain = parse_domain(DOMAIN).expect("the domain is well formed");
    let problem = parse_problem(&domain, PROBLEM).expect("the problem is well formed");
    match solve(&domain, &problem, SearchLimits::default(), &mut || false) {
        SearchOutcome::Solved { solution, .. } => (domain, problem, solution),
        other
        @ (SearchOutcome::Exhausted { .. } | SearchOutcome::GaveUp { .. } | SearchOutcome::Unsupported { .. }) => {
            panic!("{other:?}")
        }
    }
}
