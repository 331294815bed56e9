//! Human review: approvals, edits, replanning, and answers to questions of a plan.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use goalmill_common::command::Verb;
use goalmill_common::criterion::Criterion;
use goalmill_common::json::Json as Payload;
use goalmill_common::plan::Plan;
use goalmill_common::planning::{ReplanOptions, TEMPERATURE_MAX};
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::revision::{Change, RevisionRecord, RevisionStrategy};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::view::{Page, PlanSummary, QuestionView};
use goalmill_engine::revise;
use goalmill_formats::checked_revision_changes;
use goalmill_plan::foreign;
use schemars::Schema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::plan_access::{load_plan, load_summary, send_verb};
use super::principal::Principal;
use super::response::{self, ApiError, ApiResult, Body, unknown_verb};
use super::{Api, edit, goal_correction};

/// Size limit of a reason, in bytes.
pub(super) const REASON_BYTES_MAX: usize = 64 << 10;

/// The body of an approval, an edit or a replan.
#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Edit")]
pub(super) struct EditBody {
    reason: String,
    /// An id such as `cli:ann`; default `api`.
    actor: String,
    /// For `replan`: a hint for the planners.
    hint: String,
    /// For `replan`: the model that is asked first.
    model: Option<String>,
    /// For `replan`: temperature of the models, 0 to 2.
    temperature: Option<f64>,
    /// For `replan`: the strategy that is tried first.
    strategy: Option<RevisionStrategy>,
    /// The changes; steps may be spelled as in a plan.
    #[schemars(with = "Vec<Change>")]
    changes: Vec<Value>,
    /// The whole new plan, instead of changes.
    #[schemars(with = "Option<Plan>")]
    plan: Option<Value>,
    /// Corrections of the goal while the plan waits for approval.
    #[schemars(with = "Option<GoalFields>")]
    goal: Option<Value>,
    /// Rejected if the plan has another revision.
    revision: Option<u32>,
}

impl EditBody {
    /// Of an edit, or of the revision of a plan in the form `subtasks`.
    fn parse_edit(id: &str, body: &Bytes) -> Result<Self, ApiError> {
        let refused = match Self::parse(body) {
            Ok(said) => return Ok(said),
            Err(refused) => refused,
        };
        // Only what is no edit is read once more.
        let revision: Option<Value> = serde_json::from_slice(body).ok();
        let revision = revision.filter(foreign::is_revision).ok_or(refused)?;
        let changes = checked_revision_changes(&revision, id)
            .map_err(|issues| invalid_request("the revision cannot be made", issues))?;
        let reason = revision.get("trigger").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Self { reason, changes, ..Self::default() })
    }

    fn parse(body: &Bytes) -> Result<Self, ApiError> {
        let said: Self = response::parse_json(body)?;
        for (name, text) in [("reason", &said.reason), ("hint", &said.hint)] {
            if text.len() > REASON_BYTES_MAX {
                let detail = format!("`{name}` has {} bytes, more than {REASON_BYTES_MAX}", text.len());
                return Err(Problem::new(ErrorCode::BodyTooLarge, detail).into());
            }
        }
        Ok(said)
    }

    fn has_changes(&self) -> bool {
        !self.changes.is_empty() || self.plan.is_some()
    }
}

/// Fields of a goal that can be corrected; what is missing stays.
#[derive(schemars::JsonSchema)]
#[schemars(rename = "GoalFields")]
#[expect(dead_code, reason = "it describes what is validated as a goal")]
struct GoalFields {
    /// Constraints by name; `null` takes one away.
    constraints: Map<String, Value>,
    /// All criteria, in place of the present ones.
    success_criteria: Vec<Criterion>,
    /// RFC 3339, Unix milliseconds, or a local time with `tz`; `null` takes the deadline away.
    deadline: Option<String>,
    /// The time zone of a local `deadline`: `Europe/Berlin`.
    tz: Option<String>,
    /// Inputs by name; `null` takes one away.
    inputs: Map<String, Value>,
}

