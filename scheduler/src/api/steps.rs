//! Single steps: read, retry, skip, complete, approve, reject, answer.

use axum::Json;
use axum::extract::{Path, State};
use goalmill_common::command::Verb;
use goalmill_common::id::StepId;
use goalmill_common::json::Json as Payload;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::revision::Change;
use goalmill_common::status::StepStatus;
use goalmill_common::view::StepView;
use serde::Deserialize;

use super::Api;
use super::approvals::{self, REASON_BYTES_MAX};
use super::openapi::verbs_of;
use super::payloads::PayloadFill;
use super::plan_access::{load_plan, send_verb};
use super::plans::OutputsQuery;
use super::principal::Principal;
use super::query_parameters::Query;
use super::response::{self, ApiError, ApiResult, Body, unknown_verb};

pub(crate) async fn get(
    State(api): State<Api>,
    Path((id, step)): Path<(String, String)>,
    Query(OutputsQuery { whole }): Query<OutputsQuery>,
) -> ApiResult<StepView> {
    let Json(mut view) = view(&api, &id, &step).await?;
    if let Some(outputs) = view.outputs.as_mut().filter(|_| whole) {
        PayloadFill::new(&api, id.as_str().into()).fill_json(outputs).await?;
    }
    Ok(Json(view))
}

/// The body of a verb on a step: reason, actor, outputs.
#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "StepResult")]
pub(super) struct StepVerbBody {
    reason: String,
    /// An id such as `cli:ann`; default `api`.
    actor: String,
    /// For `complete`: any JSON.
    outputs: Option<Payload>,
}

/// `POST /v1/plans/{id}/steps/{step}:{verb}`.
pub(crate) async fn act(
    State(api): State<Api>,
    principal: Principal,
    Path((id, address)): Path<(String, String)>,
    body: Body,
) -> ApiResult<StepView> {
    let body = response::body(body)?;
    let (name, verb) = address.rsplit_once(':').unwrap_or((&address, ""));
    if verb == "answer" {
        approvals::answer(&api, &principal, &id, name, &body).await?;
        return view(&api, &id, name).await;
    }
    let because: StepVerbBody = response::parse_json(&body)?;
    check_lengths(&because, api.scheduler.settings.limits.payload_bytes_max)?;
    let (step, reason) = (StepId::from(name), because.reason);
    let verb = match verb {
        "retry" => retry(&api, &id, step, reason).await?,
        "skip" => Verb::SkipStep { step, reason },
        "complete" => Verb::CompleteStep { step, outputs: because.outputs.unwrap_or_default(), reason },
        "approve" => Verb::ApproveStep { step, reason },
        "reject" => Verb::RejectStep { step, reason },
        other => return Err(unknown_verb(other, &verbs_of("/v1/plans/{id}/steps/{step}").join(", "))),
    };
    let retries = address.ends_with(":retry");
    send_verb(&api, &principal, &id, &because.actor, verb)
        .await
        .map_err(|refusal| if retries { explain_retry(refusal, &id) } else { refusal })?;
    view(&api, &id, name).await
}

/// Retries a step: immediately if it waits for its next attempt, by an edit if it failed or was skipped and the plan still
/// runs.
async fn retry(api: &Api, id: &str, step: StepId, reason: String) -> Result<Verb, ApiError> {
    let at = load_plan(api, id).await?;
    let steps = at.view(false).steps;
    let status = steps.iter().find(|own| own.id == step).map(|own| own.status);
    if at.status().is_final() || !matches!(status, Some(StepStatus::Failed | StepStatus::Skipped)) {
        return Ok(Verb::RetryStep { step, reason });
    }
    let change = Change::RetryStep { step, agent_type: None, action: None, inputs: None };
    Ok(Verb::Edit { changes: vec![change], revision: Some(at.revision()), reason })
}

/// Adds to the error of a retry which retries are possible.
fn explain_retry(ApiError(mut problem): ApiError, plan: &str) -> ApiError {
    if matches!(problem.code, ErrorCode::PlanFinal | ErrorCode::NotAllowed) {
        problem.detail.push_str(&format!(
            "; a step can be retried while it waits for its next attempt, or once it has failed or was skipped and the \
             plan goes on. To run the whole plan again as a new one: \
             goalmill plan export {plan} | goalmill run -"
        ));
    }
    ApiError(problem)
}

fn check_lengths(because: &StepVerbBody, payload_bytes_max: usize) -> Result<(), ApiError> {
    let outputs = because.outputs.as_ref().map_or(0, |outputs| outputs.text().len());
    let too_large = [("outputs", outputs, payload_bytes_max), ("reason", because.reason.len(), REASON_BYTES_MAX)]
        .into_iter()
        .find(|(_, bytes, most)| bytes > most);
    let Some((name, bytes, most)) = too_large else { return Ok(()) };
    Err(Problem::new(ErrorCode::BodyTooLarge, format!("`{name}` has {bytes} bytes, more than {most}")).into())
}

async fn view(api: &Api, id: &str, step: &str) -> ApiResult<StepView> {
    let view = load_plan(api, id).await?.view(true);
    let found = view.steps.into_iter().find(|s| s.id.as_str() == step);
    found.map(Json).ok_or_else(|| {
        ApiError(Problem::new(ErrorCode::StepNotFound, format!("plan `{id}` has no step `{}`", response::shown(step))))
    })
}
