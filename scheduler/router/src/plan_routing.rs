//! Assigns agent types to the `auto` steps of a plan, and checks that each step goes to an agent that has its action.

use std::collections::BTreeSet;

use goalmill_common::agent::ActionOffer;
use goalmill_common::event::Route;
use goalmill_common::id::{AgentType, StepId};
use goalmill_common::plan::{Fallback, Plan, Step};
use goalmill_common::problem::{ERRORS_MAX, Issue};
use goalmill_common::text::shorten;
use goalmill_plan::validate::no_live_worker;

use crate::{Router, Unroutable};

/// Actions that a refusal lists.
const LISTED_MAX: usize = 8;
/// Characters of the name of an action that a refusal quotes.
const ACTION_CHARS_MAX: usize = 80;

/// The result of routing a plan.
#[derive(Debug, Default, PartialEq)]
pub struct PlanRoutes {
    /// One route per `auto` step.
    pub routes: Vec<Route>,
    /// Chosen agent types without a live worker, each once.
    pub warnings: Vec<Issue>,
    /// Steps whose fallback action goes to an agent type that the router chose.
    pub fallbacks: BTreeSet<StepId>,
}

/// Replaces every `auto`, also in nested plans; returns an issue for each step that cannot be routed.
///
/// Every plan goes through this function before it runs, that of a person as well as that of a planner. A step with an action goes only to an agent
/// type whose card has this action or declares none; so does a fallback action, as an action of its own. Agent types
/// without a card may be registered later, so they are kept.
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
            if !step.kind.needs_worker() || step.plan.is_some() {
                continue;
            }
            if step.agent_type.is_open() {
                self.route_step(step, &pointer());
            } else {
                self.check_action(&step.agent_type, &step.action, || format!("{}/action", pointer()));
            }
            if step.fallback.is_some() {
                self.route_fallback(step, &pointer());
            }
        }
    }

    /// Notes an issue if the card of an agent type does not have an action.
    fn check_action(&mut self, agent_type: &AgentType, action: &str, pointer: impl FnOnce() -> String) {
        if self.router.offer(agent_type, action).allows(action) {
            return;
        }
        let detail = format!("agent type `{agent_type}` has no action `{}`", shorten(action, ACTION_CHARS_MAX));
        self.refuse_action(detail, action, Some(agent_type), pointer());
    }

    /// Notes an issue that lists the nearest actions of an agent type, or of all.
    fn refuse_action(&mut self, detail: String, action: &str, agent_type: Option<&AgentType>, pointer: String) {
        if self.issues.len() >= ERRORS_MAX {
            return;
        }
        let names = self.router.near_actions(agent_type, action, LISTED_MAX);
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let hint = match names.as_slice() {
            [] => "register an agent that has it".to_owned(),
            _ => format!("use one of {}, or register an agent that has it", names.join(", ")),
        };
        self.issues.push(Issue { code: "UNKNOWN_ACTION".into(), pointer, detail, hint });
    }

    /// Routes a fallback action that the step's agent type does not have.
    fn route_fallback(&mut self, step: &mut Step, pointer: &str) {
        let Some(fallback) = step.fallback.clone() else { return };
        let action = fallback.action.clone().unwrap_or_else(|| step.action.clone());
        let place = || format!("{pointer}/fallback");
        if let Some(agent_type) = &fallback.agent_type {
            return self.check_action(agent_type, &action, place);
        }
        if action.is_empty() || self.router.offer(&step.agent_type, &action) == ActionOffer::Named {
            return;
        }
        if !self.router.is_named(&action) {
            // The agent type of the step takes any action, or has no card.
            return self.check_action(&step.agent_type, &action, place);
        }
        let text = format!("{} {}", step.description, crate::text_analysis::split_identifier(&action));
        if let Ok(choice) = self.router.choose(&text, &action) {
            step.fallback = Some(Fallback { agent_type: Some(choice.agent_type), ..fallback });
            self.routed.fallbacks.insert(step.id.clone());
        }
    }

    fn route_step(&mut self, step: &mut Step, pointer: &str) {
        // An agent that takes any action is chosen by words only where the step says `auto`.
        let may_choose = step.action.is_empty()
            || self.router.is_named(&step.action)
            || step.agent_type.is_auto() && self.router.is_offered(&step.action);
        if !may_choose {
            let detail = format!("no agent has an action `{}`", shorten(&step.action, ACTION_CHARS_MAX));
            return self.refuse_action(detail, &step.action, None, format!("{pointer}/action"));
        }
        match self.router.choose(&step_text(step), &step.action) {
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
