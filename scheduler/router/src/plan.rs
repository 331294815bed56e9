//! Gives the steps of a plan that ask for it to an agent type.

use std::collections::BTreeSet;

use goalmill_common::event::Route;
use goalmill_common::id::AgentType;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::{ERRORS_MAX, Issue};
use goalmill_plan::validate::no_live_worker;

use crate::{Router, Unroutable};

/// What the router made of a plan.
#[derive(Debug, Default, PartialEq)]
pub struct Routed {
    /// Its choices.
    pub routes: Vec<Route>,
    /// Agent types that it chose although they have no live worker, each once.
    pub warnings: Vec<Issue>,
}

/// Replaces every `auto`, in plans inside the plan too; all that cannot be routed is told at once.
///
/// The plan is left half routed when there are issues: it is not to be used then.
pub fn route_plan(plan: &mut Plan, router: &Router) -> Result<Routed, Vec<Issue>> {
    let mut routing = Routing { router, routed: Routed::default(), issues: Vec::new(), unserved: BTreeSet::new() };
    routing.steps(plan, "");
    if routing.issues.is_empty() { Ok(routing.routed) } else { Err(routing.issues) }
}

struct Routing<'r> {
    router: &'r Router,
    routed: Routed,
    issues: Vec<Issue>,
    /// Agent types without a live worker that were chosen before.
    unserved: BTreeSet<AgentType>,
}

impl Routing<'_> {
    fn steps(&mut self, plan: &mut Plan, above: &str) {
        for (index, step) in plan.steps.iter_mut().enumerate() {
            // Only for those that need it: most plans have nothing to route.
            let pointer = || format!("{above}/steps/{index}");
            if let Some(inner) = &mut step.plan {
                self.steps(inner, &format!("{}/plan", pointer()));
            }
            if step.agent_type.is_auto() && !step.kind.is_inline() {
                self.step(step, &pointer());
            }
        }
    }

    fn step(&mut self, step: &mut Step, pointer: &str) {
        match self.router.choose_for(&text(step), &step.action) {
            Ok(choice) => {
                self.warn(&choice.agent_type, pointer);
                step.agent_type = choice.agent_type.clone();
                self.routed.routes.push(Route {
                    step: step.id.clone(),
                    agent_type: choice.agent_type,
                    candidates: choice.candidates,
                    confidence: Some(choice.confidence),
                });
            }
            Err(unroutable) => self.issues.push(issue(step, pointer, &unroutable)),
        }
    }

    /// Warns of a choice without a live worker, once for each agent type.
    fn warn(&mut self, agent_type: &AgentType, pointer: &str) {
        let is_told = self.unserved.contains(agent_type) || self.unserved.len() >= ERRORS_MAX;
        if !is_told && self.router.is_unserved(agent_type) {
            self.unserved.insert(agent_type.clone());
            self.routed.warnings.push(no_live_worker(agent_type, format!("{pointer}/agent_type")));
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
        hint:
            "name an agent type, say more in `description`, start a worker that can do it, or lower `router.threshold`"
                .into(),
    }
}
