//! A plan held against the catalogue: who is to do each step, whether they can, and whether policy lets them.

use std::cell::RefCell;
use std::collections::BTreeSet;

use goalmill_common::agent::ActionOffer;
use goalmill_common::hash::HashSet;
use goalmill_common::id::{AgentType, StepId};
use goalmill_common::plan::{Approval, Plan, Step, StepKind};
use goalmill_common::problem::Issue;

use super::catalogue::Catalogue;
use super::graph::StepNumbers;
use super::origin::StepOrigin;
use super::rules::{Policy, Rules, Weight};
use super::{inputs, plan_inputs};
use crate::document::{DocumentPath, ValidationContext, shorten};

pub(super) fn check_agents(
    context: &ValidationContext<'_>,
    plan: &mut Plan,
    origins: &[StepOrigin<'_>],
    index: &StepNumbers,
) {
    plan_inputs::check_sub_plans(context, plan, origins);
    let Some(rules) = context.rules else { return };
    if let Some(catalogue) = rules.catalogue {
        let check = AgentCheck { context, rules, catalogue, reported: RefCell::default(), offered: RefCell::default() };
        for (step, origin) in plan.steps.iter().zip(origins).filter(|(step, _)| !step.kind.is_inline()) {
            check.step(step, origin);
            check.fallback(step, origin);
        }
        inputs::check_inputs(context, rules, catalogue, plan, origins, index);
    } else if let Some(live) = rules.live {
        warn_of_unserved(context, live, plan, origins);
    }
    if !rules.policy.is_empty() {
        plan.steps.iter_mut().zip(origins).for_each(|(step, origin)| permit(context, rules, step, origin));
    }
}

/// Warns of agent types without a live worker, each once: all that is looked at where there is no catalogue.
fn warn_of_unserved(
    context: &ValidationContext<'_>,
    live: &BTreeSet<AgentType>,
    plan: &Plan,
    origins: &[StepOrigin<'_>],
) {
    let mut reported: HashSet<&AgentType> = HashSet::default();
    let mut before: Option<&AgentType> = None;
    for (step, origin) in plan.steps.iter().zip(origins) {
        if step.kind.is_inline() || step.kind == StepKind::Plan || step.plan.is_some() {
            continue;
        }
        let fallback = step.fallback.as_ref().and_then(|fallback| fallback.agent_type.as_ref());
        for (agent_type, key) in [(Some(&step.agent_type), origin.agent_key), (fallback, "fallback")] {
            let Some(agent_type) = agent_type else { continue };
            // Most steps ask for the same as the step before.
            if before == Some(agent_type)
                || agent_type.is_open()
                || live.contains(agent_type)
                || !reported.insert(agent_type)
            {
                continue;
            }
            let Issue { code, detail, hint, .. } = no_live_worker(agent_type, String::new());
            origin.with_key(key, |at| context.warn(&code, at, detail, hint));
        }
        before = Some(&step.agent_type);
    }
}

/// A step waits until somebody starts a worker for its agent type.
pub fn no_live_worker(agent_type: &AgentType, pointer: String) -> Issue {
    Issue {
        code: "NO_LIVE_WORKER".into(),
        pointer,
        detail: format!("no live worker serves `{agent_type}`"),
        hint: format!("start one: goalmill worker --agents {agent_type}"),
    }
}

struct AgentCheck<'a, 'l> {
    context: &'a ValidationContext<'l>,
    rules: &'a Rules<'a>,
    catalogue: &'a Catalogue,
    /// Agent types that were reported.
    reported: RefCell<BTreeSet<String>>,
    /// Actions that somebody has, of steps that ask for any agent.
    offered: RefCell<HashSet<&'a str>>,
}

impl<'a> AgentCheck<'a, '_> {
    fn step(&self, step: &'a Step, origin: &StepOrigin<'_>) {
        if step.plan.is_some() || step.kind == StepKind::Plan {
            return;
        }
        if !step.agent_type.is_open() {
            origin.with_key(origin.agent_key, |at| self.agent(&step.agent_type, at));
        }
        if !step.action.is_empty() {
            origin.with_key(origin.action_key, |at| self.action(&step.agent_type, &step.action, at));
        }
    }

    /// A fallback that cannot be had is only noticed when it is needed most.
    fn fallback(&self, step: &'a Step, origin: &StepOrigin<'_>) {
        let Some(fallback) = &step.fallback else { return };
        let action = fallback.action.as_ref().unwrap_or(&step.action);
        origin.with_key("fallback", |at| {
            if let Some(agent_type) = &fallback.agent_type {
                self.agent(agent_type, at);
                if !action.is_empty() {
                    self.action(agent_type, action, at);
                }
            } else if !action.is_empty() && fallback.action.is_some() {
                self.fallback_action(&step.agent_type, action, at);
            }
        });
    }

    /// The router gives a fallback action that the agent of the step does not have to one that has it.
    fn fallback_action(&self, own: &AgentType, action: &'a str, at: &DocumentPath<'_>) {
        match self.catalogue.agent(own.as_str()) {
            Some(known) if known.offer(action) == ActionOffer::Named => {}
            None if !own.is_open() => {}
            Some(_) | None => self.action(&AUTO.into(), action, at),
        }
    }

    fn agent(&self, agent_type: &AgentType, at: &DocumentPath<'_>) {
        let agent_entry = self.catalogue.agent(agent_type.as_str());
        let slots = self.catalogue.slots(agent_type.as_str());
        let is_idle = agent_entry.is_some() && slots == 0 && self.catalogue.knows_workers();
        let is_unknown_error = agent_entry.is_none() && self.rules.weights.unknown_agent == Weight::Error;
        if agent_entry.is_some() && !is_idle {
            return;
        }
        // An error has to be repaired at each place; of a warning, once is enough.
        if !self.reported.borrow_mut().insert(agent_type.as_str().to_owned()) && !is_unknown_error {
            return;
        }
        if is_idle {
            let Issue { code, detail, hint, .. } = no_live_worker(agent_type, String::new());
            self.context.weigh(self.rules.weights.no_worker, &code, at, detail, hint);
            return;
        }
        let near = if self.context.may_guess() { self.catalogue.near_agents(agent_type.as_str()) } else { Vec::new() };
        let hint = proposal(&near, || "register it, start a worker for it, or write `auto`".to_owned());
        let detail = format!("there is no agent type `{}`", shorten(agent_type.as_str()));
        self.context.weigh(self.rules.weights.unknown_agent, "UNKNOWN_AGENT", at, detail, hint);
    }

    fn action(&self, agent_type: &AgentType, action: &'a str, at: &DocumentPath<'_>) {
        let detail = match self.catalogue.agent(agent_type.as_str()) {
            Some(agent_entry) if agent_entry.offer(action).allows(action) => return,
            Some(_) => format!("agent type `{agent_type}` has no action `{}`", shorten(action)),
            // An unknown agent type has its own issue.
            None if !agent_type.is_open() || agent_type.is_auto() && self.catalogue.is_open() => return,
            // Every agent has to be looked at, and many steps ask for the same.
            None if self.offered.borrow().contains(action) => return,
            None if !self.catalogue.find(agent_type.as_str(), action).is_empty() => {
                self.offered.borrow_mut().insert(action);
                return;
            }
            None => format!("no agent has an action `{}`", shorten(action)),
        };
        let near = if self.context.may_guess() {
            self.catalogue.near_actions(agent_type.as_str(), action)
        } else {
            Vec::new()
        };
        let hint = proposal(&near, || self.others(agent_type));
        self.context.weigh(self.rules.weights.unknown_action, "UNKNOWN_ACTION", at, detail, hint);
    }

    fn others(&self, agent_type: &AgentType) -> String {
        /// Actions that are listed when none looks like the one given.
        const LISTED: usize = 8;
        let names: Vec<&str> = match self.catalogue.agent(agent_type.as_str()) {
            Some(agent_entry) => agent_entry.actions.keys().map(String::as_str).take(LISTED).collect(),
            None => self.catalogue.action_entries().map(|(_, name, _)| name).take(LISTED).collect(),
        };
        match names.as_slice() {
            [] => "leave the action out".to_owned(),
            _ => format!("use one of {}", quoted(&names, ", ")),
        }
    }
}

fn proposal(near: &[&str], otherwise: impl FnOnce() -> String) -> String {
    match near {
        [] => otherwise(),
        _ => format!("did you mean {}?", quoted(near, " or ")),
    }
}

fn quoted(names: &[&str], between: &str) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(between)
}

