//! Plans: submit, look at, steer.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use goalmill_common::clock::rfc3339;
use goalmill_common::command::{Planned, Request, Submit, Verb, fingerprint};
use goalmill_common::goal::Goal;
use goalmill_common::id::{PlanId, is_id};
use goalmill_common::plan::Plan;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::status::PlanStatus;
use goalmill_common::trace::is_traceparent;
use goalmill_common::view::{Accepted, Explanation, PlanView, Preview, Results};
use goalmill_engine::PlanState;
use goalmill_plan::validate;
use serde::Deserialize;

use super::answer::{self, Refusal};
use super::query::{Given, Parameters, Query};
use super::{Api, fork, past, people, registry};
use crate::journal::{self, ReadError};
use crate::shard::Poison;
use crate::{admit, ask, effects};

pub(super) type Answer<T> = Result<Json<T>, Refusal>;
pub(super) type Body = Result<Bytes, BytesRejection>;

pub(crate) async fn submit_goal(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, Refusal> {
    answer::format(&headers)?;
    let body = answer::body(body)?;
    let sent = Sent::read(&api, &headers, "goal", &body)?;
    if let Some(repeated) = sent.repeated(&api).await? {
        return Ok(repeated);
    }
    let goal = admit::goal_aside(&api.site, body).await.inspect_err(count_refused)?;
    submit(&api, sent, goal, None).await
}

pub(crate) async fn submit_plan(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, Refusal> {
    let format = answer::format(&headers)?;
    let body = answer::body(body)?;
    let sent = Sent::read(&api, &headers, "plan", &body)?;
    if let Some(repeated) = sent.repeated(&api).await? {
        return Ok(repeated);
    }
    let admitted = admit::plan_aside(&api.site, body, format).await.inspect_err(count_refused)?;
    submit(&api, sent, admitted.goal, Some(admitted.planned)).await
}

fn count_refused(problem: &Problem) {
    metrics::counter!("goalmill_goals_rejected_total", "reason" => problem.code.as_str()).increment(1);
}

/// What a submission's headers say.
pub(super) struct Sent {
    pub(super) key: Option<String>,
    /// Empty without a key.
    pub(super) fingerprint: String,
    pub(super) traceparent: Option<String>,
    /// Unix milliseconds.
    pub(super) received_ms: u64,
}

impl Sent {
    pub(super) fn read(api: &Api, headers: &HeaderMap, kind: &str, body: &Bytes) -> Result<Self, Refusal> {
        let key = answer::idempotency_key(headers)?;
        let fingerprint = key.as_ref().map(|_| fingerprint(kind, body)).unwrap_or_default();
        let traceparent = headers.get("traceparent").and_then(|value| value.to_str().ok());
        let traceparent = traceparent.filter(|text| is_traceparent(text)).map(Into::into);
        Ok(Self { key, fingerprint, traceparent, received_ms: api.site.clock.now_ms() })
    }

    /// The answer to a request that was made before under the same key.
    pub(super) async fn repeated(&self, api: &Api) -> Result<Option<Response>, Refusal> {
        let Some(key) = &self.key else { return Ok(None) };
        let plan = PlanId::derive(api.site.shards, key);
        let Some(known) = ask::known(&api.site, &plan).await? else { return Ok(None) };
        // A plan that came over the stream has no fingerprint: its id alone decides.
        if known.fingerprint.is_empty() || known.fingerprint == self.fingerprint {
            return Ok(Some(accepted(known.plan, known.status, Vec::new())));
        }
        let detail = format!("the key was used for plan `{plan}`, which was sent with another body; use a new key");
        Err(Problem::new(ErrorCode::IdempotencyKeyReused, detail).into())
    }
}

async fn submit(api: &Api, sent: Sent, goal: Goal, plan: Option<Planned>) -> Result<Response, Refusal> {
    let site = &api.site;
    site.pulse.admits().inspect_err(count_refused)?;
    let submission = sent.key.unwrap_or_else(|| site.random.token());
    let Sent { fingerprint, traceparent, received_ms, .. } = sent;
    let source = "http".into();
    let warnings = plan.as_ref().map(|planned| planned.warnings.clone()).unwrap_or_default();
    let made = Submit { goal, plan, submission, fingerprint, source, parent: None, traceparent, fork: None };
    let (plan_id, status) = begin(api, ask::submission(site, "api", made), received_ms).await?;
    metrics::counter!("goalmill_goals_submitted_total", "source" => "http").increment(1);
    Ok(accepted(plan_id, status, warnings))
}

/// Has a plan begun, and traces its submission.
///
/// - `received_ms`: when the request came, Unix milliseconds.
pub(super) async fn begin(api: &Api, request: Request, received_ms: u64) -> Result<(PlanId, PlanStatus), Problem> {
    let site = &api.site;
    let context = request.traceparent().map(ToOwned::to_owned);
    let begun = ask::ask(site, &api.loops, request).await?;
    if let Some(traces) = &site.traces {
        traces.submitted(&begun.0, context.as_deref(), "http", received_ms, site.clock.now_ms());
    }
    Ok(begun)
}

pub(super) fn accepted(plan_id: PlanId, status: PlanStatus, warnings: Vec<Issue>) -> Response {
    let location = format!("/v1/plans/{plan_id}");
    let body = Json(Accepted { plan_id, status, warnings });
    (StatusCode::ACCEPTED, [(header::LOCATION, location)], body).into_response()
}

pub(crate) async fn validate(State(api): State<Api>, headers: HeaderMap, body: Body) -> Answer<Preview> {
    let text = answer::body(body)?;
    match admit::plan_looked_at(&api.site, text, answer::format(&headers)?).await {
        Ok(preview) => Ok(Json(preview)),
        Err(problem) if problem.errors.is_empty() => Err(problem.into()),
        Err(problem) => Ok(Json(Preview::refused(problem.errors))),
    }
}

pub(crate) async fn preview(State(api): State<Api>, body: Body) -> Answer<Preview> {
    let goal = admit::goal_aside(&api.site, answer::body(body)?).await?;
    let planned = effects::propose(&api.site, goal, 0).await?;
    Ok(Json(validate::preview(planned, Some(&api.site.directory.catalogue()))))
}

pub(crate) async fn get(State(api): State<Api>, Path(id): Path<String>) -> Answer<PlanView> {
    Ok(Json(state(&api, &id).await?.view(true)))
}

#[derive(schemars::JsonSchema)]
pub(crate) struct At {
    /// As it was at this revision.
    revision: Option<u32>,
}

impl Parameters for At {
    const NAMES: &'static [&'static str] = &["revision"];

    fn read(given: &mut Given) -> Self {
        Self { revision: given.number("revision", 0..=u32::MAX) }
    }
}

/// The plan as a document; `?revision=N` gives it as it was then.
pub(crate) async fn graph(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(At { revision }): Query<At>,
) -> Answer<Plan> {
    let state = past::at(&api, &id, revision).await?;
    if state.is_empty() {
        let status = state.status();
        let detail = match status.is_final() {
            true => format!("plan `{id}` never got any steps: it is {status}; `goalmill explain {id}` says why"),
            false => format!("plan `{id}` has no steps yet: it is {status}"),
        };
        return Err(Problem::new(ErrorCode::NotAllowed, detail).into());
    }
    Ok(Json(state.live_plan()))
}

pub(crate) async fn results(State(api): State<Api>, Path(id): Path<String>) -> Answer<Results> {
    Ok(Json(state(&api, &id).await?.results()))
}

pub(crate) async fn explain(State(api): State<Api>, Path(id): Path<String>) -> Answer<Explanation> {
    let state = state(&api, &id).await?;
    let around = registry::surroundings(&api).await?;
    let mut explanation = state.explain_among(api.site.clock.now_ms(), &around);
    if let Some(why) = quarantine(&api, &explanation.plan_id).await? {
        explanation.summary = why;
    }
    Ok(Json(explanation))
}

/// Why the plan is not worked on, if it is in quarantine.
async fn quarantine(api: &Api, plan: &PlanId) -> Result<Option<String>, Refusal> {
    let help = format!("take it up again: goalmill plan resume {plan}");
    if let Some(shard) = plan.shard()
        && let Some(found) = Poison::read(api.site.broker.as_ref(), shard).await?.quarantined.get(plan)
    {
        return Ok(Some(format!("in quarantine since {}: {}; {help}", rfc3339(found.since_ms), found.reason)));
    }
    let is_here = api.site.is_set_aside(plan);
    Ok(is_here.then(|| format!("its scheduler failed over it and does not work on it: its log says why; {help}")))
}

/// Why it is done, and who does it.
#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Because {
    reason: String,
    /// An id, such as `cli:ann`; `api` unless told.
    actor: String,
}

