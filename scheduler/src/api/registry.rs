//! Agents, workers, queues, schemas, and numbers for autoscalers.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use goalmill_broker::{BrokerError, KeyTypeMismatch};
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::card::read_card;
use goalmill_common::document_format::DocumentFormat;
use goalmill_common::event::RouteCandidate;
use goalmill_common::id::{AgentType, is_id};
use goalmill_common::number::{to_usize, whole_u64};
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::shard_load::Load;
use goalmill_common::view::{ModelView, Page, PlannerView, QueueView};
use goalmill_engine::{AgentHealth, ExplainContext};
use goalmill_formats::format_schema;
use goalmill_plan::schema::{SCHEMA_BYTES_MAX, Unusable, compiled_bytes, unusable};
use goalmill_router::Ranking;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::Api;
use super::response::{self, ApiError, ApiResult, Body, unknown_verb};
use crate::scaling;
use crate::submission::issues_problem;

pub(crate) async fn agents(State(api): State<Api>) -> ApiResult<Page<Agent>> {
    let items = api.scheduler.broker.agents().await?.agents;
    Ok(Json(Page { items, next: None }))
}

pub(crate) async fn register(State(api): State<Api>, body: Body) -> Result<(StatusCode, Json<Agent>), ApiError> {
    let card = response::require_small(response::body(body)?)?;
    let agent = read_card(&card).map_err(|issues| ApiError(issues_problem(ErrorCode::InvalidRequest, issues)))?;
    check_schemas(&agent, api.scheduler.settings.limits.schemas_bytes_max)?;
    api.scheduler.broker.open_queue(&agent.agent_type).await?;
    api.scheduler.broker.register(&agent).await?;
    api.scheduler.directory.refresh().await?;
    Ok((StatusCode::CREATED, Json(agent)))
}

/// Rejects unusable schemas, each with its pointer in the card, and the first one that is too much with all before it.
fn check_schemas(agent: &Agent, bytes_max: usize) -> Result<(), ApiError> {
    let mut issues = Vec::new();
    let mut bytes_left = Some(bytes_max);
    let fields = agent.actions.iter().enumerate().flat_map(|(i, action)| {
        [("inputs", &action.inputs), ("outputs", &action.outputs)].map(|(field, schema)| (i, field, schema))
    });
    for (i, field, schema) in fields {
        let schema = schema.as_ref().map(goalmill_common::json::Json::value).filter(|schema| !schema.is_null());
        let (Some(schema), Some(left)) = (schema, bytes_left) else { continue };
        let bytes = compiled_bytes(&schema);
        bytes_left = left.checked_sub(bytes.as_ref().map_or(SCHEMA_BYTES_MAX, |bytes| *bytes));
        let wrong = if bytes_left.is_none() && bytes.is_ok() { Some(too_large(bytes_max)) } else { unusable(&schema) };
        if let Some(Unusable { code, detail, hint }) = wrong {
            let pointer = format!("/actions/{i}/{field}");
            issues.push(Issue { code: code.into(), pointer, detail, hint: hint.into() });
        }
    }
    if issues.is_empty() {
        return Ok(());
    }
    let problem = Problem::new(ErrorCode::InvalidRequest, "the agent declares a schema that cannot be used");
    Err(ApiError(problem.with_errors(issues)))
}

fn too_large(bytes_max: usize) -> Unusable {
    let detail = format!("compiled, the schemas of the card would take more than {bytes_max} bytes together");
    let hint = "declare fewer patterns and fewer repetitions in them, or raise `limits.schemas_bytes_max`";
    Unusable { code: "SCHEMAS_TOO_LARGE", detail, hint }
}

/// A routing request.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteRequest {
    /// The task of the step, in words.
    text: String,
    /// Candidates at most; all without it.
    #[serde(default, deserialize_with = "whole_count")]
    top_k: Option<NonZeroUsize>,
}

/// Reads a count; for JSON Schema `5.0` is an integer, too.
fn whole_count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NonZeroUsize>, D::Error> {
    let Some(given) = Option::<f64>::deserialize(from)? else { return Ok(None) };
    let count = if given.fract() == 0.0 { to_usize(whole_u64(given)) } else { 0 };
    let wrong = || D::Error::custom(format!("`top_k` is {given}; it must be a whole number from 1"));
    NonZeroUsize::new(count).map(Some).ok_or_else(wrong)
}