/// Refuses what policy forbids, and has a person asked where it says so.
fn permit(context: &ValidationContext<'_>, rules: &Rules<'_>, step: &mut Step, origin: &StepOrigin<'_>) {
    if step.kind.is_inline() {
        return;
    }
    let pairs = pairs(step);
    let key = if step.action.is_empty() { origin.agent_key } else { origin.action_key };
    for (agent, action) in &pairs {
        // Whether the agent that the router chooses is among those allowed is seen then: see `permit_routed`.
        let forbidden = rules.policy.forbids(agent, action).filter(|by| !by.is_empty() || !is_open(agent));
        if let Some(pattern) = forbidden {
            let detail = denial(agent, action, pattern);
            origin.with_key(key, |at| context.error("ACTION_DENIED", at, detail, DENIED_HINT));
        }
    }
    let asks = pairs.iter().find_map(|(agent, action)| rules.policy.asks(agent, action));
    if let (Some(pattern), None) = (asks, step.approve) {
        step.approve = Some(Approval::default());
        let detail = format!("step `{}` waits for a person, as `{}` demands", step.id, shorten(pattern));
        origin.with_key(key, |at| {
            context.weigh(
                Weight::Warning,
                "APPROVAL_REQUIRED",
                at,
                detail,
                "set `approve` to choose limit and default",
            );
        });
    }
}

