//! Retries a step with another agent.

use std::collections::BTreeSet;

use goalmill_common::agent::{Action, Agent};
use goalmill_common::command::Proposal;
use goalmill_common::config::RouterSettings;
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::plan::Step;
use goalmill_common::revision::{Change, RevisionStrategy};
use goalmill_common::status::StepStatus;
use goalmill_router::Router;
use serde_json::Value;

use super::proposal;
use super::replan_case::{ReplanCase, inputs};

/// The step once more, by another agent that has the action, or one that the router finds near.
pub(super) fn other(case: &ReplanCase<'_>) -> Option<Proposal> {
    let step = case.step()?;
    let (change, agent) = retried(case, step)?;
    let summary = format!("`{}` is tried again by `{agent}` in place of `{}`", step.id, step.agent_type);
    Some(proposal(RevisionStrategy::RetryWithAgent, vec![change], summary))
}

/// The same for every step that has failed.
pub(super) fn others(case: &ReplanCase<'_>) -> Option<Proposal> {
    let failed = case
        .situation
        .plan
        .steps
        .iter()
        .filter(|step| case.at(&step.id).is_some_and(|at| at.status == StepStatus::Failed));
    let changes: Vec<Change> = failed.filter_map(|step| retried(case, step)).map(|(change, _)| change).collect();
    let summary = format!("{} failed steps are tried again by other agents", changes.len());
    (!changes.is_empty()).then(|| proposal(RevisionStrategy::RetryWithAgent, changes, summary))
}

fn retried(case: &ReplanCase<'_>, step: &Step) -> Option<(Change, AgentType)> {
    if step.agent_type.as_str().is_empty() {
        return None;
    }
    let tried = tried(case, step);
    let mut able: Vec<(&Agent, &str)> = case
        .request
        .agents
        .iter()
        .filter(|agent| !tried.contains(&agent.agent_type) && may_take(case, agent))
        .filter_map(|agent| Some((agent, same_action(agent, step)?)))
        .collect();
    able.sort_by(|(a, _), (b, _)| {
        let by_success = b.success_rate.total_cmp(&a.success_rate);
        by_success.then(a.cost.total_cmp(&b.cost)).then_with(|| a.agent_type.cmp(&b.agent_type))
    });
    let found = able.first().map(|(agent, action)| (agent.agent_type.clone(), (*action).to_owned()));
    let (agent_type, action) = found.or_else(|| near(case, step, &tried))?;
    let action = (action != step.action).then_some(action);
    let change =
        Change::RetryStep { step: step.id.clone(), agent_type: Some(agent_type.clone()), action, inputs: None };
    Some((change, agent_type))
}

/// Agents that have had their turn with this step.
fn tried(case: &ReplanCase<'_>, step: &Step) -> BTreeSet<AgentType> {
    let before = case.situation.revisions.iter().flat_map(|record| &record.modified);
    let before = before.filter(|modified| modified.after.id == step.id).map(|modified| &modified.before.agent_type);
    let fallback = step.fallback.iter().filter_map(|fallback| fallback.agent_type.as_ref());
    before.chain(fallback).chain([&step.agent_type]).cloned().collect()
}

/// The action of the same name, if its inputs can be given.
fn same_action<'a>(agent: &'a Agent, step: &Step) -> Option<&'a str> {
    let action = agent.actions.iter().find(|action| !step.action.is_empty() && action.name == step.action)?;
    takes(action, step).then_some(action.name.as_str())
}

/// Whether everything that an action cannot do without is there.
fn takes(action: &Action, step: &Step) -> bool {
    let given = inputs(step);
    let schema = action.inputs.as_ref().map(Json::value);
    let required = schema.as_ref().and_then(|schema| schema.get("required")).and_then(Value::as_array);
    required.is_none_or(|names| names.iter().filter_map(Value::as_str).all(|name| given.contains_key(name)))
}

/// Whether a step may be given to an agent: without a live worker it would wait for one. Where no worker is known at
/// all, every agent may come later.
fn may_take(case: &ReplanCase<'_>, agent: &Agent) -> bool {
    case.request.terms.workers.is_empty() || case.is_served(&agent.agent_type)
}

/// The agent that is nearest by the router, with the one of its actions that shares the most words with the step's.
fn near(case: &ReplanCase<'_>, step: &Step, tried: &BTreeSet<AgentType>) -> Option<(AgentType, String)> {
    let others = case.request.agents.iter().filter(|agent| !tried.contains(&agent.agent_type));
    nearest(step, others.filter(|agent| may_take(case, agent)).cloned().collect())
}

/// The nearest of these agents.
fn nearest(step: &Step, others: Vec<Agent>) -> Option<(AgentType, String)> {
    if others.is_empty() {
        return None;
    }
    let router = Router::new(RouterSettings { local_model: String::new(), ..RouterSettings::default() });
    router.update_agents(others.clone());
    let text = format!("{} {}", step.description, step.action.replace(['_', '.', '-'], " "));
    let choice = router.choose_for(&text, &step.action).ok()?;
    let agent = others.iter().find(|agent| agent.agent_type == choice.agent_type)?;
    if agent.actions.is_empty() {
        return Some((choice.agent_type, step.action.clone()));
    }
    let wanted = words(&text);
    let able = agent.actions.iter().filter(|action| takes(action, step));
    let shared = able.map(|action| (words(&action.name).intersection(&wanted).count(), action));
    let (common, action) = shared.max_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.name.cmp(&a.1.name)))?;
    (common > 0).then(|| (choice.agent_type, action.name.clone()))
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2).map(str::to_lowercase).collect()
}