/// The ranking of the router.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct RouteAnswer {
    /// Best first.
    candidates: Vec<RouteCandidate>,
    /// Probability that the best candidate fits, 0 to 1.
    confidence: f64,
    /// Whether the router would choose no agent type.
    abstains: bool,
}

pub(crate) async fn route(State(api): State<Api>, body: Body) -> ApiResult<RouteAnswer> {
    let request: RouteRequest = response::parse_small_json(&response::body(body)?)?;
    let router = api.scheduler.directory.router();
    router.prefetch(std::slice::from_ref(&request.text)).await;
    let Ranking { mut candidates, confidence } = router.rank(&request.text, "", usize::MAX);
    candidates.truncate(request.top_k.map_or(usize::MAX, NonZeroUsize::get));
    Ok(Json(RouteAnswer { abstains: candidates.is_empty() || router.abstains(confidence), candidates, confidence }))
}

pub(crate) async fn planners(State(api): State<Api>) -> ApiResult<Page<PlannerView>> {
    Ok(Json(Page { items: api.scheduler.planners.planner_views(), next: None }))
}

pub(crate) async fn models(State(api): State<Api>) -> ApiResult<Page<ModelView>> {
    Ok(Json(Page { items: api.scheduler.planners.model_views(), next: None }))
}

pub(crate) async fn workers(State(api): State<Api>) -> ApiResult<Page<WorkerBeat>> {
    let items = api.scheduler.directory.workers().as_ref().clone();
    Ok(Json(Page { items, next: None }))
}

/// `POST /v1/workers/{id}:drain`. The worker sees it with its next heartbeat.
pub(crate) async fn act_on_worker(State(api): State<Api>, Path(address): Path<String>) -> ApiResult<WorkerBeat> {
    let (id, verb) = address.rsplit_once(':').unwrap_or((&address, ""));
    if verb != "drain" {
        return Err(unknown_verb(verb, "drain"));
    }
    let workers = api.scheduler.directory.workers();
    let beat = workers.iter().find(|worker| worker.worker.as_str() == id).ok_or_else(|| {
        let detail = format!("no worker `{}` has sent a heartbeat recently", response::shown(id));
        Problem::new(ErrorCode::WorkerNotFound, detail)
    })?;
    api.scheduler.broker.request_drain(&beat.worker).await?;
    Ok(Json(beat.clone()))
}

pub(crate) async fn queues(State(api): State<Api>) -> ApiResult<Page<QueueView>> {
    Ok(Json(Page { items: views(&api).await?, next: None }))
}

/// `POST /v1/queues/{agent_type}:pause` and `:resume`.
pub(crate) async fn act_on_queue(State(api): State<Api>, Path(address): Path<String>) -> ApiResult<QueueView> {
    let (name, verb) = address.rsplit_once(':').unwrap_or((&address, ""));
    let paused = match verb {
        "pause" => true,
        "resume" => false,
        other => return Err(unknown_verb(other, "pause, resume")),
    };
    let agent_type = parse_agent_type(name.to_owned())?;
    let found = views(&api).await?.into_iter().find(|queue| queue.agent_type == agent_type);
    let view = found.ok_or_else(|| {
        let detail = format!("there is no queue `{agent_type}`; it comes with the first step or worker of that name");
        Problem::new(ErrorCode::QueueNotFound, detail)
    })?;
    api.scheduler.broker.pause_queue(&agent_type, paused).await?;
    api.scheduler.directory.refresh().await?;
    Ok(Json(QueueView { paused, ..view }))
}

async fn views(api: &Api) -> Result<Vec<QueueView>, BrokerError> {
    let (served, paused) = (served(api), api.scheduler.broker.paused_queues().await?);
    let views = api.scheduler.broker.queues().await?.into_iter().map(|queue| {
        let ServingWorkers { workers, slots, .. } = served.get(&queue.agent_type).copied().unwrap_or_default();
        QueueView {
            paused: paused.contains(&queue.agent_type),
            agent_type: queue.agent_type,
            waiting: queue.waiting,
            running: queue.pending,
            workers,
            slots,
            dead_letters: queue.dead_letters,
            quarantined: queue.wrong_type.as_ref().map(KeyTypeMismatch::text),
        }
    });
    Ok(views.collect())
}