/// `POST /v1/plans/{id}:{verb}`.
pub(crate) async fn act(
    State(api): State<Api>,
    Path(address): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let body = answer::body(body)?;
    let (id, verb) = address.rsplit_once(':').unwrap_or((&address, ""));
    match verb {
        "approve" => people::approve(&api, id, &body).await?,
        "edit" => people::edit(&api, id, &body).await?,
        "replan" => people::replan(&api, id, &body).await?,
        "fork" => return fork::fork(&api, id, &headers, &body).await,
        _ => {
            let Because { reason, actor } = answer::small_json(&body)?;
            let verb = match verb {
                "pause" => Verb::Pause { reason },
                "resume" => Verb::Resume { reason },
                "cancel" => Verb::Cancel { reason },
                "reject" => Verb::Reject { reason },
                other => {
                    let known = "approve, reject, edit, replan, pause, resume, cancel, fork";
                    return Err(unknown_verb(other, known));
                }
            };
            tell(&api, id, actor, verb).await?;
        }
    }
    Ok(people::summary(&api, id).await?.into_response())
}

pub(super) fn unknown_verb(verb: &str, known: &str) -> Refusal {
    let verb = answer::shown(verb);
    Refusal(Problem::new(ErrorCode::NotFound, format!("there is no verb `{verb}`; there are {known}")))
}

