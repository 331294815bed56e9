//! The four plan actions of other engines: decompose, execute, replan, status. Answers have their shape.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use goalmill_common::access::Role;
use goalmill_common::command::Verb;
use goalmill_common::planning::ReplanOptions;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::status::{Counts, PlanStatus, StepStatus};
use goalmill_common::text::pointer_part;
use goalmill_common::wire::SubmissionKind;
use goalmill_engine::{PlanState, revise};
use goalmill_formats::{ExportState, export_plan};
use goalmill_plan::document::Format;
use goalmill_planning::CallLog;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::namespaces;
use super::plan_access::{load_plan, load_summary, send_verb};
use super::principal::Principal;
use super::response::{self, ApiError, ApiResult, Body};
use super::submit::submit_document;
use super::{Api, approvals};
use crate::effects;
use crate::submission::{self, ParsedGoal};

/// How long an action waits for its end by default, in seconds.
const WAIT_SECONDS: f64 = 30.0;
/// The longest that it waits, in seconds.
const WAIT_SECONDS_MAX: f64 = 300.0;
/// Time between two looks at a plan.
const LOOK: Duration = Duration::from_millis(50);

/// What `decompose` takes; other fields are settings of the planner under the names of that form.
#[derive(Deserialize, schemars::JsonSchema)]
pub(super) struct DecomposeBody {
    /// A sentence, or a goal.
    goal: Value,
    #[serde(default)]
    model: Option<String>,
    /// `flat`, `hierarchical` or `iterative`.
    #[serde(default)]
    strategy: Option<String>,
    #[serde(flatten)]
    settings: Map<String, Value>,
}

/// A plan that was made and does not run.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Decomposed {
    /// In the form `actions`.
    plan: Value,
    plan_id: String,
    subtask_count: usize,
    planning_trace: Value,
    success: bool,
    /// How the request was read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<Issue>,
}

/// `POST /v1/actions/decompose`.
pub(crate) async fn decompose(State(api): State<Api>, principal: Principal, body: Body) -> ApiResult<Decomposed> {
    let DecomposeBody { goal, model, strategy, settings } = response::parse_json(&response::body(body)?)?;
    let mut document =
        if let Value::Object(map) = goal { map } else { Map::from_iter([("description".to_owned(), goal)]) };
    document.extend(settings);
    let mut planning = match document.shift_remove("planning") {
        Some(Value::Object(planning)) => planning,
        _ => Map::new(),
    };
    let named = [("model", model), ("strategy", strategy)];
    planning.extend(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))));
    if !planning.is_empty() {
        document.insert("planning".into(), Value::Object(planning));
    }
    let text = Bytes::from(Value::Object(document).to_string());
    let document = submission::read_document(&api.scheduler, text, Format::Auto, SubmissionKind::Goal).await?;
    let parsed = submission::parse_goal(&api.scheduler, document).await?;
    let ParsedGoal { mut goal, notes } = parsed;
    goal.namespace = principal.place(goal.namespace.take())?;
    let planned = effects::propose(&api.scheduler, goal.clone(), CallLog::default()).await?;
    let plan_id = format!("draft-{}", api.scheduler.random.token());
    let state = ExportState::unstarted(plan_id.clone(), goal, api.scheduler.clock.now_ms());
    Ok(Json(Decomposed {
        plan: export_plan(&planned.plan, &state),
        plan_id,
        subtask_count: planned.plan.steps.len(),
        planning_trace: trace(planned.provenance.map(|trace| trace.value())),
        success: true,
        notes,
    }))
}

/// The rounds of a planner's account, where it has some.
fn trace(account: Option<Value>) -> Value {
    let account = account.unwrap_or_else(|| json!([]));
    account.get("rounds").cloned().unwrap_or(account)
}

/// What `execute` takes; other fields are settings of the execution under the names of that form.
#[derive(Deserialize, schemars::JsonSchema)]
pub(super) struct ExecuteBody {
    /// A plan in any form, or the id of one that waits for approval or runs.
    plan: Value,
    /// How long to wait for the end, at most 300; default 30.
    #[serde(default)]
    wait_seconds: Option<f64>,
    #[serde(flatten)]
    settings: Map<String, Value>,
}

/// A plan that runs, or has ended.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Executed {
    /// In the form `actions`, with its state.
    plan: Value,
    plan_id: String,
    /// Outputs by step.
    subtask_results: Map<String, Value>,
    plan_status: ActionCounts,
    replan_count: u32,
    planning_trace: Value,
    /// Whether the plan is completed.
    success: bool,
    /// How the request was read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<Issue>,
}