/// Live workers of an agent type that take tasks, their slots, and those in use.
#[derive(Clone, Copy, Default)]
struct ServingWorkers {
    workers: u32,
    slots: u32,
    busy: u32,
}

fn served(api: &Api) -> BTreeMap<AgentType, ServingWorkers> {
    let mut served = BTreeMap::<AgentType, ServingWorkers>::new();
    for worker in api.scheduler.directory.workers().iter().filter(|worker| !worker.draining) {
        for agent_type in &worker.agents {
            let by = served.entry(agent_type.clone()).or_default();
            by.workers += 1;
            by.slots = by.slots.saturating_add(worker.slots);
            by.busy = by.busy.saturating_add(worker.busy);
        }
    }
    served
}

/// Queues and workers, to explain a plan.
pub(super) async fn explain_context(api: &Api) -> Result<ExplainContext, BrokerError> {
    let (mut queues, paused) = (BTreeMap::<AgentType, AgentHealth>::new(), api.scheduler.broker.paused_queues().await?);
    for (agent_type, ServingWorkers { workers, slots, busy }) in served(api) {
        queues.insert(agent_type, AgentHealth { workers, slots, busy, ..AgentHealth::default() });
    }
    let mut quarantined = BTreeMap::new();
    for queue in api.scheduler.broker.queues().await? {
        if let Some(mismatch) = &queue.wrong_type {
            quarantined.insert(queue.agent_type.clone(), mismatch.text());
        }
        let serving = queues.entry(queue.agent_type).or_default();
        (serving.waiting, serving.running) = (queue.waiting, queue.pending);
    }
    for agent_type in paused {
        queues.entry(agent_type).or_default().paused = true;
    }
    let workers = api.scheduler.directory.workers().iter().map(|worker| worker.worker.clone()).collect();
    Ok(ExplainContext { queues, workers, quarantined, lease_ms: api.scheduler.settings.scheduler.task_lease_ms })
}

/// Numbers for autoscalers; zeros for an agent type without a queue.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Scaling {
    agent_type: AgentType,
    /// Tasks on the stream without a worker.
    waiting: u64,
    /// Tasks with a worker.
    running: u64,
    /// Steps in the memory of schedulers that wait only for room on the stream.
    ready: u64,
    /// Failed steps that are retried within 30 s.
    due_soon: u64,
    slots: u32,
    workers: u32,
    /// Slots that would serve all work concurrently; of a paused queue only waiting and running tasks.
    desired_slots: u64,
}

pub(crate) async fn scaling(State(api): State<Api>, Path(agent_type): Path<String>) -> ApiResult<Scaling> {
    let agent_type = parse_agent_type(agent_type)?;
    let queues = api.scheduler.broker.queues().await?;
    let queue = queues.iter().find(|queue| queue.agent_type == agent_type);
    let (waiting, running) = queue.map_or((0, 0), |queue| (queue.waiting, queue.pending));
    let load = scaling::loads(&api.scheduler, &api.shards).await?.get(&agent_type).copied().unwrap_or_default();
    let desired_slots = scaling::desired_slots(queue, load, api.scheduler.directory.is_held(&agent_type));
    let Load { ready, due_soon } = load;
    let ServingWorkers { workers, slots, .. } = served(&api).get(&agent_type).copied().unwrap_or_default();
    Ok(Json(Scaling { agent_type, waiting, running, ready, due_soon, slots, workers, desired_slots }))
}

/// Parses an agent type in an address.
pub(super) fn parse_agent_type(agent_type: String) -> Result<AgentType, ApiError> {
    if is_id(&agent_type) {
        return Ok(agent_type.into());
    }
    let detail = format!("`{}` cannot be an agent type", response::shown(&agent_type));
    Err(Problem::new(ErrorCode::NotFound, detail).into())
}

pub(crate) async fn schema(Path(name): Path<String>) -> ApiResult<Value> {
    let of_form = || DocumentFormat::find(&name).map(format_schema);
    goalmill_common::schema::schema(&name).or_else(of_form).map(Json).ok_or_else(|| {
        let forms = DocumentFormat::ALL.iter().map(|form| form.as_str());
        let known = goalmill_common::schema::NAMES.iter().copied().chain(forms).collect::<Vec<_>>().join("`, `");
        ApiError(Problem::new(
            ErrorCode::NotFound,
            format!("there is no schema `{}`; there are `{known}`", response::shown(&name)),
        ))
    })
}
