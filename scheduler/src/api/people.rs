//! What people decide: approvals, edits, answers. And what a plan asks them.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use goalmill_common::command::Verb;
use goalmill_common::json::Json as Payload;
use goalmill_common::plan::Plan;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::revision::{Change, RevisionRecord};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::view::{Page, PlanSummary, QuestionView};
use serde::Deserialize;
use serde_json::Value;

use super::answer::{self, Refusal};
use super::plans::{Answer, Body, not_found, state, tell, unknown_verb};
use super::{Api, edit};

/// Bytes of a reason.
pub(super) const REASON_BYTES_MAX: usize = 64 << 10;

/// What comes with an approval, an edit or a wish.
#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Edit")]
pub(super) struct Said {
    reason: String,
    /// An id, such as `cli:ann`; `api` unless told.
    actor: String,
    /// For `replan`: what the planners are to make of it.
    hint: String,
    /// What is to change; steps may be spelled as in a plan.
    #[schemars(with = "Vec<Change>")]
    changes: Vec<Value>,
    /// Instead of changes: the whole plan as it is to be.
    #[schemars(with = "Option<Plan>")]
    plan: Option<Value>,
    /// Refused if the plan stands at another revision.
    revision: Option<u32>,
}

impl Said {
    fn read(body: &Bytes) -> Result<Self, Refusal> {
        let said: Self = answer::json(body)?;
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

/// Agrees: to the plan, to a proposed revision, to going on without a failed step; with changes, if there are some.
///
/// Changes of a plan that awaits approval are made first; one that is refused leaves it waiting. Changes of a proposed
/// revision are taken together with it, as one edit.
pub(super) async fn approve(api: &Api, id: &str, body: &Bytes) -> Result<(), Refusal> {
    let said = Said::read(body)?;
    if !said.has_changes() {
        return tell(api, id, said.actor, Verb::Approve { reason: said.reason }).await;
    }
    let at = state(api, id).await?;
    let own = edit::changes(api, &at, said.plan.as_ref(), &said.changes)?;
    let Said { reason, actor, revision, .. } = said;
    if let Some(proposed) = at.proposed() {
        let first = proposed.proposal.changes.len();
        let changes: Vec<Change> = proposed.proposal.changes.iter().cloned().chain(own.changes).collect();
        let verb = Verb::Edit { changes, revision: Some(at.revision()), reason };
        return tell(api, id, actor, verb).await.map_err(|refusal| edit::after(refusal, first));
    }
    if at.status() != PlanStatus::AwaitingApproval {
        let detail = format!("the plan is {}: it can be edited, but there is nothing to approve", at.status());
        return Err(Problem::new(ErrorCode::NotAllowed, detail).into());
    }
    let verb = Verb::Edit { changes: own.changes, revision: revision.or(Some(at.revision())), reason: reason.clone() };
    tell(api, id, actor.clone(), verb).await.map_err(|refusal| own.places.locate(refusal))?;
    tell(api, id, actor, Verb::Approve { reason }).await
}

/// Changes the plan: by a list of changes, or by the plan as it is to be.
pub(super) async fn edit(api: &Api, id: &str, body: &Bytes) -> Result<(), Refusal> {
    let said = Said::read(body)?;
    if !said.has_changes() {
        let hint = "give `changes`, or the whole `plan` as it is to be";
        return Err(refused("an edit changes something", vec![missing("/changes", hint)]));
    }
    let at = state(api, id).await?;
    let edited = edit::changes(api, &at, said.plan.as_ref(), &said.changes)?;
    // A whole plan takes away what it does not name: it must be meant for this one.
    let revision = said.revision.or_else(|| said.plan.is_some().then(|| at.revision()));
    let verb = Verb::Edit { changes: edited.changes, revision, reason: said.reason };
    tell(api, id, said.actor, verb).await.map_err(|refusal| edited.places.locate(refusal))
}

pub(super) async fn replan(api: &Api, id: &str, body: &Bytes) -> Result<(), Refusal> {
    let Said { reason, actor, hint, .. } = Said::read(body)?;
    tell(api, id, actor, Verb::Replan { reason, hint }).await
}

/// `GET /v1/plans/{id}/revisions`.
pub(crate) async fn revisions(State(api): State<Api>, Path(id): Path<String>) -> Answer<Page<RevisionRecord>> {
    let items = state(&api, &id).await?.revisions().to_vec();
    Ok(Json(Page { items, next: None }))
}

/// `GET /v1/plans/{id}/questions`: what waits for an answer.
pub(crate) async fn questions(State(api): State<Api>, Path(id): Path<String>) -> Answer<Page<QuestionView>> {
    let view = state(&api, &id).await?.view(false);
    let open = view.steps.into_iter().filter(|step| step.status == StepStatus::AwaitingApproval);
    let items = view.question.into_iter().chain(open.filter_map(|step| step.question)).collect();
    Ok(Json(Page { items, next: None }))
}

/// The answer to a question.
#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "QuestionAnswer")]
pub(super) struct Answered {
    /// Any JSON; `null` is an answer too.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Payload")]
    answer: Option<Payload>,
    reason: String,
    /// An id, such as `cli:ann`; `api` unless told.
    actor: String,
}

fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(from).map(Some)
}

/// `POST /v1/plans/{id}/questions/{question}:answer`.
pub(crate) async fn answer_question(
    State(api): State<Api>,
    Path((id, address)): Path<(String, String)>,
    body: Body,
) -> Answer<PlanSummary> {
    let body = answer::body(body)?;
    let (question, verb) = address.rsplit_once(':').unwrap_or((&address, ""));
    if verb != "answer" {
        return Err(unknown_verb(verb, "answer"));
    }
    answer(&api, &id, question, &body).await?;
    summary(&api, &id).await
}

/// Answers a question: a step's, by the step's id, or a revision's.
pub(super) async fn answer(api: &Api, id: &str, question: &str, body: &Bytes) -> Result<(), Refusal> {
    let said: Answered = answer::json(body)?;
    let Some(given) = said.answer else {
        return Err(refused("there is no answer", vec![missing("/answer", "give `answer`, any JSON")]));
    };
    let most = api.site.settings.limits.payload_bytes_max;
    for (name, bytes, most) in [("answer", given.text().len(), most), ("reason", said.reason.len(), REASON_BYTES_MAX)] {
        if bytes > most {
            let detail = format!("`{name}` has {bytes} bytes, more than {most}");
            return Err(Problem::new(ErrorCode::BodyTooLarge, detail).into());
        }
    }
    let verb = Verb::AnswerQuestion { question: question.into(), answer: given, reason: said.reason };
    tell(api, id, said.actor, verb).await
}

/// The plan in one line, once something was done to it.
pub(super) async fn summary(api: &Api, id: &str) -> Answer<PlanSummary> {
    let plan = goalmill_common::id::PlanId::from(id);
    let summary = PlanSummary::from_fields(plan.clone(), &api.site.broker.summary(&plan).await?);
    summary.map(Json).ok_or_else(|| not_found(id))
}

fn missing(pointer: &str, hint: &str) -> Issue {
    Issue { code: "MISSING_FIELD".into(), pointer: pointer.into(), detail: "it is not there".into(), hint: hint.into() }
}

/// A refusal that lists what is wrong with a request.
pub(super) fn refused(detail: &str, issues: Vec<Issue>) -> Refusal {
    Refusal(Problem::new(ErrorCode::InvalidRequest, detail).with_errors(issues))
}
