//! Gives the steps of a plan that ask for it to an agent type.

use goalmill_common::event::Route;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::Issue;

use super::{Router, Unroutable};

/// Replaces every `auto`, in plans inside the plan too; all that cannot be routed is told at once.
///
/// The plan is left half routed when there are issues: it is not to be used then.
pub fn route_plan(plan: &mut Plan, router: &Router) -> Result<Vec<Route>, Vec<Issue>> {
    let mut routes = Vec::new();
    let mut issues = Vec::new();
    route_steps(plan, "", router, &mut routes, &mut issues);
    if issues.is_empty() { Ok(routes) } else { Err(issues) }
}

fn route_steps(plan: &mut Plan, above: &str, router: &Router, routes: &mut Vec<Route>, issues: &mut Vec<Issue>) {
    for (index, step) in plan.steps.iter_mut().enumerate() {
        // Only for those that need it: most plans have nothing to route.
        let pointer = || format!("{above}/steps/{index}");
        if let Some(inner) = &mut step.plan {
            route_steps(inner, &format!("{}/plan", pointer()), router, routes, issues);
        }
        if !step.agent_type.is_auto() || step.kind.is_inline() {
            continue;
        }
        match router.choose_for(&text(step), &step.action) {
            Ok(choice) => {
                step.agent_type = choice.agent_type.clone();
                routes.push(Route {
                    step: step.id.clone(),
                    agent_type: choice.agent_type,
                    candidates: choice.candidates,
                    confidence: Some(choice.confidence),
                });
            }
            Err(unroutable) => issues.push(issue(step, &pointer(), &unroutable)),
        }
    }
}

/// What the steps that ask for an agent want done, as the router reads it; for [`Router::prepare`].
pub fn texts(plan: &Plan) -> Vec<String> {
    let mut texts = Vec::new();
    for step in &plan.steps {
        texts.extend(step.plan.iter().flat_map(|inner| self::texts(inner)));
        if step.agent_type.is_auto() && !step.kind.is_inline() {
            texts.push(text(step));
        }
    }
    texts
}

/// What is to be done, in words: what the router reads of a step, and learns from.
pub fn text(step: &Step) -> String {
    format!("{} {}", step.description, super::words::words_of(&step.action))
}

fn issue(step: &Step, pointer: &str, unroutable: &Unroutable) -> Issue {
    let nearest: Vec<String> =
        unroutable.candidates.iter().map(|c| format!("`{}` ({:.2})", c.agent_type, c.similarity)).collect();
    let found = match nearest.as_slice() {
        [] => "nobody has anything in common with it".to_owned(),
        _ => format!("the nearest are {}", nearest.join(", ")),
    };
    Issue {
        code: "UNROUTABLE".into(),
        pointer: format!("{pointer}/agent_type"),
        detail: format!("no agent type fits step `{}`: {found}", step.id),
        mend:
            "name an agent type, say more in `description`, start a worker that can do it, or lower `router.threshold`"
                .into(),
    }
}