/// Sends the corrections of the goal, if the body has some.
async fn correct_goal(api: &Api, principal: &Principal, id: &str, said: &EditBody) -> Result<(), ApiError> {
    let Some(fields) = &said.goal else { return Ok(()) };
    let limits = &api.scheduler.settings.limits;
    let correction = goal_correction::parse(fields, limits)
        .map_err(|issues| invalid_request("the goal cannot be corrected so", issues))?;
    let verb = Verb::CorrectGoal { correction: Box::new(correction), reason: said.reason.clone() };
    send_verb(api, principal, id, &said.actor, verb).await
}

/// Approves a plan, a proposed revision, or continuing without a failed step, with changes if the body has some.
///
/// Changes of a plan that awaits approval are made first; if they are rejected, it still waits. Changes of a proposed
/// revision are made together with it, as one edit.
pub(super) async fn approve(api: &Api, principal: &Principal, id: &str, body: &Bytes) -> Result<(), ApiError> {
    let said = EditBody::parse(body)?;
    correct_goal(api, principal, id, &said).await?;
    if !said.has_changes() {
        return send_verb(api, principal, id, &said.actor, Verb::Approve { reason: said.reason }).await;
    }
    let at = load_plan(api, id).await?;
    let own = edit::parse_edit(api, &at, said.plan.as_ref(), &said.changes)?;
    let EditBody { reason, actor, revision, .. } = said;
    if let Some(proposed) = revise::proposed(&at) {
        let first = proposed.proposal.changes.len();
        let changes: Vec<Change> = proposed.proposal.changes.iter().cloned().chain(own.changes).collect();
        let verb = Verb::Edit { changes, revision: Some(at.revision()), reason };
        return send_verb(api, principal, id, &actor, verb)
            .await
            .map_err(|refusal| edit::renumber_after(refusal, first));
    }
    if at.status() != PlanStatus::AwaitingApproval {
        let detail = format!("the plan is {}: it can be edited, but there is nothing to approve", at.status());
        return Err(Problem::new(ErrorCode::NotAllowed, detail).into());
    }
    let verb = Verb::Edit { changes: own.changes, revision: revision.or(Some(at.revision())), reason: reason.clone() };
    send_verb(api, principal, id, &actor, verb).await.map_err(|refusal| own.places.locate(refusal))?;
    send_verb(api, principal, id, &actor, Verb::Approve { reason }).await
}

/// Edits the plan by a list of changes, or by the whole new plan.
pub(super) async fn edit(api: &Api, principal: &Principal, id: &str, body: &Bytes) -> Result<(), ApiError> {
    let said = EditBody::parse_edit(id, body)?;
    correct_goal(api, principal, id, &said).await?;
    if !said.has_changes() && said.goal.is_some() {
        return Ok(());
    }
    if !said.has_changes() {
        let hint = "send `changes`, or the whole `plan` with your changes";
        return Err(invalid_request("an edit needs changes", vec![missing_field("/changes", hint)]));
    }
    let at = load_plan(api, id).await?;
    let edited = edit::parse_edit(api, &at, said.plan.as_ref(), &said.changes)?;
    // A whole plan removes what it does not name, so it must be for the current revision.
    let revision = said.revision.or_else(|| said.plan.is_some().then(|| at.revision()));
    let verb = Verb::Edit { changes: edited.changes, revision, reason: said.reason };
    send_verb(api, principal, id, &said.actor, verb).await.map_err(|refusal| edited.places.locate(refusal))
}

pub(super) async fn replan(api: &Api, principal: &Principal, id: &str, body: &Bytes) -> Result<(), ApiError> {
    let EditBody { reason, actor, hint, model, temperature, strategy, .. } = EditBody::parse(body)?;
    let options = checked_options(api, ReplanOptions { model, temperature, strategy })?;
    send_verb(api, principal, id, &actor, Verb::Replan { reason, hint, options }).await
}

/// The options of a replan, if they can be used.
pub(super) fn checked_options(api: &Api, options: ReplanOptions) -> Result<ReplanOptions, ApiError> {
    let issues = replan_issues(api, &options);
    if issues.is_empty() {
        return Ok(options);
    }
    Err(invalid_request("the options of the replan cannot be used", issues))
}