pub(super) fn not_found(id: &str) -> Refusal {
    Refusal(Problem::new(ErrorCode::PlanNotFound, format!("there is no plan `{}`", answer::shown(id))))
}

/// Who asks: `api` unless the request says.
pub(super) fn actor_of(actor: &str) -> Result<String, Refusal> {
    match actor {
        "" => Ok("api".into()),
        name if is_id(name) => Ok(name.into()),
        _ => Err(Problem::new(ErrorCode::InvalidRequest, "`actor` must be an id, such as `cli:ann`").into()),
    }
}

/// Asks a plan's shard; a plan that has ended is a conflict, an unknown one is not found.
pub(super) async fn tell(api: &Api, id: &str, actor: String, verb: Verb) -> Result<(), Refusal> {
    let actor = actor_of(&actor)?;
    let request = Request { plan: id.into(), actor, answer: None, verb };
    match ask::ask(&api.site, &api.loops, request).await {
        Ok(_) => Ok(()),
        Err(problem) if problem.code == ErrorCode::PlanNotFound => {
            let known = ask::known(&api.site, &id.into()).await?.ok_or(problem)?;
            let status = known.status;
            Err(if status.is_final() {
                Problem::new(ErrorCode::PlanFinal, format!("the plan has ended as {status}"))
            } else {
                Problem::new(
                    ErrorCode::NotReady,
                    format!("the plan is {status}, but its shard does not have it; try again"),
                )
            }
            .into())
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
        Ok(None) => Err(not_found(id)),
        Err(ReadError::Broker(error)) => Err(error.into()),
        Err(error) => Err(Problem::new(ErrorCode::Internal, format!("plan `{id}`: {error}")).into()),
    }
}
