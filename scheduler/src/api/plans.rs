//! Plans: validate, preview, read, and the verbs on a whole plan.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use goalmill_common::clock::rfc3339;
use goalmill_common::command::Verb;
use goalmill_common::id::PlanId;
use goalmill_common::layout::{PlanLayout, layout_plan};
use goalmill_common::number::to_usize;
use goalmill_common::plan::Plan;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::status::StepStatus;
use goalmill_common::view::{Explanation, PlanningProgress, Preview};
use goalmill_common::wire::SubmissionKind;
use goalmill_engine::{StepWindow, explain, revise};
use goalmill_llm::{CallProgress, ProgressMeter};
use goalmill_plan::document::Format;
use goalmill_plan::validate;
use goalmill_planning::CallLog;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::entity_tag::tagged;
use super::events::{StreamPermit, wants_stream};
use super::openapi::verbs_of;
use super::payloads::{PayloadFill, WHOLE, parse_whole};
use super::plan_access::{load_plan, load_plan_at, load_summary, send_verb};
use super::principal::Principal;
use super::query_parameters::{Parameters, Query, RawParameters};
use super::response::{self, ApiError, ApiResult, Body, unknown_verb};
use super::{Api, approvals, entity_tag, fork, registry};
use crate::effects;
use crate::quarantine::QuarantineRecord;
use crate::run_blocking::run_blocking_if_large;
use crate::submission::{self, ParsedGoal};

/// Interval between two events of the progress of a preview.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// Bytes of a step without its dependencies, for [`graph_bytes`].
const STEP_BYTES: usize = 64;
/// Bytes of one dependency.
const DEPENDENCY_BYTES: usize = 8;

pub(crate) async fn validate(
    State(api): State<Api>,
    principal: Principal,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Preview> {
    let (text, format) = (response::body(body)?, response::document_format(&headers)?);
    match submission::preview_plan(&api.scheduler, text, format, &principal.plan_scope()).await {
        Ok(preview) => Ok(Json(add_layout(preview).await)),
        Err(problem) if problem.errors.is_empty() => Err(problem.into()),
        Err(problem) => Ok(Json(Preview::refused(problem.errors))),
    }
}

/// `POST /v1/plans:preview`: the plan, or a stream of the progress that ends with it.
pub(crate) async fn preview(
    State(api): State<Api>,
    principal: Principal,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = response::body(body)?;
    let document = submission::read_document(&api.scheduler, body, Format::Auto, SubmissionKind::Goal).await?;
    let mut parsed = submission::parse_goal(&api.scheduler, document).await?;
    parsed.goal.namespace = principal.place(parsed.goal.namespace.take())?;
    if !wants_stream(&headers) {
        return Ok(Json(preview_goal(&api, parsed, CallLog::default()).await?).into_response());
    }
    let permit = StreamPermit::acquire(&api)?;
    let meter = ProgressMeter::default();
    let call_log = CallLog::watched(meter.clone());
    let planning = Box::pin(async move { preview_goal(&api, parsed, call_log).await });
    Ok(Sse::new(preview_events(planning, meter, permit)).keep_alive(KeepAlive::default()).into_response())
}

async fn preview_goal(api: &Api, parsed: ParsedGoal, call_log: CallLog) -> Result<Preview, Problem> {
    let ParsedGoal { goal, notes } = parsed;
    let mut planned = effects::propose(&api.scheduler, goal, call_log).await?;
    planned.warnings.splice(0..0, notes);
    Ok(add_layout(validate::preview(planned, Some(&api.scheduler.directory.catalogue()))).await)
}

/// `progress` twice a second, then `preview` or `problem`.
fn preview_events<F>(
    planning: F,
    meter: ProgressMeter,
    permit: StreamPermit,
) -> impl Stream<Item = Result<SseEvent, Infallible>>
where
    F: Future<Output = Result<Preview, Problem>> + Unpin,
{
    let begun = Instant::now();
    stream::unfold(Some((planning, permit)), move |state| {
        let meter = meter.clone();
        async move {
            let (mut planning, permit) = state?;
            let (event, rest) = tokio::select! {
                biased;
                ended = &mut planning => match ended {
                    Ok(preview) => (sse_event("preview", &preview), None),
                    Err(problem) => (sse_event("problem", &problem), None),
                },
                () = tokio::time::sleep(PROGRESS_EVERY) => {
                    let CallProgress { model, mode, calls, output_tokens, .. } = meter.current_progress();
                    let mode = mode.map(|mode| mode.as_str().to_owned()).unwrap_or_default();
                    let seconds = begun.elapsed().as_secs_f64();
                    let progress = PlanningProgress { model, mode, calls, output_tokens, seconds };
                    (sse_event("progress", &progress), Some((planning, permit)))
                }
            };
            Some((Ok(event), rest))
        }
    })
}

fn sse_event<T: Serialize>(name: &str, value: &T) -> SseEvent {
    let text = serde_json::to_string(value).expect("plain data always has a JSON text");
    SseEvent::default().event(name).data(text)
}

async fn add_layout(preview: Preview) -> Preview {
    let bytes = preview.plan.as_ref().map_or(0, graph_bytes);
    run_blocking_if_large(bytes, move || Preview { layout: preview.plan.as_ref().map(layout_plan), ..preview }).await
}

/// About the size of a plan's graph as text: its layout takes a millisecond where parsing such a text does.
fn graph_bytes(plan: &Plan) -> usize {
    plan.steps.iter().map(|step| STEP_BYTES + DEPENDENCY_BYTES * step.dependencies.len()).sum()
}

#[derive(schemars::JsonSchema)]
pub(crate) struct PlanViewQuery {
    /// Large outputs in the place of their references, 16 MiB in all.
    #[schemars(with = "Option<bool>")]
    whole: bool,
    /// At most so many of its steps, in the order of the plan; `counts` is of all.
    steps_limit: Option<u32>,
    /// So many of its steps are left out before them.
    steps_offset: Option<u32>,
    /// Only its steps with this status.
    steps_status: Option<StepStatus>,
}

impl Parameters for PlanViewQuery {
    const NAMES: &'static [&'static str] = &[WHOLE, "steps_limit", "steps_offset", "steps_status"];

    fn parse(given: &mut RawParameters) -> Self {
        Self {
            whole: parse_whole(given),
            steps_limit: given.number("steps_limit", 0..=u32::MAX),
            steps_offset: given.number("steps_offset", 0..=u32::MAX),
            steps_status: given.status("steps_status", StepStatus::ALL),
        }
    }
}

