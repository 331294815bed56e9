//! Plans: submit, look at, steer.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::try_join_all;
use goalmill_common::command::{Planned, Request, Submit, Verb};
use goalmill_common::id::{PlanId, ShardId};
use goalmill_common::plan::Plan;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::status::PlanStatus;
use goalmill_common::view::{Explanation, Page, PlanSummary, PlanView, Preview, Results};
use goalmill_common::wire::Answer as Accepted;
use goalmill_engine::{PlanState, validate};
use serde::Deserialize;

use super::Api;
use super::answer::{self, Refusal};
use crate::journal::{self, ReadError};
use crate::{admit, ask, effects};

/// Plans listed at once, unless asked for fewer.
const PAGE: usize = 50;
const PAGE_MAX: usize = 500;

type Answer<T> = Result<Json<T>, Refusal>;
type Body = Result<Bytes, BytesRejection>;

pub(crate) async fn submit_goal(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, Refusal> {
    answer::format(&headers)?;
    let goal = admit::goal(&api.site, &answer::body(body)?)?;
    submit(&api, &headers, |submission, traceparent| Submit {
        goal,
        plan: None,
        submission,
        source: "http".into(),
        parent: None,
        traceparent,
    })
    .await
}

pub(crate) async fn submit_plan(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, Refusal> {
    let admitted = admit::plan(&api.site, &answer::body(body)?, answer::format(&headers)?)?;
    submit(&api, &headers, |submission, traceparent| Submit {
        goal: admitted.goal,
        plan: Some(admitted.planned),
        submission,
        source: "http".into(),
        parent: None,
        traceparent,
    })
    .await
}

async fn submit(
    api: &Api,
    headers: &HeaderMap,
    make: impl FnOnce(String, Option<String>) -> Submit,
) -> Result<Response, Refusal> {
    metrics::counter!("goalmill_goals_submitted_total", "source" => "http").increment(1);
    let key = answer::idempotency_key(headers)?;
    let site = &api.site;
    let health = site.broker.check().await?;
    if let Some(key) = &key {
        let plan = PlanId::derive(site.shards, key);
        if let Some(status) = journal::status(site.broker.as_ref(), &plan).await? {
            return Ok(accepted(plan, status));
        }
    }
    if health.memory_used > 0.8 {
        return Err(Problem::new(ErrorCode::MemoryPressure, "redis is short of memory; running plans go on").into());
    }
    let submission = key.unwrap_or_else(|| site.random.token());
    let traceparent = headers.get("traceparent").and_then(|value| value.to_str().ok()).map(Into::into);
    let request = ask::submission(site, "api", make(submission, traceparent));
    let (plan_id, status) = ask::ask(site, &api.loops, request).await?;
    Ok(accepted(plan_id, status))
}

fn accepted(plan_id: PlanId, status: PlanStatus) -> Response {
    let location = format!("/v1/plans/{plan_id}");
    let body = Json(Accepted::Accepted { plan_id, status });
    (StatusCode::ACCEPTED, [(header::LOCATION, location)], body).into_response()
}

pub(crate) async fn validate(State(api): State<Api>, headers: HeaderMap, body: Body) -> Answer<Preview> {
    let text = answer::body(body)?;
    match admit::plan(&api.site, &text, answer::format(&headers)?) {
        Ok(admitted) => Ok(Json(preview_of(admitted.planned))),
        Err(problem) if problem.errors.is_empty() => Err(problem.into()),
        Err(problem) => Ok(Json(Preview {
            valid: false,
            plan: None,
            issues: problem.errors,
            warnings: Vec::new(),
            routes: Vec::new(),
            planner: "submitted".into(),
            confidence: 0.0,
            critical_path_seconds: 0.0,
            cost: 0.0,
        })),
    }
}

pub(crate) async fn preview(State(api): State<Api>, body: Body) -> Answer<Preview> {
    let goal = admit::goal(&api.site, &answer::body(body)?)?;
    let planned = effects::propose(&api.site, goal, 0).await?;
    Ok(Json(preview_of(planned)))
}

fn preview_of(planned: Planned) -> Preview {
    let critical_path_seconds = validate::critical_path(&planned.plan);
    let cost = planned.plan.steps.iter().filter_map(|step| step.estimates.cost).sum();
    Preview {
        valid: true,
        issues: Vec::new(),
        warnings: planned.warnings,
        routes: planned.routes,
        planner: planned.planner,
        confidence: planned.confidence,
        plan: Some(planned.plan),
        critical_path_seconds,
        cost,
    }
}

#[derive(Deserialize)]
pub(crate) struct ListQuery {
    limit: Option<usize>,
    /// Unix milliseconds: only plans last changed before.
    cursor: Option<u64>,
    status: Option<PlanStatus>,
}

pub(crate) async fn list(State(api): State<Api>, Query(query): Query<ListQuery>) -> Answer<Page<PlanSummary>> {
    let limit = query.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let broker = &api.site.broker;
    let mut before = query.cursor.unwrap_or(u64::MAX);
    let mut items = Vec::new();
    loop {
        let shards = (0..api.site.shards).map(|n| broker.plans(ShardId(n), before, limit));
        let mut plans: Vec<(PlanId, u64)> = try_join_all(shards).await?.into_iter().flatten().collect();
        plans.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        plans.truncate(limit);
        let more = plans.len() == limit;
        for (plan, changed_ms) in plans {
            before = changed_ms;
            let summary = PlanSummary::from_fields(plan.clone(), &broker.summary(&plan).await?);
            items.extend(summary.filter(|summary| query.status.is_none_or(|status| status == summary.status)));
        }
        if !more || items.len() >= limit {
            let next = more.then(|| before.to_string());
            return Ok(Json(Page { items, next }));
        }
    }
}

pub(crate) async fn get(State(api): State<Api>, Path(id): Path<String>) -> Answer<PlanView> {
    Ok(Json(state(&api, &id).await?.view(true)))
}

pub(crate) async fn graph(State(api): State<Api>, Path(id): Path<String>) -> Answer<Plan> {
    let state = state(&api, &id).await?;
    if state.is_empty() {
        return Err(Problem::new(ErrorCode::NotFound, format!("plan `{id}` is not planned yet")).into());
    }
    Ok(Json(state.plan().as_ref().clone()))
}

pub(crate) async fn results(State(api): State<Api>, Path(id): Path<String>) -> Answer<Results> {
    Ok(Json(state(&api, &id).await?.results()))
}

pub(crate) async fn explain(State(api): State<Api>, Path(id): Path<String>) -> Answer<Explanation> {
    let state = state(&api, &id).await?;
    let mut explanation = state.explain(api.site.clock.now_ms());
    let workers = api.site.directory.workers();
    for step in &mut explanation.steps {
        let Some(index) = state.step_index(&step.step_id) else { continue };
        let Some(queue) = state.queue(index) else { continue };
        let waits = matches!(
            step.status,
            goalmill_common::status::StepStatus::Ready | goalmill_common::status::StepStatus::Queued
        );
        if waits && !queue.as_str().is_empty() && !workers.iter().any(|worker| worker.agents.contains(queue)) {
            step.because.push(format!("no live worker serves `{queue}`"));
            step.mend = format!("start one: goalmill worker --agents {queue}");
        }
    }
    Ok(Json(explanation))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Because {
    reason: String,
    actor: String,
}

/// `POST /v1/plans/{id}:{verb}`.
pub(crate) async fn act(State(api): State<Api>, Path(address): Path<String>, body: Body) -> Answer<PlanSummary> {
    let because: Because = answer::json(&answer::body(body)?)?;
    let reason = because.reason;
    let (id, verb) = address.rsplit_once(':').unwrap_or((&address, ""));
    let verb = match verb {
        "pause" => Verb::Pause { reason },
        "resume" => Verb::Resume { reason },
        "cancel" => Verb::Cancel { reason },
        "approve" => Verb::Approve { reason },
        "reject" => Verb::Reject { reason },
        "replan" => Verb::Replan { reason },
        other => return Err(unknown_verb(other, "pause, resume, cancel, approve, reject, replan")),
    };
    tell(&api, id, because.actor, verb).await?;
    Ok(Json(state(&api, id).await?.summary()))
}

pub(super) fn unknown_verb(verb: &str, known: &str) -> Refusal {
    Refusal(Problem::new(ErrorCode::NotFound, format!("there is no verb `{verb}`; there are {known}")))
}

/// Asks a plan's shard; a plan that has ended is a conflict, an unknown one is not found.
pub(super) async fn tell(api: &Api, id: &str, actor: String, verb: Verb) -> Result<(), Refusal> {
    let actor = if actor.is_empty() { "api".into() } else { actor };
    let request = Request { plan: id.into(), actor, answer: None, verb };
    match ask::ask(&api.site, &api.loops, request).await {
        Ok(_) => Ok(()),
        Err(problem) if problem.code == ErrorCode::PlanNotFound => {
            let status = state(api, id).await?.status();
            Err(Problem::new(ErrorCode::PlanFinal, format!("the plan has ended as {status}")).into())
        }
        Err(problem) => Err(problem.into()),
    }
}

/// A plan's state, folded from its log.
pub(super) async fn state(api: &Api, id: &str) -> Result<PlanState, Refusal> {
    let plan = PlanId::from(id);
    ask::shard_of(&api.site, &plan)?;
    match journal::read(api.site.broker.as_ref(), &plan).await {
        Ok(Some(state)) => Ok(state),
        Ok(None) => Err(Problem::new(ErrorCode::PlanNotFound, format!("there is no plan `{id}`")).into()),
        Err(ReadError::Broker(error)) => Err(error.into()),
        Err(error) => Err(Problem::new(ErrorCode::Internal, format!("plan `{id}`: {error}")).into()),
    }
}
