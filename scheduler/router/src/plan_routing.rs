//! Assigns agent types to the `auto` steps of a plan.

use std::collections::BTreeSet;

use goalmill_common::event::Route;
use goalmill_common::id::AgentType;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::{ERRORS_MAX, Issue};
use goalmill_plan::validate::no_live_worker;

use crate::{Router, Unroutable};

/// The result of routing a plan.
#[derive(Debug, Default, PartialEq)]
pub struct PlanRoutes {
    /// One route per `auto` step.
    pub routes: Vec<Route>,
    /// Chosen agent types without a live worker, each once.
    pub warnings: Vec<Issue>,
}

/// Replaces every `auto`, also in nested plans; returns an issue for each step that cannot be routed.
///
/// With issues the plan is only partly routed and must not be used.
pub fn route_plan(plan: &mut Plan, router: &Router) -> Result<PlanRoutes, Vec<Issue>> {
    let mut routing =
        PlanRouting { router, routed: PlanRoutes::default(), issues: Vec::new(), unserved: BTreeSet::new() };
    routing.route_steps(plan, "");
    if routing.issues.is_empty() { Ok(routing.routed) } else { Err(routing.issues) }
}

struct PlanRouting<'r> {
    router: &'r Router,
    routed: PlanRoutes,
    issues: Vec<Issue>,
    /// Agent types that already have a warning.
    unserved: BTreeSet<AgentType>,
}

impl PlanRouting<'_> {
    fn route_steps(&mut self, plan: &mut Plan, above: &str) {
        for (index, step) in plan.steps.iter_mut().enumerate() {
            // Created only when needed: most plans have nothing to route.
            let pointer = || format!("{above}/steps/{index}");
            if let Some(inner) = &mut step.plan {
                self.route_steps(inner, &format!("{}/plan", pointer()));
            }
            if step.agent_type.is_auto() && !step.kind.is_inline() {
                self.route_step(step, &pointer());
            }
        }
    }

    fn route_step(&mut self, step: &mut Step, pointer: &str) {
        match self.router.choose_for(&step_text(step), &step.action) {
            Ok(choice) => {
                self.warn_if_unserved(&choice.agent_type, pointer);
                step.agent_type = choice.agent_type.clone();
                self.routed.routes.push(Route {
                    step: step.id.clone(),
                    agent_type: choice.agent_type,
                    candidates: choice.candidates,
                    confidence: Some(choice.confidence),
                    took_ms: None,
                });
            }
            Err(unroutable) => self.issues.push(unroutable_issue(step, pointer, &unroutable)),
        }
    }

    /// Warns of an agent type without a live worker, once.
    fn warn_if_unserved(&mut self, agent_type: &AgentType, pointer: &str) {
        let is_known = self.unserved.contains(agent_type) || self.unserved.len() >= ERRORS_MAX;
        if !is_known && self.router.is_unserved(agent_type) {
            self.unserved.insert(agent_type.clone());
            self.routed.warnings.push(no_live_worker(agent_type, format!("{pointer}/agent_type")));
        }
    }
}

/// The texts of the `auto` steps, for [`Router::prefetch`].
pub fn auto_step_texts(plan: &Plan) -> Vec<String> {
    let mut texts = Vec::new();
    for step in &plan.steps {
        texts.extend(step.plan.iter().flat_map(|inner| auto_step_texts(inner)));
        if step.agent_type.is_auto() && !step.kind.is_inline() {
            texts.push(step_text(step));
        }
    }
    texts
}

/// The text of a step: its description and action.
pub fn step_text(step: &Step) -> String {
    format!("{} {}", step.description, crate::text_analysis::split_identifier(&step.action))
}

fn unroutable_issue(step: &Step, pointer: &str, unroutable: &Unroutable) -> Issue {
    let nearest: Vec<String> =
        unroutable.candidates.iter().map(|c| format!("`{}` ({:.2})", c.agent_type, c.similarity)).collect();
    let found = match nearest.as_slice() {
        [] => "no agent is similar to it".to_owned(),
        _ => format!("the nearest are {}", nearest.join(", ")),
    };
    Issue {
        code: "UNROUTABLE".into(),
        pointer: format!("{pointer}/agent_type"),
        detail: format!("no agent type fits step `{}`: {found}", step.id),
        hint: "name an agent type, extend `description`, start a worker that can do it, or lower `router.threshold`"
            .into(),
    }
}