impl PlanViewQuery {
    /// Which steps are given.
    fn steps(&self) -> StepWindow {
        StepWindow {
            status: self.steps_status,
            offset: self.steps_offset.map_or(0, to_usize),
            limit: self.steps_limit.map_or(usize::MAX, to_usize),
        }
    }
}

#[derive(schemars::JsonSchema)]
pub(crate) struct OutputsQuery {
    /// Large outputs in the place of their references, 16 MiB in all.
    #[schemars(with = "Option<bool>")]
    pub(super) whole: bool,
}

impl Parameters for OutputsQuery {
    const NAMES: &'static [&'static str] = &[WHOLE];

    fn parse(given: &mut RawParameters) -> Self {
        Self { whole: parse_whole(given) }
    }
}

/// The plan with its steps.
pub(crate) async fn get(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<PlanViewQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(same) = entity_tag::not_modified(&api, &id, &headers).await? {
        return Ok(same);
    }
    let state = load_plan(&api, &id).await?;
    let mut view = state.view_of_steps(true, query.steps());
    if query.whole {
        let mut payloads = PayloadFill::new(&api, state.id().clone());
        for outputs in view.steps.iter_mut().filter_map(|step| step.outputs.as_mut()) {
            payloads.fill_json(outputs).await?;
        }
    }
    Ok(tagged(state.seq(), view))
}

#[derive(schemars::JsonSchema)]
pub(crate) struct RevisionParameters {
    /// The state at this revision.
    revision: Option<u32>,
}

impl Parameters for RevisionParameters {
    const NAMES: &'static [&'static str] = &["revision"];

    fn parse(given: &mut RawParameters) -> Self {
        Self { revision: given.number("revision", 0..=u32::MAX) }
    }
}

