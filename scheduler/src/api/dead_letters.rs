//! Dead letters: list, retry, discard. Submissions that were refused: list.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use goalmill_broker::DeadLetter;
use goalmill_common::blob_ref;
use goalmill_common::call::LeftOutCalls;
use goalmill_common::command::{Request, Submit};
use goalmill_common::event::{Event, Record};
use goalmill_common::goal::Goal;
use goalmill_common::id::{AgentType, EntryId, Namespace, PlanId};
use goalmill_common::json::Json as Payload;
use goalmill_common::number::{to_u32, to_usize};
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::revision::Fork;
use goalmill_common::task::Task;
use goalmill_common::view::{DeadLetterView, Page, RefusedSubmissionView, summary_namespace};
use goalmill_engine::{calls, revise};
use goalmill_plan::validate;
use goalmill_planning::rules::literal;
use goalmill_shard::stream_answers;
use serde_json::Value;

use super::Api;
use super::namespaces;
use super::payloads;
use super::principal::Principal;
use super::registry::parse_agent_type;
use super::response::accepted;
use super::response::{self, ApiError, unknown_verb};
use crate::event_log::{self, ReadError};
use crate::shard_client;

/// Dead letters per page.
const LETTERS: usize = 100;
/// Dead letters searched for one; more than are stored.
const SEARCHED_MAX: usize = 20_000;

pub(crate) async fn list(
    State(api): State<Api>,
    principal: Principal,
    Path(agent_type): Path<String>,
) -> Result<Json<Page<DeadLetterView>>, ApiError> {
    let items = views(&api, &principal, &parse_agent_type(agent_type)?, LETTERS).await?;
    Ok(Json(Page { items, next: None }))
}

/// Dead letters of all agent types, an equal number of each.
pub(crate) async fn list_all(
    State(api): State<Api>,
    principal: Principal,
) -> Result<Json<Page<DeadLetterView>>, ApiError> {
    let mut queues = api.scheduler.broker.queues().await?;
    queues.retain(|queue| queue.dead_letters > 0);
    let each = (LETTERS / queues.len().max(1)).max(1);
    let mut items = Vec::new();
    for queue in queues {
        items.extend(views(&api, &principal, &queue.agent_type, each).await?);
    }
    Ok(Json(Page { items, next: None }))
}

/// Submissions by stream that were refused in the last week, newest first.
pub(crate) async fn list_refused(
    State(api): State<Api>,
    principal: Principal,
) -> Result<Json<Page<RefusedSubmissionView>>, ApiError> {
    let streams = api.scheduler.settings.scheduler.goal_streams.iter().map(|name| Namespace::from(name.as_str()));
    let namespaces: BTreeSet<Namespace> = streams.chain([Namespace::default()]).collect();
    let mut items = Vec::new();
    for namespace in namespaces.iter().filter(|namespace| principal.may_see(namespace)) {
        let refused = api.scheduler.broker.refused(namespace, LETTERS).await?;
        items.extend(refused.iter().map(|entry| stream_answers::view(namespace, &entry.id, &entry.fields)));
    }
    items.sort_by(|a, b| b.refused_at.cmp(&a.refused_at));
    items.truncate(LETTERS);
    Ok(Json(Page { items, next: None }))
}

async fn views(
    api: &Api,
    principal: &Principal,
    agent_type: &AgentType,
    limit: usize,
) -> Result<Vec<DeadLetterView>, ApiError> {
    let letters = api.scheduler.broker.dead_letters(agent_type, limit).await?;
    let plans = api.scheduler.plans.as_ref();
    let letters = namespaces::keep_seen(plans, principal, letters, |(_, letter)| &letter.plan).await?;
    Ok(letters.into_iter().map(|(entry, letter)| view(entry, letter)).collect())
}

fn view(entry: EntryId, letter: DeadLetter) -> DeadLetterView {
    let DeadLetter { agent_type, plan, step, attempt, code, reason, task } = letter;
    let task = serde_json::from_str(&task).unwrap_or_else(|_| Value::String(task));
    DeadLetterView { entry, agent_type, plan_id: plan, step_id: step, attempt, code, reason, task }
}

