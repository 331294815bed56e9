//! Forks a plan: starts a new plan from the state of another one.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::response::Response;
use goalmill_common::command::{Submit, content_fingerprint};
use goalmill_common::id::{PlanId, StepId};
use goalmill_common::json::Json as Payload;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_engine::Rejection;
use goalmill_plan::validate;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::edit::issue;
use super::plan_access::{load_plan, load_plan_at};
use super::principal::Principal;
use super::response::accepted;
use super::response::{self, ApiError};
use super::submit::SubmissionHeaders;
use super::{Api, payloads};
use crate::{shard_client, submission};

/// The differences to the original plan.
#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Fork")]
pub(super) struct ForkBody {
    /// The revision to start from; default the current state.
    revision: Option<u32>,
    /// This step and its dependents run again.
    step: Option<StepId>,
    /// Replans the remaining steps before any step is dispatched; without it the plan does not change.
    planner: Option<String>,
    /// Whether no other planner is asked.
    only: bool,
    model: Option<String>,
    /// Inputs by step; they replace those of the same name, and the step runs again.
    inputs: BTreeMap<StepId, Map<String, Value>>,
    reason: String,
    actor: String,
}

/// `POST /v1/plans/{id}:fork`.
pub(super) async fn fork(
    api: &Api,
    principal: &Principal,
    id: &str,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response, ApiError> {
    let asked: ForkBody = response::parse_json(body)?;
    let actor = principal.actor_named(&asked.actor)?;
    let content = content_fingerprint(&format!("fork {id}"), &response::parse_json(body)?);
    let sent = SubmissionHeaders::parse(api, headers, &content, body.len())?;
    if let Some((plan, status)) = sent.find_previous(api, principal).await? {
        return Ok(accepted(plan, status, Vec::new()));
    }
    let now = load_plan(api, id).await?;
    let from = load_plan_at(api, id, asked.revision).await?;
    let SubmissionHeaders { key, fingerprint, traceparent, received_ms, bytes } = sent;
    let submission = key.unwrap_or_else(|| api.scheduler.random.token());
    let made = goalmill_engine::fork(&from, &now, asked.step.as_ref(), submission, "http".into());
    let mut submit = Submit { fingerprint, traceparent, ..made.map_err(|rejection| refusal(&rejection))? };
    replace_inputs(api, &mut submit, asked.inputs)?;
    let plan = PlanId::derive(api.scheduler.shards, &principal.namespace, &submit.submission);
    let mut given = submit.goal.metadata.get("inputs").map(Payload::from_value);
    let kept = submit.fork.iter_mut().flat_map(|fork| fork.kept.values_mut());
    payloads::copy_kept(api, from.id(), &plan, kept.chain(&mut given)).await?;
    submit.goal.metadata.extend(given.map(|given| ("inputs".to_owned(), given.value())));
    let planning = &mut submit.goal.planning;
    planning.planner = asked.planner.clone().or(planning.planner.take());
    planning.model = asked.model.clone().or(planning.model.take());
    planning.planner_only = if asked.planner.is_some() { asked.only } else { planning.planner_only };
    if !asked.reason.is_empty() {
        submit.goal.metadata.insert("fork_reason".into(), asked.reason.as_str().into());
    }
    submission::check_planning(&api.scheduler, &submit.goal).map_err(|mut problem| {
        for issue in &mut problem.errors {
            issue.pointer = issue.pointer.replacen("/planning", "", 1);
        }
        problem
    })?;
    if let (Some(fork), true) = (&mut submit.fork, asked.planner.is_some() || asked.model.is_some()) {
        let reason = if asked.reason.is_empty() { "the fork is to be planned again".into() } else { asked.reason };
        fork.replan = Some(reason);
    }
    api.scheduler.health.check_admission()?;
    let request = shard_client::submit_request(&api.scheduler, &actor, &principal.namespace, submit);
    let (plan, status) =
        shard_client::send_submission(&api.scheduler, &api.shards, request, received_ms, bytes).await?;
    Ok(accepted(plan, status, Vec::new()))
}

/// Replaces inputs of steps; results of these steps and their dependents are dropped.
fn replace_inputs(
    api: &Api,
    submit: &mut Submit,
    inputs: BTreeMap<StepId, Map<String, Value>>,
) -> Result<(), ApiError> {
    let (Some(planned), Some(fork)) = (&mut submit.plan, &mut submit.fork) else { return Ok(()) };
    let steps = &mut planned.plan.steps;
    let mut issues: Vec<Issue> = Vec::new();
    let mut again: BTreeSet<StepId> = BTreeSet::new();
    for (id, fields) in inputs {
        let Some(step) = steps.iter_mut().find(|step| step.id == id) else {
            let place = format!("/inputs/{id}");
            issues.push(issue("UNKNOWN_STEP", &place, format!("there is no step `{id}`"), "name a step of the plan"));
            continue;
        };
        let mut own = if let Value::Object(own) = step.inputs.value() { own } else { Map::new() };
        own.extend(fields);
        step.inputs = Payload::from_value(&own);
        again.insert(id);
    }
    let changed = again.clone();
    loop {
        let next = steps.iter().filter(|step| step.dependencies.iter().any(|id| again.contains(id)));
        let next: Vec<StepId> = next.map(|step| step.id.clone()).filter(|id| !again.contains(id)).collect();
        if next.is_empty() {
            break;
        }
        again.extend(next);
    }
    fork.kept.retain(|id, _| !again.contains(id));
    if issues.is_empty() && !changed.is_empty() {
        let document = serde_json::to_value(&planned.plan).unwrap_or_default();
        let found = validate::validate_plan(&document, &api.scheduler.settings.limits).err().unwrap_or_default();
        // Kept steps were validated before; only changed steps are.
        let places = planned.plan.steps.iter().enumerate().filter(|(_, step)| changed.contains(&step.id));
        let places: Vec<(String, &StepId)> = places.map(|(n, step)| (format!("/steps/{n}/inputs"), &step.id)).collect();
        for mut wrong in found {
            let place = places.iter().find_map(|(place, id)| Some((wrong.pointer.strip_prefix(place.as_str())?, id)));
            let Some((rest, id)) = place else { continue };
            wrong.pointer = format!("/inputs/{id}{rest}");
            issues.push(wrong);
        }
    }
    if issues.is_empty() {
        return Ok(());
    }
    Err(Problem::new(ErrorCode::InvalidPlan, "the fork would not be valid").with_errors(issues).into())
}

fn refusal(rejection: &Rejection) -> ApiError {
    let unknown = matches!(rejection, Rejection::UnknownStep { .. });
    let code = if unknown { ErrorCode::StepNotFound } else { ErrorCode::NotAllowed };
    ApiError(Problem::new(code, rejection.to_string()))
}
