//! Callbacks of agents that accepted a task: the token of the task is all that they need.

use std::net::IpAddr;

use axum::extract::{self, Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use goalmill_common::callback::CallbackReport;
use goalmill_common::command::{Request, Verb};
use goalmill_common::id::{AttemptToken, StepId};
use goalmill_common::json::Json as Payload;
use goalmill_common::json_limits;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_engine::PlanState;
use goalmill_engine::calls::callback;
use serde::{Deserialize, Serialize};

use super::Api;
use super::access::AccessRefusal;
use super::plan_access::load_plan;
use super::response::{self, ApiError};
use super::serve::Peer;
use crate::shard_client;

/// The path of the route.
pub(super) const PATH: &str = "/v1/callbacks/{id}/{step}/{attempt}";
/// The header of the token.
const TOKEN: &str = "goalmill-callback-token";

/// The body: the outcome, and the token if no header has it.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Callback")]
pub(super) struct CallbackBody {
    /// The task's, if the header `goalmill-callback-token` does not have it.
    #[serde(default)]
    token: String,
    /// Any JSON but `null`: the step's outputs.
    #[serde(default)]
    outputs: Option<Payload>,
    /// What went wrong, instead of `outputs`.
    #[serde(default)]
    error: Option<goalmill_common::callback::CallbackError>,
    /// US dollars.
    #[serde(default)]
    cost: Option<f64>,
    /// Tokens of language models that the task used.
    #[serde(default)]
    tokens: Option<u64>,
}

/// The answer: the report has been taken, by this request or by an earlier one.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct CallbackReceipt {
    plan_id: String,
    step_id: String,
    attempt: u32,
}

/// Why a body without the header is small.
const TOKEN_IN_BODY: &str = "the header `goalmill-callback-token` with the token allows larger ones";

/// The attempt that a callback is for.
struct CallbackAttempt {
    plan: String,
    step: StepId,
    number: u32,
}

/// `POST /v1/callbacks/{id}/{step}/{attempt}`. The body is read once the token in the header is right; a body that holds
/// the token is small.
pub(crate) async fn report(
    State(api): State<Api>,
    Extension(Peer(peer)): Extension<Peer>,
    Path((plan, step, attempt)): Path<(String, String, String)>,
    request: extract::Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let attempt = CallbackAttempt { plan, step: step.as_str().into(), number: attempt.parse().unwrap_or(0) };
    let (state, report) = if let Some(token) = parts.headers.get(TOKEN) {
        let state = match find_plan(&api, peer, &attempt, token.to_str().unwrap_or_default()).await {
            Ok(state) => state,
            Err(refusal) => return Ok(refusal.into_response()),
        };
        (state, response::parse_json(&api.bodies.read_report(&parts, body).await?)?)
    } else {
        let report: CallbackBody = response::parse_json(&api.bodies.read_small(&parts, body, TOKEN_IN_BODY).await?)?;
        match find_plan(&api, peer, &attempt, &report.token).await {
            Ok(state) => (state, report),
            Err(refusal) => return Ok(refusal.into_response()),
        }
    };
    deliver_report(&api, attempt, &state, report).await
}

/// The plan of an attempt, if the token is that of the attempt.
async fn find_plan(
    api: &Api,
    peer: IpAddr,
    attempt: &CallbackAttempt,
    token: &str,
) -> Result<PlanState, AccessRefusal> {
    let _permit = api.access.begin_lookup(peer).await?;
    let state = match load_plan(api, &attempt.plan).await {
        Ok(state) => Some(state),
        Err(ApiError(problem)) if matches!(problem.code, ErrorCode::PlanNotFound | ErrorCode::InvalidRequest) => None,
        Err(error) => return Err(error.into()),
    };
    let place = state.as_ref().and_then(|state| state.step_index(&attempt.step));
    let expected = state
        .as_ref()
        .zip(place)
        .and_then(|(state, i)| callback::callback_token(state, i, attempt.number, api.scheduler.token_secret.key()));
    let is_right = api.access.is_secret(peer, expected.as_ref().map(AttemptToken::as_str), token);
    state.filter(|_| is_right).ok_or_else(|| {
        let detail = "no task with this address and this token has a callback";
        AccessRefusal::from(ApiError(Problem::new(ErrorCode::NotFound, detail)))
    })
}

/// Gives the report to the plan.
async fn deliver_report(
    api: &Api,
    attempt: CallbackAttempt,
    state: &PlanState,
    body: CallbackBody,
) -> Result<Response, ApiError> {
    let CallbackAttempt { plan, step, number } = attempt;
    let CallbackBody { token: _, outputs, error, cost, tokens } = body;
    let report = CallbackReport { outputs, error, cost, tokens };
    check_callback(api, &report)?;
    let known = state.step_index(&step).and_then(|i| callback::received_callback(state, i, number));
    if let Some(known) = known
        && known != report.digest()
    {
        let detail = format!("attempt {number} of step `{step}` has another report");
        return Err(Problem::new(ErrorCode::NotAllowed, detail).into());
    }
    if known.is_none() {
        let verb = Verb::ReportCallback { step: step.clone(), attempt: number, report: Box::new(report) };
        let request = Request { plan: plan.as_str().into(), actor: "callback".into(), answer: None, verb };
        let sent = shard_client::send_request(&api.scheduler, &api.shards, request).await;
        sent.map_err(|problem| ended(problem, state))?;
    }
    Ok(Json(CallbackReceipt { plan_id: plan, step_id: step.to_string(), attempt: number }).into_response())
}

/// The owner does not know plans that have ended.
fn ended(problem: Problem, state: &PlanState) -> ApiError {
    let status = Some(state.status()).filter(|status| status.is_final());
    match status.filter(|_| problem.code == ErrorCode::PlanNotFound) {
        Some(status) => Problem::new(ErrorCode::PlanFinal, format!("the plan has ended as {status}")).into(),
        None => problem.into(),
    }
}

/// Refuses a report that no log can keep.
fn check_callback(api: &Api, report: &CallbackReport) -> Result<(), ApiError> {
    let invalid = |detail: String| ApiError(Problem::new(ErrorCode::InvalidRequest, detail));
    let limits = &api.scheduler.settings.limits;
    let outputs = match (&report.outputs, &report.error) {
        (None, Some(_)) => return check_usage(report),
        (Some(outputs), None) if !outputs.is_null() => outputs,
        (Some(_), Some(_)) => return Err(invalid("a callback has `outputs` or `error`, not both".into())),
        (Some(_) | None, None) => {
            return Err(invalid("a callback needs `outputs` or `error`: `{}` if there are none".into()));
        }
    };
    let (bytes, most) = (outputs.text().len(), limits.inline_bytes_max);
    if bytes > most {
        let detail = format!("`outputs` has {bytes} bytes, more than `limits.inline_bytes_max` ({most})");
        return Err(Problem::new(ErrorCode::BodyTooLarge, detail).into());
    }
    if outputs.text().contains("\"$blob\"") {
        return Err(invalid("`outputs` of a callback have no references (`$blob`): send the values".into()));
    }
    json_limits::check_json(outputs, limits.nesting_max)
        .map_err(|wrong| invalid(format!("`outputs` cannot be kept: {wrong}")))?;
    check_usage(report)
}

fn check_usage(report: &CallbackReport) -> Result<(), ApiError> {
    json_limits::check_usage(report.cost, report.tokens)
        .map_err(|wrong| ApiError(Problem::new(ErrorCode::InvalidRequest, wrong.to_string())))
}