/// `POST /v1/dead-letters/{agent_type}/{entry}:retry` and `:discard`.
pub(crate) async fn act(
    State(api): State<Api>,
    principal: Principal,
    Path((agent_type, address)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let agent_type = parse_agent_type(agent_type)?;
    let (entry, verb) = address.rsplit_once(':').unwrap_or((&address, ""));
    let entry = EntryId::from(entry);
    if !matches!(verb, "retry" | "discard") {
        return Err(unknown_verb(verb, "retry, discard"));
    }
    let letter = find(&api, &principal, &agent_type, &entry).await?;
    let answer = if verb == "retry" {
        let received_ms = api.scheduler.clock.now_ms();
        let (request, warnings) = retry_request(&api, &principal, &entry, &letter).await?;
        let bytes = serde_json::to_vec(&request).map_or(letter.task.len(), |request| request.len());
        let sent = shard_client::send_submission(&api.scheduler, &api.shards, request, received_ms, bytes).await;
        let (plan_id, status) = sent?;
        accepted(plan_id, status, warnings)
    } else {
        Json(view(entry.clone(), letter)).into_response()
    };
    api.scheduler.broker.discard_dead_letter(&agent_type, &entry).await?;
    Ok(answer)
}

async fn find(
    api: &Api,
    principal: &Principal,
    agent_type: &AgentType,
    entry: &EntryId,
) -> Result<DeadLetter, ApiError> {
    let mut found = Vec::new();
    // Lists show the newest: who acts on many of them need not read all for each.
    for limit in [LETTERS, SEARCHED_MAX] {
        let letters = api.scheduler.broker.dead_letters(agent_type, limit).await?;
        found.extend(letters.into_iter().find(|(known, _)| known == entry));
        if !found.is_empty() {
            break;
        }
    }
    let plans = api.scheduler.plans.as_ref();
    let found = namespaces::keep_seen(plans, principal, found, |(_, letter)| &letter.plan).await?.pop();
    found.map(|(_, letter)| letter).ok_or_else(|| {
        let detail = format!("`{agent_type}` has no dead letter `{}`", response::shown(entry.as_str()));
        ApiError(Problem::new(ErrorCode::DeadLetterNotFound, detail))
    })
}

/// A plan of one step that runs the task again, with the recorded calls of the failed attempts. Its id derives from the dead
/// letter, so that a repeated retry is the same plan. The original plan does not change.
async fn retry_request(
    api: &Api,
    principal: &Principal,
    entry: &EntryId,
    letter: &DeadLetter,
) -> Result<(Request, Vec<Issue>), ApiError> {
    let unfit = |why: String| {
        let detail = format!("the task of the dead letter cannot be run again: {why}; discard the letter");
        ApiError(Problem::new(ErrorCode::NotAllowed, detail))
    };
    let task: Task = serde_json::from_str(&letter.task).map_err(|error| unfit(error.to_string()))?;
    let submission = format!("dead:{}:{entry}", letter.agent_type);
    let plan = PlanId::derive(api.scheduler.shards, &principal.namespace, &submission);
    // They are rendered already: an expression in them is data.
    let mut inputs = literal(task.inputs.value()).into();
    if payloads::copy_kept(api, &letter.plan, &plan, std::iter::once(&mut inputs)).await? > 0 {
        return Err(unfit("a large input is no longer stored".into()));
    }
    let (fork, warnings) = kept_calls(api, &letter.plan, &task, &plan).await?;
    let step = Step {
        description: format!("step `{}` of plan `{}`, once more", task.step, task.plan),
        action: task.action,
        inputs,
        timeout_ms: Some(task.timeout_ms),
        ..Step::new(task.step.clone(), task.agent_type)
    };
    let name = format!("{} of {}, once more", task.step, task.plan);
    let draft = serde_json::to_value(Plan { name, steps: vec![step], ..Plan::default() });
    let draft = draft.expect("a plan always has a JSON form");
    let valid = validate::validate_plan(&draft, &api.scheduler.settings.limits)
        .map_err(|issues| unfit(issues.first().map(|issue| issue.detail.clone()).unwrap_or_default()))?;
    let namespace = summary_namespace(&api.scheduler.plans.summary(&letter.plan).await?);
    let submit = Submit {
        goal: Goal { namespace: Some(namespace).filter(|namespace| !namespace.is_default()), ..Goal::default() },
        plan: Some(valid.without_routing().submitted()),
        submission,
        fingerprint: String::new(),
        entry: None,
        source: "dead-letter".into(),
        parent: None,
        traceparent: task.traceparent,
        fork,
    };
    Ok((shard_client::submit_request(&api.scheduler, &principal.actor, &principal.namespace, submit), warnings))
}

/// The recorded calls of the failed attempts, as a fork of their plan whose step begins with them. A warning says what is not
/// kept, because its log or a large outcome is no longer stored or the limits are lower now.
///
/// - `from`, `plan`: the plan of the letter, and the new one.
async fn kept_calls(
    api: &Api,
    from: &PlanId,
    task: &Task,
    plan: &PlanId,
) -> Result<(Option<Box<Fork>>, Vec<Issue>), ApiError> {
    let ends = |record: &Record| {
        let Event::Step { step, attempt, event, .. } = &record.event else { return false };
        (step, *attempt) == (&task.step, task.attempt) && event.drops_calls()
    };
    let now = match event_log::read_plan_state(api.scheduler.plans.as_ref(), from).await {
        Err(ReadError::Broker(error)) => return Err(error.into()),
        now => now.ok().flatten(),
    };
    if now.is_some_and(|now| revise::was_step_undone(&now, &task.step)) {
        let detail = "what the failed attempts did was undone: their recorded calls are made again";
        return Ok((None, vec![not_kept(detail.into())]));
    }
    let state = match event_log::read_plan_state_until(api.scheduler.plans.as_ref(), from, ends).await {
        Err(ReadError::Broker(error)) => return Err(error.into()),
        // A damaged log does not stop the task.
        state => state.ok().flatten(),
    };
    let found = state.and_then(|state| Some((state.revision(), calls::paid_calls(&state, &task.step, task.attempt)?)));
    let Some((revision, recorded)) = found else {
        let detail = "the log of the failed attempts is no longer stored: their recorded calls are made again";
        return Ok((None, vec![not_kept(detail.into())]));
    };
    let (limits, count) = (&api.scheduler.settings.limits, recorded.len());
    let (mut calls, mut bytes, mut left_out) = (Vec::new(), 0_usize, LeftOutCalls::default());
    for mut call in recorded {
        if left_out.contain(&call) {
            continue;
        }
        let is_reference =
            |outcome: &Payload| blob_ref::may_contain(outcome) && blob_ref::key(&outcome.value()).is_some();
        let is_large = call.outcome.as_ref().is_some_and(is_reference);
        if payloads::copy_kept(api, from, plan, call.outcome.iter_mut()).await? > 0 && is_large {
            left_out.add(&call);
            continue;
        }
        let sum = bytes.saturating_add(call.bytes());
        if calls.len() < to_usize(limits.calls_max) && sum <= limits.calls_bytes_max {
            bytes = sum;
            call.n = to_u32(calls.len() + 1);
            calls.push(call);
        } else {
            left_out.add(&call);
        }
    }
    let missing = count - calls.len();
    let warnings = (missing > 0).then(|| {
        not_kept(format!("{missing} of {count} recorded calls are too large, or no longer stored: they are made again"))
    });
    let fork = (!calls.is_empty()).then(|| {
        Box::new(Fork {
            plan: from.clone(),
            revision,
            step: Some(task.step.clone()),
            kept: BTreeMap::new(),
            partial: BTreeMap::new(),
            calls: BTreeMap::from([(task.step.clone(), calls)]),
            replan: None,
        })
    });
    Ok((fork, warnings.into_iter().collect()))
}

fn not_kept(detail: String) -> Issue {
    let hint = "what they did is done twice if it has no key of its own".into();
    Issue { code: "CALLS_NOT_KEPT".into(), pointer: String::new(), detail, hint }
}
