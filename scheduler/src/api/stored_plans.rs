//! Stored plans: puts, lists, shows, runs and retires them, each caller in its own namespace.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use goalmill_common::clock::rfc3339;
use goalmill_common::command::content_fingerprint;
use goalmill_common::goal::INPUTS;
use goalmill_common::id::Namespace;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::stored_plan::{
    NAME_CHARS_MAX, REF_FORM, Retirement, STORED_PLAN, StoredPlanRef, StoredPlanVersion, StoredPlanView, is_name,
};
use goalmill_common::view::Page;
use goalmill_formats::{DraftKind, convert_draft};
use goalmill_plan::document::{self, Format};
use goalmill_plan::foreign;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::principal::Principal;
use super::response::{self, ApiError, ApiResult, Body, shown, unknown_verb};
use super::submit::{SubmissionHeaders, count_refused, start_submission};
use super::{Api, wait_preference};
use crate::run_blocking::run_blocking_if_large;
use crate::scheduler::Scheduler;
use crate::stored_plans::{PlanScope, StoredPlans, resolve_uses};
use crate::submission::{self, ParsedPlan, SubmittedDocument};

/// The body of `run`.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunStoredBody {
    /// What the plan works with: its expressions see them as `inputs`.
    #[serde(default)]
    inputs: Map<String, Value>,
}

/// The body of `retire`.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RetireBody {
    /// Why; kept with the version.
    #[serde(default)]
    reason: String,
    /// An id such as `cli:ann`; default `api`.
    #[serde(default)]
    actor: String,
}

/// Characters of the reason of a retirement.
const REASON_CHARS_MAX: usize = 1_000;

/// `GET /v1/stored-plans`: the newest version of every name.
pub(crate) async fn list(State(api): State<Api>, principal: Principal) -> ApiResult<Page<StoredPlanView>> {
    let namespace = namespace(&principal)?;
    let items = StoredPlans::new(&api.scheduler, &namespace).list().await?;
    Ok(Json(Page { items, next: None }))
}

/// `GET /v1/stored-plans/{stored}`.
pub(crate) async fn get(
    State(api): State<Api>,
    principal: Principal,
    Path(address): Path<String>,
) -> ApiResult<StoredPlanVersion> {
    let namespace = namespace(&principal)?;
    Ok(Json(StoredPlans::new(&api.scheduler, &namespace).get(&parse_ref(&address)?).await?))
}

/// `GET /v1/stored-plans/{stored}/versions`.
pub(crate) async fn versions(
    State(api): State<Api>,
    principal: Principal,
    Path(address): Path<String>,
) -> ApiResult<Page<StoredPlanView>> {
    let (namespace, plan) = (namespace(&principal)?, parse_ref(&address)?);
    let items = StoredPlans::new(&api.scheduler, &namespace).versions(&plan.name).await?;
    Ok(Json(Page { items, next: None }))
}

/// `POST /v1/stored-plans/{stored}:run` and `:retire`.
pub(crate) async fn act(
    State(api): State<Api>,
    principal: Principal,
    headers: HeaderMap,
    Path(address): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let body = response::body(body)?;
    let (plan, verb) = address.rsplit_once(':').unwrap_or((&address, ""));
    match verb {
        "run" => submit_stored_plan(&api, &principal, &headers, &parse_ref(plan)?, body).await,
        "retire" => retire(&api, &principal, &parse_ref(plan)?, &body).await,
        verb => Err(unknown_verb(verb, "run, retire")),
    }
}