/// How many subtasks stand where.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct ActionCounts {
    total: u32,
    pending: u32,
    in_progress: u32,
    completed: u32,
    failed: u32,
    skipped: u32,
}

impl From<Counts> for ActionCounts {
    fn from(counts: Counts) -> Self {
        let Counts { total, pending, in_progress, completed, failed, skipped } = counts;
        Self { total, pending, in_progress, completed, failed, skipped }
    }
}

/// Refuses settings of the execution of a plan that is there already.
fn refuse_settings(settings: &Map<String, Value>) -> Result<(), ApiError> {
    let refused = |name: &String| Issue {
        code: "UNKNOWN_FIELD".into(),
        pointer: format!("/{}", pointer_part(name)),
        detail: format!("`{name}` cannot be said of a plan that is there already"),
        hint: "remove it and edit the plan, or send the plan as a document".into(),
    };
    let issues: Vec<Issue> = settings.keys().map(refused).collect();
    let detail = "the plan cannot be executed so";
    if issues.is_empty() { Ok(()) } else { Err(approvals::invalid_request(detail, issues)) }
}

/// `POST /v1/actions/execute`.
pub(crate) async fn execute(
    State(api): State<Api>,
    principal: Principal,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Executed> {
    let ExecuteBody { plan, wait_seconds, settings } = response::parse_json(&response::body(body)?)?;
    let wait = wait_time(wait_seconds)?;
    let (id, notes) = if let Value::String(id) = plan {
        // What is there is read, and perhaps approved.
        require_plan(&api, &principal, &id).await?;
        refuse_settings(&settings)?;
        let status = load_summary(&api, &id).await?.0.status;
        if status == PlanStatus::AwaitingApproval {
            principal.require(&[Role::Approver])?;
            send_verb(&api, &principal, &id, "", Verb::Approve { reason: "executed".into() }).await?;
        }
        (id, Vec::new())
    } else {
        let mut document = settings;
        document.insert("plan".into(), plan);
        let text = Bytes::from(Value::Object(document).to_string());
        let (id, notes) = submit_document(&api, &principal, &headers, text).await?;
        (id.to_string(), notes)
    };
    wait_until(&api, &id, wait, |status, _| status.is_final() || status == PlanStatus::AwaitingApproval).await?;
    let state = load_plan(&api, &id).await?;
    let view = state.view(true);
    Ok(Json(Executed {
        plan: document(&state),
        plan_id: id,
        subtask_results: state.results().results,
        plan_status: view.summary.counts.into(),
        replan_count: view.summary.revision,
        planning_trace: json!([]),
        success: view.summary.status == PlanStatus::Completed,
        notes,
    }))
}

fn document(state: &PlanState) -> Value {
    export_plan(&revise::live_plan(state), &ExportState::from_view(&state.view(true)))
}

async fn require_plan(api: &Api, principal: &Principal, id: &str) -> Result<(), ApiError> {
    namespaces::require_plan(api.scheduler.plans.as_ref(), principal, id).await
}

/// The form of [`plan_id`].
fn plan_schema(_: &mut SchemaGenerator) -> Schema {
    let named =
        ["id", "plan_id", "planId"].map(|name| json!({"required": [name], "properties": {name: {"type": "string"}}}));
    json_schema!({"anyOf": [{"type": "string"}, {"type": "object", "anyOf": named}]})
}

/// Which plan an action is about: its id, or a document of it.
fn plan_id(plan: &Value, named: Option<&str>) -> Result<String, ApiError> {
    let inside = ["id", "plan_id", "planId"].iter().find_map(|name| plan.get(*name)?.as_str());
    let id = named.or_else(|| plan.as_str()).or(inside);
    id.map(ToOwned::to_owned).ok_or_else(|| {
        let detail = "no plan is named; give its id as `plan`, or a plan with an `id`";
        ApiError(Problem::new(ErrorCode::InvalidRequest, detail))
    })
}

fn wait_time(seconds: Option<f64>) -> Result<Duration, ApiError> {
    let seconds = seconds.unwrap_or(WAIT_SECONDS);
    if !(0.0..=WAIT_SECONDS_MAX).contains(&seconds) {
        let detail = format!("`wait_seconds` is not in 0..={WAIT_SECONDS_MAX}");
        return Err(Problem::new(ErrorCode::InvalidRequest, detail).into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Waits until a plan is as wanted, or time is up.
async fn wait_until(
    api: &Api,
    id: &str,
    wait: Duration,
    is_done: impl Fn(PlanStatus, u32) -> bool,
) -> Result<(), ApiError> {
    let end = tokio::time::Instant::now() + wait;
    loop {
        let summary = load_summary(api, id).await?.0;
        if is_done(summary.status, summary.revision) || tokio::time::Instant::now() >= end {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What `replan` takes.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplanActionBody {
    /// The plan's id, or a document of it.
    #[schemars(schema_with = "plan_schema")]
    plan: Value,
    /// What happened, for the planner and the log.
    #[serde(default)]
    reason: String,
    /// What is wanted instead.
    #[serde(default)]
    hint: String,
    /// The model that is asked first.
    #[serde(default)]
    model: Option<String>,
    /// Temperature of the models, 0 to 2.
    #[serde(default)]
    temperature: Option<f64>,
    /// How long to wait for the revision, at most 300; default 30.
    #[serde(default)]
    wait_seconds: Option<f64>,
}

/// A plan after it was asked to change.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Replanned {
    /// In the form `actions`, with its state.
    plan: Value,
    /// Subtasks that were completed before and stay.
    preserved_subtasks: usize,
    /// Subtasks that the revision added.
    new_subtasks: usize,
    planning_trace: Value,
    /// Whether there is a new revision.
    success: bool,
}

/// `POST /v1/actions/replan`.
pub(crate) async fn replan(State(api): State<Api>, principal: Principal, body: Body) -> ApiResult<Replanned> {
    let body: ReplanActionBody = response::parse_json(&response::body(body)?)?;
    let ReplanActionBody { plan, reason, hint, model, temperature, wait_seconds } = body;
    let options = approvals::checked_options(&api, ReplanOptions { model, temperature, strategy: None })?;
    let wait = wait_time(wait_seconds)?;
    let id = plan_id(&plan, None)?;
    require_plan(&api, &principal, &id).await?;
    let before = load_summary(&api, &id).await?.0.revision;
    send_verb(&api, &principal, &id, "", Verb::Replan { reason, hint, options }).await?;
    wait_until(&api, &id, wait, |status, revision| revision > before || status != PlanStatus::Replanning).await?;
    let state = load_plan(&api, &id).await?;
    let fresh = revise::revisions(&state).iter().filter(|record| record.revision > before);
    let (mut added, mut changes) = (0, Vec::new());
    for record in fresh {
        added += record.added.len();
        changes.extend(record.changes.iter().map(|line| json!(line)));
    }
    let view = state.view(false);
    let completed = view.steps.iter().filter(|step| step.status == StepStatus::Completed).count();
    Ok(Json(Replanned {
        plan: document(&state),
        preserved_subtasks: completed,
        new_subtasks: added,
        planning_trace: Value::Array(changes),
        success: view.summary.revision > before,
    }))
}

/// What `status` takes.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [{"required": ["plan"]}, {"required": ["plan_id"], "properties": {"plan_id": {"type": "string"}}}]))]
pub(super) struct StatusBody {
    /// The plan's id, or a document of it.
    #[serde(default)]
    #[schemars(schema_with = "plan_schema")]
    plan: Value,
    #[serde(default)]
    plan_id: Option<String>,
    /// Whether completed subtasks are among the details; default true.
    #[serde(default)]
    include_completed: Option<bool>,
    /// Whether the subtasks are listed; default false.
    #[serde(default)]
    include_details: bool,
}

/// Where a plan stands.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct ActionStatus {
    status: ActionCounts,
    /// 0 to 1.
    progress: f64,
    plan_id: String,
    goal: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subtasks: Option<Vec<Value>>,
    success: bool,
}

/// `POST /v1/actions/status`.
pub(crate) async fn status(State(api): State<Api>, principal: Principal, body: Body) -> ApiResult<ActionStatus> {
    let StatusBody { plan, plan_id: named, include_completed, include_details } =
        response::parse_json(&response::body(body)?)?;
    let id = plan_id(&plan, named.as_deref())?;
    require_plan(&api, &principal, &id).await?;
    let view = load_plan(&api, &id).await?.view(true);
    let is_shown = |status: StepStatus| include_completed.unwrap_or(true) || status != StepStatus::Completed;
    let subtasks = include_details.then(|| {
        let shown = view.steps.iter().filter(|step| is_shown(step.status));
        let one = |step: &goalmill_common::view::StepView| {
            json!({"id": step.id, "description": step.description, "dependencies": step.dependencies,
                   "status": step.status.progress_group(), "result": step.outputs})
        };
        shown.map(one).collect()
    });
    Ok(Json(ActionStatus {
        status: view.summary.counts.into(),
        progress: view.summary.progress,
        plan_id: id,
        goal: view.goal.description,
        subtasks,
        success: true,
    }))
}
