//! Retries a step with another agent that has the same action.

use std::collections::BTreeSet;

use goalmill_common::agent::{Action, Agent};
use goalmill_common::command::Proposal;
use goalmill_common::failure::FailureClass;
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::plan::Step;
use goalmill_common::problem::Issue;
use goalmill_common::revision::{Change, RevisionStrategy, Trigger};
use goalmill_common::status::StepStatus;
use serde_json::{Map, Value};

use super::replan_case::{ReplanCase, inputs};
use super::{ReviseRequest, proposal};

/// The step once more, by another agent that has the action.
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
    if !may_change_agent(case, step) {
        return None;
    }
    let tried = tried(case, step);
    let others = case.request.agents.iter().filter(|agent| !tried.contains(&agent.agent_type) && may_take(case, agent));
    let able = others.filter(|agent| agent.action(&step.action).is_some_and(|action| takes(action, step)));
    let best = able.min_by(|a, b| {
        let by_success = b.success_rate.total_cmp(&a.success_rate);
        by_success.then(a.cost.total_cmp(&b.cost)).then_with(|| a.agent_type.cmp(&b.agent_type))
    });
    let agent_type = best?.agent_type.clone();
    let change =
        Change::RetryStep { step: step.id.clone(), agent_type: Some(agent_type.clone()), action: None, inputs: None };
    Some((change, agent_type))
}

/// Whether a step may go to an agent that the plan does not name: not one that changes something or is undone, and not
/// after a permanent failure.
pub(super) fn may_change_agent(case: &ReplanCase<'_>, step: &Step) -> bool {
    let failure = case.at(&step.id).and_then(|at| at.failure.as_ref());
    let is_permanent = failure.is_some_and(|failure| failure.class == FailureClass::Permanent);
    let is_undone = case.situation.plan.steps.iter().any(|other| other.undoes.as_ref() == Some(&step.id));
    !is_permanent && !has_side_effect(case, step) && !is_undone
}

fn has_side_effect(case: &ReplanCase<'_>, step: &Step) -> bool {
    let agents = case.request.agents.iter();
    agents.filter_map(|agent| agent.action(&step.action)).any(|action| action.side_effect)
}

/// Returns what is wrong with the steps that a proposal gives to other agents: an agent takes over only if it has the
/// same action or is the declared fallback, and an action that changes something goes to the fallback only if nothing was
/// done. A person may decide otherwise.
pub(crate) fn substitute_issues(request: &ReviseRequest, changes: &[Change]) -> Vec<Issue> {
    let Some(trigger) = Trigger::parse(&request.situation.trigger).filter(|trigger| *trigger != Trigger::UserRequest)
    else {
        return Vec::new();
    };
    let case = ReplanCase::new(request, trigger, None);
    changes.iter().enumerate().filter_map(|(n, change)| substitute_issue(&case, n, change)).collect()
}

/// The step, agent type and action of a change that gives a step which was tried to another agent.
fn substitute<'c>(case: &ReplanCase<'c>, change: &'c Change) -> Option<(&'c Step, AgentType, String)> {
    let text = |fields: &Map<String, Value>, name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let (step, other, action) = match change {
        Change::RetryStep { step, agent_type: Some(other), action, .. } => (step, other.clone(), action.clone()),
        Change::SetFields { step, fields } => {
            (step, AgentType::from(text(fields, "agent_type")?), text(fields, "action"))
        }
        Change::ModifyStep { step } => (&step.id, step.agent_type.clone(), Some(step.action.clone())),
        Change::RetryStep { .. }
        | Change::AddStep { .. }
        | Change::ReplaceStep { .. }
        | Change::AddPhase { .. }
        | Change::DecomposeStep { .. }
        | Change::RemoveStep { .. }
        | Change::SkipStep { .. }
        | Change::Order { .. }
        | Change::SkipPhase { .. } => return None,
    };
    let own = case.find(step).filter(|own| !own.action.is_empty())?;
    let was_tried = case.at(&own.id).is_some_and(|at| at.attempt > 0);
    let action = action.unwrap_or_else(|| own.action.clone());
    (was_tried && other != own.agent_type).then_some((own, other, action))
}

fn substitute_issue(case: &ReplanCase<'_>, n: usize, change: &Change) -> Option<Issue> {
    let (step, other, action) = substitute(case, change)?;
    let fallback = step.fallback.as_ref();
    let is_fallback = fallback.is_some_and(|fallback| fallback.agent_type.as_ref() == Some(&other));
    let is_same = action == step.action && case.agent(&other).is_none_or(|agent| agent.offer(&action).allows(&action));
    let may_be_done = case.at(&step.id).is_some_and(|at| at.may_be_done);
    let (code, detail) = if !is_fallback && !is_same {
        let detail = format!("agent type `{other}` does not have the action `{}` of step `{}`", step.action, step.id);
        ("UNKNOWN_ACTION", detail)
    } else if is_fallback && has_side_effect(case, step) && may_be_done {
        let detail = format!("step `{}` changes something and may be done: no other agent may try it", step.id);
        ("ACTION_DENIED", detail)
    } else if is_fallback || may_change_agent(case, step) {
        return None;
    } else {
        ("ACTION_DENIED", format!("step `{}` goes to no other agent than its declared fallback", step.id))
    };
    let hint = "name an agent type that may take over, replace the step, or choose another strategy".into();
    Some(Issue { code: code.into(), pointer: format!("/changes/{n}/agent_type"), detail, hint })
}

/// Agents that have had their turn with this step.
fn tried(case: &ReplanCase<'_>, step: &Step) -> BTreeSet<AgentType> {
    let before = case.situation.revisions.iter().flat_map(|record| &record.modified);
    let before = before.filter(|modified| modified.after.id == step.id).map(|modified| &modified.before.agent_type);
    let fallback = step.fallback.iter().filter_map(|fallback| fallback.agent_type.as_ref());
    before.chain(fallback).chain([&step.agent_type]).cloned().collect()
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
