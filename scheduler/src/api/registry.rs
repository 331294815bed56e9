//! Agents, workers, queues, dead letters, schemas.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::event::RouteCandidate;
use goalmill_common::id::{AgentType, is_id};
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::view::{Page, QueueView};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Api;
use super::answer::{self, Refusal};
use crate::router::Ranking;

/// Dead letters shown at once.
const LETTERS: usize = 100;

type Answer<T> = Result<Json<T>, Refusal>;

pub(crate) async fn agents(State(api): State<Api>) -> Answer<Page<Agent>> {
    let items = api.site.broker.agents().await?;
    Ok(Json(Page { items, next: None }))
}

pub(crate) async fn register(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<Agent>), Refusal> {
    let agent: Agent = answer::small_json(&answer::body(body)?)?;
    let wrong = |what: &str| Refusal(Problem::new(ErrorCode::InvalidRequest, what));
    if !is_id(agent.agent_type.as_str()) || agent.agent_type.is_auto() {
        return Err(wrong("`agent_type` must be an id, and not `auto`"));
    }
    if !((0.0..=1.0).contains(&agent.success_rate) && agent.cost >= 0.0 && agent.cost.is_finite()) {
        return Err(wrong("`success_rate` must be 0 to 1, and `cost` not negative"));
    }
    api.site.broker.open_queue(&agent.agent_type).await?;
    api.site.broker.register(&agent).await?;
    api.site.directory.refresh().await?;
    Ok((StatusCode::CREATED, Json(agent)))
}

#[derive(Deserialize)]
pub(crate) struct RouteRequest {
    text: String,
}

#[derive(Serialize)]
pub(crate) struct RouteAnswer {
    candidates: Vec<RouteCandidate>,
    /// How likely it is that anybody fits, 0 to 1.
    confidence: f64,
    /// Whether the router would rather choose nobody.
    abstains: bool,
}

pub(crate) async fn route(State(api): State<Api>, body: Result<Bytes, BytesRejection>) -> Answer<RouteAnswer> {
    let request: RouteRequest = answer::small_json(&answer::body(body)?)?;
    let router = api.site.directory.router();
    router.prepare(std::slice::from_ref(&request.text)).await;
    let Ranking { candidates, confidence } = router.rank(&request.text, "", usize::MAX);
    Ok(Json(RouteAnswer { abstains: candidates.is_empty() || router.abstains(confidence), candidates, confidence }))
}

pub(crate) async fn workers(State(api): State<Api>) -> Answer<Page<WorkerBeat>> {
    let items = api.site.directory.workers().as_ref().clone();
    Ok(Json(Page { items, next: None }))
}

pub(crate) async fn queues(State(api): State<Api>) -> Answer<Page<QueueView>> {
    let served = served(&api);
    let items = api.site.broker.queues().await?.into_iter().map(|queue| {
        let (workers, slots) = served.get(&queue.agent_type).copied().unwrap_or_default();
        QueueView {
            agent_type: queue.agent_type,
            waiting: queue.waiting,
            running: queue.pending,
            workers,
            slots,
            dead_letters: queue.dead_letters,
        }
    });
    Ok(Json(Page { items: items.collect(), next: None }))
}

/// Live workers and their slots, by agent type.
fn served(api: &Api) -> BTreeMap<AgentType, (u32, u32)> {
    let mut served = BTreeMap::<AgentType, (u32, u32)>::new();
    for worker in api.site.directory.workers().iter() {
        for agent_type in &worker.agents {
            let (count, slots) = served.entry(agent_type.clone()).or_default();
            *count += 1;
            *slots += worker.slots;
        }
    }
    served
}

/// What an autoscaler reads: numbers in any case, zeros for an agent type that has no queue.
#[derive(Serialize)]
pub(crate) struct Scaling {
    agent_type: AgentType,
    waiting: u64,
    running: u64,
    slots: u32,
    workers: u32,
    /// Slots that would serve all of it at once.
    desired_slots: u64,
}

pub(crate) async fn scaling(State(api): State<Api>, Path(agent_type): Path<String>) -> Answer<Scaling> {
    let agent_type = known_form(agent_type)?;
    let queues = api.site.broker.queues().await?;
    let queue = queues.into_iter().find(|queue| queue.agent_type == agent_type);
    let (waiting, running) = queue.map_or((0, 0), |queue| (queue.waiting, queue.pending));
    let (workers, slots) = served(&api).get(&agent_type).copied().unwrap_or_default();
    Ok(Json(Scaling { agent_type, waiting, running, slots, workers, desired_slots: waiting.saturating_add(running) }))
}

/// An agent type from an address.
fn known_form(agent_type: String) -> Result<AgentType, Refusal> {
    if is_id(&agent_type) {
        return Ok(agent_type.into());
    }
    let detail = format!("`{}` cannot be an agent type", answer::shown(&agent_type));
    Err(Problem::new(ErrorCode::NotFound, detail).into())
}

pub(crate) async fn dead_letters(State(api): State<Api>, Path(agent_type): Path<String>) -> Answer<Page<Value>> {
    let letters = api.site.broker.dead_letters(&known_form(agent_type)?, LETTERS).await?;
    let items = letters.into_iter().map(|(entry, letter)| {
        json!({
            "entry": entry,
            "agent_type": letter.agent_type,
            "plan_id": letter.plan,
            "step_id": letter.step,
            "attempt": letter.attempt,
            "code": letter.code,
            "reason": letter.reason,
            "task": letter.task,
        })
    });
    Ok(Json(Page { items: items.collect(), next: None }))
}

pub(crate) async fn schema(Path(name): Path<String>) -> Answer<Value> {
    goalmill_common::schema::schema(&name).map(Json).ok_or_else(|| {
        let known = goalmill_common::schema::NAMES.join("`, `");
        Refusal(Problem::new(
            ErrorCode::NotFound,
            format!("there is no schema `{}`; there are `{known}`", answer::shown(&name)),
        ))
    })
}