/// What the step may turn out to ask for: an agent type and an action, and those of its fallback.
fn pairs(step: &Step) -> Vec<(String, String)> {
    let agent = step.agent_type.as_str().to_owned();
    let mut pairs = vec![(agent.clone(), step.action.clone())];
    if let Some(fallback) = &step.fallback {
        let other = fallback.agent_type.as_ref().map_or(agent, |a| a.as_str().to_owned());
        pairs.push((other, fallback.action.clone().unwrap_or_else(|| step.action.clone())));
    }
    pairs
}

const AUTO: &str = "auto";
/// Whether the router chooses the agent type.
fn is_open(agent_type: &str) -> bool {
    AgentType::from(agent_type).is_open()
}

const DENIED_HINT: &str = "use another action, or change the policy";

fn denial(agent: &str, action: &str, pattern: &str) -> String {
    let what = shorten(if action.is_empty() { agent } else { action }).into_owned();
    match pattern {
        "" => format!("`{what}` is not among the actions that are allowed"),
        pattern => format!("`{what}` is denied by `{}`", shorten(pattern)),
    }
}

/// Holds the steps that the router has just given away against policy, in plans inside the plan too: refuses what it
/// forbids, and has a person asked where it says so. Returns the warnings.
pub fn permit_routed(plan: &mut Plan, routed: &BTreeSet<&StepId>, policy: &Policy) -> Result<Vec<Issue>, Vec<Issue>> {
    if routed.is_empty() { Ok(Vec::new()) } else { permit_those(plan, policy, &|step| routed.contains(&step.id)) }
}

/// Holds all steps of a plan that an agent gave against policy, as [`permit_routed`] does.
pub fn permit_all(plan: &mut Plan, policy: &Policy) -> Result<Vec<Issue>, Vec<Issue>> {
    permit_those(plan, policy, &|step| !step.kind.is_inline())
}

fn permit_those(plan: &mut Plan, policy: &Policy, is_meant: &dyn Fn(&Step) -> bool) -> Result<Vec<Issue>, Vec<Issue>> {
    let (mut warnings, mut wrong) = (Vec::new(), Vec::new());
    if !policy.is_empty() {
        permit_steps(plan, "", is_meant, policy, &mut warnings, &mut wrong);
    }
    if wrong.is_empty() { Ok(warnings) } else { Err(wrong) }
}

fn permit_steps(
    plan: &mut Plan,
    above: &str,
    is_meant: &dyn Fn(&Step) -> bool,
    policy: &Policy,
    warnings: &mut Vec<Issue>,
    wrong: &mut Vec<Issue>,
) {
    for (n, step) in plan.steps.iter_mut().enumerate() {
        let pointer = format!("{above}/steps/{n}");
        if let Some(inner) = &mut step.plan {
            permit_steps(inner, &format!("{pointer}/plan"), is_meant, policy, warnings, wrong);
        }
        if !is_meant(step) {
            continue;
        }
        let issue = |code: &str, detail: String, hint: &str| Issue {
            code: code.into(),
            pointer: format!("{pointer}/agent_type"),
            detail,
            hint: hint.into(),
        };
        let pairs = pairs(step);
        let denied = pairs.iter().find_map(|(agent, action)| Some((agent, action, policy.forbids(agent, action)?)));
        let asks = pairs.iter().find_map(|(agent, action)| policy.asks(agent, action));
        if let Some((agent, action, pattern)) = denied {
            let detail = format!("step `{}` would go to `{agent}`: {}", step.id, denial(agent, action, pattern));
            wrong.push(issue("ACTION_DENIED", detail, "name an agent type that may do it, or change the policy"));
        } else if let (Some(pattern), None) = (asks, step.approve) {
            let detail = format!("step `{}` waits for a person, as `{}` demands", step.id, shorten(pattern));
            warnings.push(issue("APPROVAL_REQUIRED", detail, "set `approve` to choose limit and default"));
            step.approve = Some(Approval::default());
        }
    }
}
