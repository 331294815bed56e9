//! Submits goals and plans, once for each idempotency key.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use goalmill_common::command::{Planned, Submit, is_other_content};
use goalmill_common::goal::Goal;
use goalmill_common::id::PlanId;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::status::PlanStatus;
use goalmill_common::trace::is_traceparent;
use goalmill_common::wire::SubmissionKind;
use goalmill_plan::document::Format;

use super::principal::Principal;
use super::response::{self, ApiError, Body};
use super::{Api, wait_preference};
use crate::shard_client;
use crate::submission::{self, ParsedGoal, ParsedPlan, SubmittedDocument};

pub(crate) async fn submit_goal(
    State(api): State<Api>,
    principal: Principal,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    response::document_format(&headers)?;
    let (bytes, document) = read_body(&api, body, Format::Auto, SubmissionKind::Goal).await?;
    let sent = SubmissionHeaders::parse(&api, &headers, &document.fingerprint, bytes)?;
    if let Some(previous) = sent.find_previous(&api, &principal).await? {
        return wait_preference::answer(&api, &headers, previous, Vec::new()).await;
    }
    let ParsedGoal { goal, notes } =
        submission::parse_goal(&api.scheduler, document).await.inspect_err(count_refused)?;
    let begun = start_submission(&api, &principal, sent, goal, None).await?;
    wait_preference::answer(&api, &headers, begun, notes).await
}

pub(crate) async fn submit_plan(
    State(api): State<Api>,
    principal: Principal,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let format = response::document_format(&headers)?;
    let (bytes, document) = read_body(&api, body, format, SubmissionKind::Plan).await?;
    let sent = SubmissionHeaders::parse(&api, &headers, &document.fingerprint, bytes)?;
    if let Some(previous) = sent.find_previous(&api, &principal).await? {
        return wait_preference::answer(&api, &headers, previous, Vec::new()).await;
    }
    let parsed =
        submission::parse_plan(&api.scheduler, document, &principal.plan_scope()).await.inspect_err(count_refused)?;
    let ParsedPlan { goal, planned, notes } = parsed;
    let warnings = planned.as_ref().map_or(notes, |planned| planned.warnings.clone());
    let begun = start_submission(&api, &principal, sent, goal, planned).await?;
    wait_preference::answer(&api, &headers, begun, warnings).await
}

/// Submits a plan document, whatever it came in; the same key twice is the same plan.
pub(super) async fn submit_document(
    api: &Api,
    principal: &Principal,
    headers: &HeaderMap,
    text: Bytes,
) -> Result<(PlanId, Vec<Issue>), ApiError> {
    let bytes = text.len();
    let document = submission::read_document(&api.scheduler, text, Format::Json, SubmissionKind::Plan)
        .await
        .inspect_err(count_refused)?;
    let sent = SubmissionHeaders::parse(api, headers, &document.fingerprint, bytes)?;
    if let Some((plan, _)) = sent.find_previous(api, principal).await? {
        return Ok((plan, Vec::new()));
    }
    let parsed =
        submission::parse_plan(&api.scheduler, document, &principal.plan_scope()).await.inspect_err(count_refused)?;
    let ParsedPlan { goal, planned, notes } = parsed;
    let notes = planned.as_ref().map_or(notes, |planned| planned.warnings.clone());
    let (plan, _) = start_submission(api, principal, sent, goal, planned).await?;
    Ok((plan, notes))
}

async fn read_body(
    api: &Api,
    body: Body,
    format: Format,
    kind: SubmissionKind,
) -> Result<(usize, SubmittedDocument), ApiError> {
    let body = response::body(body)?;
    let bytes = body.len();
    let document = submission::read_document(&api.scheduler, body, format, kind).await;
    Ok((bytes, document.inspect_err(count_refused)?))
}

pub(super) fn count_refused(problem: &Problem) {
    metrics::counter!("goalmill_goals_rejected_total", "reason" => problem.code.as_str()).increment(1);
}

/// The headers of a submission.
pub(super) struct SubmissionHeaders {
    pub(super) key: Option<String>,
    /// Empty without a key.
    pub(super) fingerprint: String,
    pub(super) traceparent: Option<String>,
    /// Unix milliseconds.
    pub(super) received_ms: u64,
    /// Of the body.
    pub(super) bytes: usize,
}

impl SubmissionHeaders {
    /// - `fingerprint`: of the document.
    /// - `bytes`: of the body.
    pub(super) fn parse(api: &Api, headers: &HeaderMap, fingerprint: &str, bytes: usize) -> Result<Self, ApiError> {
        let key = response::idempotency_key(headers)?;
        let fingerprint = key.as_ref().map(|_| fingerprint.to_owned()).unwrap_or_default();
        let traceparent = headers.get("traceparent").and_then(|value| value.to_str().ok());
        let traceparent = traceparent.filter(|text| is_traceparent(text)).map(Into::into);
        Ok(Self { key, fingerprint, traceparent, received_ms: api.scheduler.clock.now_ms(), bytes })
    }

    /// The plan of an earlier request with the same key.
    pub(super) async fn find_previous(
        &self,
        api: &Api,
        principal: &Principal,
    ) -> Result<Option<(PlanId, PlanStatus)>, ApiError> {
        let Some(key) = &self.key else { return Ok(None) };
        let plan = PlanId::derive(api.scheduler.shards, &principal.namespace, key);
        let Some(known) = shard_client::find_existing(&api.scheduler, &plan).await? else { return Ok(None) };
        if !is_other_content(&known.fingerprint, &self.fingerprint) && principal.may_see(&known.namespace) {
            return Ok(Some((known.plan, known.status)));
        }
        let detail = "the key was used for a plan that was sent with other content; use a new key";
        Err(Problem::new(ErrorCode::IdempotencyKeyReused, detail).into())
    }
}

pub(super) async fn start_submission(
    api: &Api,
    principal: &Principal,
    sent: SubmissionHeaders,
    mut goal: Goal,
    plan: Option<Planned>,
) -> Result<(PlanId, PlanStatus), ApiError> {
    let scheduler = &api.scheduler;
    goal.namespace = principal.place(goal.namespace.take())?;
    scheduler.health.check_admission().inspect_err(count_refused)?;
    let submission = sent.key.unwrap_or_else(|| scheduler.random.token());
    let SubmissionHeaders { fingerprint, traceparent, received_ms, bytes, .. } = sent;
    let source = "http".into();
    let made =
        Submit { goal, plan, submission, fingerprint, entry: None, source, parent: None, traceparent, fork: None };
    let request = shard_client::submit_request(scheduler, &principal.actor, &principal.namespace, made);
    let begun = shard_client::send_submission(scheduler, &api.shards, request, received_ms, bytes)
        .await
        .inspect_err(count_refused)?;
    metrics::counter!("goalmill_goals_submitted_total", "source" => "http").increment(1);
    Ok(begun)
}