/// `POST /v1/stored-plans/{stored}/versions`.
pub(crate) async fn put(
    State(api): State<Api>,
    principal: Principal,
    headers: HeaderMap,
    Path(name): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let text = response::body(body)?;
    if !is_name(&name) {
        let detail = format!(
            "`{}` cannot name a stored plan; give up to {NAME_CHARS_MAX} letters, digits, `.`, `_`, `-`; the version is counted",
            shown(&name)
        );
        return Err(Problem::new(ErrorCode::InvalidRequest, detail).into());
    }
    let format = response::document_format(&headers)?;
    let namespace = namespace(&principal)?;
    api.scheduler.health.check_admission()?;
    let stored_at = rfc3339(api.scheduler.clock.now_ms());
    let checked = check_document(&api.scheduler, text, format, &namespace).await?;
    let CheckedDocument { document, description, steps, input_schema } = checked;
    let (actor, retired) = (principal.actor.clone(), None);
    let view = StoredPlanView { name, version: 0, description, steps, input_schema, actor, stored_at, retired };
    let (view, is_new) = StoredPlans::new(&api.scheduler, &namespace).put(StoredPlanVersion { view, document }).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    if is_new {
        tracing::info!("stored plan `{}` of namespace `{namespace}` was put by `{}`", view.reference(), view.actor);
    }
    Ok((status, Json(view)).into_response())
}

/// A valid document, in the form in which it is stored: the stored plans that it uses are named.
struct CheckedDocument {
    document: Value,
    description: String,
    steps: usize,
    input_schema: Option<Value>,
}

async fn check_document(
    scheduler: &Arc<Scheduler>,
    text: Bytes,
    format: Format,
    namespace: &Namespace,
) -> Result<CheckedDocument, Problem> {
    let bytes = text.len();
    let draft = submission::read_draft(scheduler, text, format).await?;
    if foreign::is_workflow(&draft) {
        let detail = "a workflow that makes its plan cannot be stored; store a plan with `steps`";
        return Err(Problem::new(ErrorCode::InvalidPlan, detail));
    }
    let scope = PlanScope { namespace: namespace.clone(), sees_all: false };
    let resolved = resolve_uses(scheduler, draft.clone(), &scope).await?;
    let scheduler = scheduler.clone();
    run_blocking_if_large(bytes, move || {
        let (goal, plan) = submission::validate_stored(&scheduler, resolved)?;
        let document = convert_draft(draft, &scheduler.settings.limits, DraftKind::Document).document;
        let description = if goal.description.is_empty() { plan.name.clone() } else { goal.description };
        let (steps, input_schema) = (plan.steps.len(), plan.input_schema.map(|schema| schema.value()));
        Ok(CheckedDocument { document, description, steps, input_schema })
    })
    .await
}

async fn submit_stored_plan(
    api: &Api,
    principal: &Principal,
    headers: &HeaderMap,
    plan: &StoredPlanRef,
    body: Bytes,
) -> Result<Response, ApiError> {
    let content = content_fingerprint(&format!("stored-plan {plan}"), &response::parse_json(&body)?);
    let sent = SubmissionHeaders::parse(api, headers, &content, body.len())?;
    if let Some(previous) = sent.find_previous(api, principal).await? {
        return wait_preference::answer(api, headers, previous, Vec::new()).await;
    }
    let RunStoredBody { inputs } = response::parse_json(&body)?;
    let namespace = namespace(principal)?;
    let stored = StoredPlans::new(&api.scheduler, &namespace).get_current(plan).await.inspect_err(count_refused)?;
    let bytes = stored.document.to_string().len() + body.len();
    let scope = PlanScope { namespace, sees_all: false };
    let draft = run_draft(&stored, inputs);
    document::check_size(&draft, &api.scheduler.settings.limits)
        .map_err(|issues| submission::issues_problem(ErrorCode::InvalidPlan, issues))
        .inspect_err(count_refused)?;
    let document = SubmittedDocument::of_stored(draft, bytes);
    let parsed = submission::parse_plan(&api.scheduler, document, &scope).await.inspect_err(count_refused)?;
    let ParsedPlan { goal, planned, notes } = parsed;
    let warnings = planned.as_ref().map_or(notes, |planned| planned.warnings.clone());
    let begun = start_submission(api, principal, sent, goal, planned).await?;
    wait_preference::answer(api, headers, begun, warnings).await
}