/// What is wrong with the options of a replan.
fn replan_issues(api: &Api, options: &ReplanOptions) -> Vec<Issue> {
    let mut issues = api.scheduler.planners.replan_issues(options);
    let mut error = |code: &str, pointer: &str, detail: String, hint: &str| {
        issues.push(Issue { code: code.into(), pointer: pointer.into(), detail, hint: hint.into() });
    };
    if let Some(temperature) = options.temperature.filter(|t| !(0.0..=TEMPERATURE_MAX).contains(t)) {
        let detail = format!("`{temperature}` is not in 0..={TEMPERATURE_MAX}");
        error("OUT_OF_RANGE", "/temperature", detail, "give a number in that range");
    }
    if options.strategy == Some(RevisionStrategy::Edit) {
        let detail = "`edit` is what a person does".to_owned();
        error("INVALID_VALUE", "/strategy", detail, "name a strategy of planners, such as `replan_remaining`");
    }
    issues
}

/// `GET /v1/plans/{id}/revisions`.
pub(crate) async fn revisions(State(api): State<Api>, Path(id): Path<String>) -> ApiResult<Page<RevisionRecord>> {
    let state = load_plan(&api, &id).await?;
    Ok(Json(Page { items: revise::revisions(&state).to_vec(), next: None }))
}

/// `GET /v1/plans/{id}/questions`: open questions.
pub(crate) async fn questions(State(api): State<Api>, Path(id): Path<String>) -> ApiResult<Page<QuestionView>> {
    let view = load_plan(&api, &id).await?.view(false);
    let open = view.steps.into_iter().filter(|step| step.status == StepStatus::AwaitingApproval);
    let items = view.question.into_iter().chain(open.filter_map(|step| step.question)).collect();
    Ok(Json(Page { items, next: None }))
}

/// The answer to a question.
#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = require_answer)]
pub(super) struct QuestionAnswer {
    /// Any JSON, also `null`.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Payload")]
    answer: Option<Payload>,
    reason: String,
    /// An id such as `cli:ann`; default `api`.
    actor: String,
}

/// An answer of `null` is one, so only a missing answer is refused.
fn require_answer(schema: &mut Schema) {
    schema.insert("required".into(), json!(["answer"]));
}

fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(from).map(Some)
}

/// `POST /v1/plans/{id}/questions/{question}:answer`.
pub(crate) async fn answer_question(
    State(api): State<Api>,
    principal: Principal,
    Path((id, address)): Path<(String, String)>,
    body: Body,
) -> ApiResult<PlanSummary> {
    let body = response::body(body)?;
    let (question, verb) = address.rsplit_once(':').unwrap_or((&address, ""));
    if verb != "answer" {
        return Err(unknown_verb(verb, "answer"));
    }
    answer(&api, &principal, &id, question, &body).await?;
    load_summary(&api, &id).await
}

/// Answers the question of a step, named by the id of the step, or of a revision.
pub(super) async fn answer(
    api: &Api,
    principal: &Principal,
    id: &str,
    question: &str,
    body: &Bytes,
) -> Result<(), ApiError> {
    let said: QuestionAnswer = response::parse_json(body)?;
    let Some(given) = said.answer else {
        return Err(invalid_request("there is no answer", vec![missing_field("/answer", "give `answer`, any JSON")]));
    };
    let most = api.scheduler.settings.limits.payload_bytes_max;
    for (name, bytes, most) in [("answer", given.text().len(), most), ("reason", said.reason.len(), REASON_BYTES_MAX)] {
        if bytes > most {
            let detail = format!("`{name}` has {bytes} bytes, more than {most}");
            return Err(Problem::new(ErrorCode::BodyTooLarge, detail).into());
        }
    }
    let verb = Verb::AnswerQuestion { question: question.into(), answer: given, reason: said.reason };
    send_verb(api, principal, id, &said.actor, verb).await
}

fn missing_field(pointer: &str, hint: &str) -> Issue {
    let detail = "the field is missing".into();
    Issue { code: "MISSING_FIELD".into(), pointer: pointer.into(), detail, hint: hint.into() }
}

/// An error that lists the issues of a request.
pub(super) fn invalid_request(detail: &str, issues: Vec<Issue>) -> ApiError {
    ApiError(Problem::new(ErrorCode::InvalidRequest, detail).with_errors(issues))
}