/// The plan as a document; `?revision=N` for an earlier revision.
pub(crate) async fn graph(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(RevisionParameters { revision }): Query<RevisionParameters>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(same) = entity_tag::not_modified(&api, &id, &headers).await? {
        return Ok(same);
    }
    let state = load_plan_at(&api, &id, revision).await?;
    if state.is_empty() {
        let status = state.status();
        let detail = match status.is_final() {
            true => format!("plan `{id}` never got any steps: it is {status}; `goalmill explain {id}` says why"),
            false => format!("plan `{id}` has no steps yet: it is {status}"),
        };
        return Err(Problem::new(ErrorCode::NotAllowed, detail).into());
    }
    Ok(tagged(state.seq(), revise::live_plan(&state)))
}

/// Where the steps stand in a drawing of the plan; `?revision=N` for an earlier revision. Nothing before it has steps.
pub(crate) async fn layout(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(RevisionParameters { revision }): Query<RevisionParameters>,
) -> ApiResult<PlanLayout> {
    let state = load_plan_at(&api, &id, revision).await?;
    if state.is_empty() {
        return Ok(Json(PlanLayout::default()));
    }
    let plan = revise::live_plan(&state);
    Ok(Json(run_blocking_if_large(graph_bytes(&plan), move || layout_plan(&plan)).await))
}

pub(crate) async fn results(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(OutputsQuery { whole }): Query<OutputsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(same) = entity_tag::not_modified(&api, &id, &headers).await? {
        return Ok(same);
    }
    let state = load_plan(&api, &id).await?;
    let mut results = state.results();
    if whole {
        let mut payloads = PayloadFill::new(&api, state.id().clone());
        for outputs in results.results.values_mut() {
            payloads.fill(outputs).await?;
        }
        if let Some(output) = &mut results.final_output {
            payloads.fill_json(output).await?;
        }
    }
    Ok(tagged(state.seq(), results))
}

pub(crate) async fn explain(State(api): State<Api>, Path(id): Path<String>) -> ApiResult<Explanation> {
    let state = load_plan(&api, &id).await?;
    let around = registry::explain_context(&api).await?;
    let mut explanation = explain::explain_with_context(&state, api.scheduler.clock.now_ms(), &around);
    if let Some(why) = quarantine_reason(&api, &explanation.plan_id).await? {
        explanation.summary = why;
    }
    Ok(Json(explanation))
}

/// Why the plan is quarantined, if it is.
async fn quarantine_reason(api: &Api, plan: &PlanId) -> Result<Option<String>, ApiError> {
    let help = format!("take it up again: goalmill plan resume {plan}");
    if let Some(shard) = plan.shard()
        && let Some(found) = QuarantineRecord::load(api.scheduler.broker.as_ref(), shard).await?.quarantined.get(plan)
    {
        return Ok(Some(format!("in quarantine since {}: {}; {help}", rfc3339(found.since_ms), found.reason)));
    }
    let is_here = api.scheduler.is_plan_quarantined(plan);
    Ok(is_here.then(|| format!("its scheduler failed over it and does not work on it: its log says why; {help}")))
}

/// The body of a verb: reason and actor.
#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct VerbBody {
    reason: String,
    /// An id such as `cli:ann`; default `api`.
    actor: String,
}

/// `POST /v1/plans/{id}:{verb}`.
pub(crate) async fn act(
    State(api): State<Api>,
    principal: Principal,
    Path(address): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = response::body(body)?;
    let (id, verb) = address.rsplit_once(':').unwrap_or((&address, ""));
    match verb {
        "approve" => approvals::approve(&api, &principal, id, &body).await?,
        "edit" => approvals::edit(&api, &principal, id, &body).await?,
        "replan" => approvals::replan(&api, &principal, id, &body).await?,
        "fork" => return fork::fork(&api, &principal, id, &headers, &body).await,
        _ => {
            let VerbBody { reason, actor } = response::parse_small_json(&body)?;
            let verb = match verb {
                "pause" => Verb::Pause { reason },
                "resume" => Verb::Resume { reason },
                "cancel" => Verb::Cancel { reason },
                "reject" => Verb::Reject { reason },
                other => return Err(unknown_verb(other, &verbs_of("/v1/plans/{id}").join(", "))),
            };
            send_verb(&api, &principal, id, &actor, verb).await?;
        }
    }
    Ok(load_summary(&api, id).await?.into_response())
}
