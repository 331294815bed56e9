//! Replaces unknown names of agents and actions by names of the catalogue.

use std::collections::BTreeSet;

use goalmill_plan::validate::Catalogue;
use goalmill_plan::validate::names::{normal, only_slip};

use super::context::RepairContext;

/// Replaces agent types that are not registered.
pub(super) fn agents(work: &mut RepairContext<'_>) {
    let Some(catalogue) = work.catalogue() else { return };
    for step in 0..work.steps.len() {
        let (agent, action) = (work.agent(step), work.action(step));
        let offers =
            |agent: &str| catalogue.agent(agent).is_some_and(|agent_entry| agent_entry.actions.contains_key(&action));
        let others: Vec<&str> =
            catalogue.action_entries().filter(|(_, name, _)| *name == action).map(|(a, _, _)| a).collect();
        if agent == "auto" {
            agent_in_action(work, catalogue, step, &action);
            continue;
        }
        let known = catalogue.agent(&agent);
        if let ([only], false) = (others.as_slice(), action.is_empty() || offers(&agent))
            && known.is_some_and(|agent_entry| !agent_entry.actions.is_empty())
        {
            let why = format!("only `{only}` offers `{action}`");
            work.set(step, "agent_type", (*only).into(), "AGENT_BY_ACTION", why);
            continue;
        }
        if known.is_some() {
            continue;
        }
        let named: Vec<&str> = catalogue
            .action_entries()
            .filter(|(_, name, _)| normal(name) == normal(&agent))
            .map(|(a, _, _)| a)
            .collect();
        let same: Vec<&str> =
            catalogue.agents().map(|(name, _)| name).filter(|n| normal(n) == normal(&agent)).collect();
        if let [only] = same.as_slice() {
            work.set(
                step,
                "agent_type",
                (*only).into(),
                "AGENT_NORMAL_FORM",
                "the same name, spelled otherwise".into(),
            );
        } else if let (Some(only), []) = (only_slip(&agent, catalogue.agents().map(|(name, _)| name)), same.as_slice())
        {
            work.set(step, "agent_type", only.into(), "AGENT_SIMILAR", "one letter of its name is wrong".into());
        } else if let ([only], true) = (named.as_slice(), action.is_empty()) {
            let name = catalogue.action_entries().find(|(a, name, _)| a == only && normal(name) == normal(&agent));
            let name = name.map(|(_, name, _)| name.to_owned()).unwrap_or_default();
            work.set(
                step,
                "agent_type",
                (*only).into(),
                "AGENT_BY_ACTION",
                format!("`{agent}` is an action of `{only}`"),
            );
            work.set(step, "action", name.into(), "ACTION_FROM_AGENT", format!("`{agent}` is an action of `{only}`"));
        }
    }
}

/// An action that no agent offers and that is the name of an agent type says who does the step.
fn agent_in_action(work: &mut RepairContext<'_>, catalogue: &Catalogue, step: usize, action: &str) {
    if action.is_empty() || !work.has(step, "action") || !catalogue.find("auto", action).is_empty() {
        return;
    }
    let same = catalogue.agents().map(|(name, _)| name).filter(|n| normal(n) == normal(action));
    let Some(name) = catalogue.agent(action).map(|_| action).or_else(|| only(same)) else { return };
    let offered = catalogue.agent(name).and_then(|agent| only(agent.actions.keys()).cloned()).unwrap_or_default();
    let why = || format!("`{action}` is no action, and `{name}` is an agent type");
    work.set(step, "agent_type", name.into(), "AGENT_FROM_ACTION", why());
    work.set(step, "action", offered.into(), "AGENT_FROM_ACTION", why());
}

/// Replaces actions that their agent does not offer by the same name in its own spelling, or without one wrong letter. A
/// name that is only similar is left for the critique, which lists the nearest ones.
pub(super) fn actions(work: &mut RepairContext<'_>) {
    let Some(catalogue) = work.catalogue() else { return };
    for step in 0..work.steps.len() {
        let (agent, action) = (work.agent(step), work.action(step));
        let is_open = catalogue.agent(&agent).is_some_and(|agent_entry| agent_entry.actions.is_empty());
        let is_lost = agent != "auto" && catalogue.agent(&agent).is_none();
        if action.is_empty() || is_open || is_lost || !catalogue.find(&agent, &action).is_empty() {
            continue;
        }
        let of_agent = catalogue.action_entries().filter(|(owner, _, _)| agent == "auto" || *owner == agent);
        let names: BTreeSet<&str> = of_agent.map(|(_, name, _)| name).collect();
        let field = if work.has(step, "action") { "action" } else { "task" };
        if let Some(name) = only(names.iter().copied().filter(|name| normal(name) == normal(&action))) {
            work.set(step, field, name.into(), "ACTION_NORMAL_FORM", "the same name, spelled otherwise".into());
        } else if let Some(name) = only_slip(&action, names.iter().copied()) {
            work.set(step, field, name.into(), "ACTION_SIMILAR", "one letter of its name is wrong".into());
        } else if agent == "auto" {
            action_is_text(work, step, &action);
        }
    }
}

/// An action of several words that no agent offers is the text of a step that has none.
fn action_is_text(work: &mut RepairContext<'_>, step: usize, action: &str) {
    let has_text = !work.text(step, "description").is_empty();
    if action.split_whitespace().count() < 3 || has_text || !work.has(step, "action") {
        return;
    }
    let why = "no action is called so, and the step has no other text";
    work.set(step, "description", action.into(), "TEXT_IS_DESCRIPTION", why.to_owned());
    work.set(step, "action", String::new().into(), "ACTION_DROPPED", why.to_owned());
}

fn only<T>(mut found: impl Iterator<Item = T>) -> Option<T> {
    let first = found.next();
    if found.next().is_some() { None } else { first }
}