/// The document with its inputs and its version in the goal.
fn run_draft(stored: &StoredPlanVersion, inputs: Map<String, Value>) -> Value {
    let draft = stored.document.clone();
    let mut goal = match document::split_goal(&draft) {
        Some(Value::Object(goal)) => goal,
        Some(Value::String(description)) => Map::from_iter([("description".to_owned(), description.into())]),
        _ => Map::from_iter([("description".to_owned(), stored.view.name.as_str().into())]),
    };
    let object = |value| if let Some(Value::Object(fields)) = value { fields } else { Map::new() };
    let mut all = object(goal.remove(INPUTS));
    all.extend(inputs);
    goal.insert(INPUTS.into(), Value::Object(all));
    let mut metadata = object(goal.remove("metadata"));
    metadata.insert(STORED_PLAN.into(), stored.view.reference().to_string().into());
    goal.insert("metadata".into(), Value::Object(metadata));
    let mut fields = match draft {
        Value::Object(fields) => fields,
        steps @ (Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            Map::from_iter([("steps".to_owned(), steps)])
        }
    };
    fields.retain(|key, _| !matches!(key.as_str(), "query" | "job" | INPUTS));
    fields.insert("goal".into(), Value::Object(goal));
    Value::Object(fields)
}

async fn retire(api: &Api, principal: &Principal, plan: &StoredPlanRef, body: &Bytes) -> Result<Response, ApiError> {
    let RetireBody { reason, actor } = response::parse_small_json(body)?;
    let invalid = |detail: String| ApiError::from(Problem::new(ErrorCode::InvalidRequest, detail));
    let version = plan.version.ok_or_else(|| invalid(format!("name the version to retire, such as `{plan}@1`")))?;
    if reason.chars().count() > REASON_CHARS_MAX {
        return Err(invalid(format!("`reason` has more than {REASON_CHARS_MAX} characters")));
    }
    let retirement =
        Retirement { actor: principal.actor_named(&actor)?, at: rfc3339(api.scheduler.clock.now_ms()), reason };
    let namespace = namespace(principal)?;
    let view = StoredPlans::new(&api.scheduler, &namespace).retire(&plan.name, version, &retirement).await?;
    tracing::info!("stored plan `{plan}` of namespace `{namespace}` was retired by `{}`", retirement.actor);
    Ok(Json(view).into_response())
}

fn namespace(principal: &Principal) -> Result<Namespace, ApiError> {
    Ok(principal.place(None)?.unwrap_or_default())
}

fn parse_ref(text: &str) -> Result<StoredPlanRef, ApiError> {
    StoredPlanRef::parse(text).ok_or_else(|| {
        let detail = format!("`{}` does not name a stored plan; give {REF_FORM}", shown(text));
        Problem::new(ErrorCode::InvalidRequest, detail).into()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(document: Value) -> StoredPlanVersion {
        let view = StoredPlanView {
            name: "trip".into(),
            version: 3,
            description: String::new(),
            steps: 1,
            input_schema: None,
            actor: "ann".into(),
            stored_at: String::new(),
            retired: None,
        };
        StoredPlanVersion { view, document }
    }

    #[test]
    fn a_run_has_its_inputs_and_its_version_in_the_goal() {
        let given = || Map::from_iter([("city".to_owned(), json!("Oslo"))]);
        let steps = json!([{"id": "a"}]);
        let run = run_draft(&stored(steps.clone()), given());
        let goal = json!({"description": "trip", "inputs": {"city": "Oslo"}, "metadata": {"stored_plan": "trip@3"}});
        assert_eq!(run, json!({"steps": steps, "goal": goal}));
        let own = json!({"city": "Rome", "days": 2});
        let run = run_draft(&stored(json!({"steps": steps, "query": {"description": "go"}, "inputs": own})), given());
        assert_eq!(run["goal"]["inputs"], json!({"city": "Oslo", "days": 2}));
        assert_eq!((&run["goal"]["description"], run.get("query")), (&json!("go"), None));
    }
}
