//! The events of a plan as a whole, and the payloads of its beginning, phases and end. Those of the other families have
//! files of their own.

use serde::{Deserialize, Serialize};

use crate::external_event::ExternalEvent;
use crate::failure::Failure;
use crate::goal::Goal;
use crate::id::{EntryId, PlanId, StepId};
use crate::problem::Issue;
use crate::status::PlanStatus;

use super::attempt::{is_none_left, is_zero};
use super::event_bytes::{self, FIXED_BYTES, ids, json};
use super::goal_changed::GoalChanged;
use super::hook::{HookAsked, HookDecided};
use super::planning::{
    ModelAnswered, ModelAsked, PlanCreated, PlanValidated, PlannerToolCall, PlanningFailed, ToolsCalled,
};
use super::review::{
    ApprovalRequested, ConstraintChanged, CriteriaJudged, JudgementRequested, QuestionAnswered, QuestionAsked,
};
use super::revision::{PhaseAdded, PlanExtended, PlanRevised, ReplanTriggered, RevisionProposed, RevisionRefused};
use super::table::events;

events! {
    /// Something happened to a plan.
    PlanEvent: PlanEventKind {
        /// The goal was accepted; always the first event.
        GoalAccepted(GoalAccepted) = "goal_accepted": Submission,
            sample r#"{"plan_id":"p0-1","goal":{},"submission":"s","source":"test","deadline_ms":1}"#,
            weight |accepted| accepted.goal.description.len() + accepted.submission.len() + accepted.source.len();
        /// A language model is about to be asked; written before the call goes out.
        ModelAsked(ModelAsked) = "model_asked": Planning,
            sample r#"{"revision":0,"planner":"llm","call":1,"template":"plan","reserved":{}}"#;
        /// The result of the call, and its usage.
        ModelAnswered(ModelAnswered) = "model_answered": Planning,
            sample r#"{"revision":0,"planner":"llm","call":1,"usage":{}}"#,
            weight |answered| json(answered.answer.as_ref()) + answered.error.len();
        /// The planner's model called tools; written when they have run.
        ToolsCalled(ToolsCalled) = "tools_called": Planning,
            sample r#"{"revision":0,"planner":"tools","call":1,"tools":[]}"#,
            weight |called| called.tools.iter().map(PlannerToolCall::bytes).sum();
        /// The structured fields of the goal are other ones: a model read them in its text, or a person corrected them.
        GoalChanged(GoalChanged) = "goal_changed": Planning,
            weight |changed| changed.bytes();
        /// No planner has a plan, or a change of one.
        PlanningFailed(PlanningFailed) = "planning_failed": Planning,
            weight |failed| json(failed.provenance.as_ref()) + FIXED_BYTES * failed.issues.len();
        /// The plan was created.
        PlanCreated(PlanCreated) = "plan_created": Creation,
            sample r#"{"plan":{"steps":[]},"planner":"rules","confidence":0.5}"#,
            weight |created| event_bytes::plan(&created.plan)
                + json(created.provenance.as_ref())
                + created.fork.as_ref().map_or(0, |fork| fork.bytes());
        /// The plan is valid.
        PlanValidated(PlanValidated) = "plan_validated": Creation,
            weight |validated| FIXED_BYTES * (validated.warnings.len() + 4 * validated.routes.len());
        /// A person must approve it before it runs.
        ApprovalRequested(ApprovalRequested) = "plan_approval_requested": Approval, sample r#"{"due_ms":1}"#;
        /// The hooks of a point are asked about the plan.
        HookAsked(HookAsked) = "hook_asked": Approval, sample r#"{"id":"p0-1:2","point":"on_plan_generated"}"#;
        /// The hooks have decided about the plan.
        HookDecided(HookDecided) = "hook_decided": Approval,
            sample r#"{"id":"p0-1:2","point":"on_plan_generated","decision":"allow"}"#;
        /// It was approved.
        Approved(Reason) = "plan_approved": Approval;
        /// It was rejected; the plan ends.
        Rejected(PlanRejected) = "plan_rejected": End, weight |rejected| ids(&rejected.cancelled);
        /// A revision adds a phase.
        PhaseAdded(PhaseAdded) = "phase_added": Change, sample r#"{"phase":"one"}"#;
        /// The steps of a phase may start.
        PhaseStarted(PhaseNamed) = "phase_started": Phase, sample r#"{"phase":"one"}"#;
        /// All steps of a phase are final, and none failed.
        PhaseCompleted(PhaseNamed) = "phase_completed": Phase, sample r#"{"phase":"one"}"#;
        /// All steps of a phase are final, and some failed.
        PhaseFailed(PhaseNamed) = "phase_failed": Phase, sample r#"{"phase":"one"}"#;
        /// A phase was skipped.
        PhaseSkipped(PhaseNamed) = "phase_skipped": Phase, sample r#"{"phase":"one"}"#;
        /// The planners are asked to change it.
        ReplanTriggered(ReplanTriggered) = "replan_triggered": Replanning,
            sample r#"{"trigger":"person","reason":"rain","due_ms":1}"#,
            weight |replan| replan.hint.len() + json(replan.information.as_ref());
        /// A revision waits for a person.
        RevisionProposed(RevisionProposed) = "revision_proposed": Replanning,
            sample r#"{"revision":1,"proposal":{"strategy":"adjust"},"changes":[],"confidence_before":0.5,
                "confidence_after":0.4,"due_ms":1}"#,
            weight |proposed| FIXED_BYTES * (4 * proposed.changes.len() + proposed.widens.len());
        /// A revision was refused.
        RevisionRefused(RevisionRefused) = "revision_refused": Replanning,
            sample r#"{"revision":1,"strategy":"adjust","reason":"too dear"}"#;
        /// A person is asked something before it is changed.
        QuestionAsked(QuestionAsked) = "question_asked": Replanning,
            sample r#"{"id":"q","question":{"question":"Which?"},"due_ms":1}"#;
        /// The question has an answer.
        QuestionAnswered(QuestionAnswered) = "question_answered": Replanning,
            sample r#"{"id":"q","answer":"this","due_ms":1}"#,
            weight |answered| answered.answer.text().len() + answered.reason.len();
        /// Takes the `step_added`, `step_modified`, `step_removed` and `phase_added` before it into the plan.
        Revised(PlanRevised) = "plan_revised": Change,
            sample r#"{"revision":1,"trigger":"person","changes":[],"added":[],"removed":[],"modified":[],
                "confidence_delta":0}"#,
            weight |revised| FIXED_BYTES * (revised.changes.len() + revised.added.len());
        /// Takes the `step_added` and `phase_added` before it into a plan that is still being written.
        Extended(PlanExtended) = "plan_extended": Change, sample r#"{"added":["a"],"open":true}"#,
            weight |extended| json(extended.provenance.as_ref()) + 4 * FIXED_BYTES * extended.routes.len();
        /// Plans inside it have more steps.
        FamilyGrew(FamilyGrew) = "family_grew": Creation;
        /// The plan stands differently with a constraint: low, broken or relaxed.
        ConstraintChanged(ConstraintChanged) = "constraint_changed": Contract,
            sample r#"{"constraint":"budget","status":"low","priority":8,"hard":true,"measure":"cost","measured":9.0,
                "limit":10.0}"#;
        /// A model or a person is asked to judge success criteria.
        JudgementRequested(JudgementRequested) = "judgement_requested": Contract,
            sample r#"{"judge":"model","criteria":["c1"],"due_ms":1}"#;
        /// Success criteria were judged.
        CriteriaJudged(CriteriaJudged) = "criteria_judged": Contract, sample r#"{"verdicts":[]}"#,
            weight |judged| judged.verdicts.iter().map(|verdict| FIXED_BYTES + verdict.evidence.len()).sum();
        /// An event came from outside; it is kept until a step takes it.
        EventReceived(ExternalEvent) = "event_received": Control, sample r#"{"id":"e1","name":"payment"}"#,
            weight |event| event.key.len() + event.data.text().len();
        /// A plan inside it has an event from outside, which ends no other wait of the plan and of those inside it.
        EventTaken(EventTaken) = "event_taken": Control, sample r#"{"id":"e1","plan":"p0-1"}"#,
            weight |taken| taken.id.len();
        /// Nothing new starts until it is resumed.
        Paused(Reason) = "plan_paused": Control;
        /// It continues.
        Resumed(Reason) = "plan_resumed": Control;
        /// Schedulers died while they worked on it: it is in quarantine until it is resumed.
        Quarantined(Reason) = "plan_quarantined": Control;
        /// The outcome of the plan is known, and its clean-up steps run.
        CleanupStarted(CleanupStarted) = "cleanup_started": Control,
            sample r#"{"outcome":{"status":"failed"},"undo":[],"due_ms":1}"#,
            weight |started| ids(&started.outcome.cancelled) + ids(&started.undo);
        /// The work of a plan inside another one is done, and may be undone until that one ends.
        Kept(PlanEnded) = "plan_kept": Control, sample r#"{"status":"completed"}"#;
        /// The plan of a step is kept until this one ends.
        InnerPlanKept(KeptPlan) = "inner_plan_kept": Control, sample r#"{"step":"a","attempt":1}"#;
        /// The plan of a step that continues without it is stopped; this one does not end before it.
        InnerPlanStopped(KeptPlan) = "inner_plan_stopped": Control, sample r#"{"step":"a","attempt":1}"#;
        /// The kept or stopped plan of a step has undone what it did.
        InnerPlanUndone(UndonePlan) = "inner_plan_undone": Control, sample r#"{"step":"a","attempt":1}"#,
            weight |undone| undone.not_undone.iter().map(|name| name.len()).sum();
        /// All that had to be done is done, or as much as its policy asks for.
        Completed(PlanEnded) = "plan_completed": End, sample r#"{"status":"completed"}"#,
            weight |end| ids(&end.cancelled);
        /// It ended with a failure.
        Failed(PlanEnded) = "plan_failed": End, sample r#"{"status":"failed"}"#, weight |end| ids(&end.cancelled);
        /// It was ended.
        Cancelled(PlanEnded) = "plan_cancelled": End, sample r#"{"status":"cancelled"}"#,
            weight |end| ids(&end.cancelled);
    }
}

/// The clean-up of a plan begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CleanupStarted {
    /// What the plan ends as, and what that has cancelled.
    pub outcome: PlanEnded,
    /// The undo steps that run, in their order.
    pub undo: Vec<StepId>,
    /// The plan ends then at the latest, Unix milliseconds.
    pub due_ms: u64,
    /// Plans inside it end first. From then on the clean-up has so many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_inside_ms: Option<u64>,
}

/// The plan of a step, which is kept or stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPlan {
    /// The step that it ran for.
    pub step: StepId,
    /// The step's attempt that became the plan.
    pub attempt: u32,
}

/// The plan of a step that was kept or stopped, and has undone what it did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UndonePlan {
    /// The step that it ran for.
    pub step: StepId,
    /// The step's attempt that became the plan.
    pub attempt: u32,
    /// US dollars that the undo steps cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    /// Tokens that they took.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
    /// Undo steps that did not succeed, by their steps from the outside to the inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_undone: Vec<String>,
}

/// The goal of a plan was accepted; always the first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalAccepted {
    /// The plan's id.
    pub plan_id: PlanId,
    /// The goal.
    pub goal: Goal,
    /// The submission's id, the caller's idempotency key.
    pub submission: String,
    /// Where it came from: CloudEvents `source`.
    pub source: String,
    /// What attempt tokens of a plan of an earlier version are made from. It stays in the journal: an exported line has
    /// none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub secret: String,
    /// Random, and part of what attempt tokens are made from, besides a key that is in no log. An exported line has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub salt: String,
    /// The [`crate::command::content_fingerprint`] of what the caller sent under an id of its own: other content under the
    /// same id is refused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fingerprint: String,
    /// The entry of the stream by which it came: its client gets the result by Redis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<Box<SubmissionEntry>>,
    /// The step that the plan stands for, when it is a plan inside another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// W3C trace context, when the caller gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The plan ends by then, Unix milliseconds.
    pub deadline_ms: u64,
}

/// The entry of the stream by which a plan was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmissionEntry {
    /// Its id.
    pub id: EntryId,
    /// What its client should know of how it was read; a part of them if they are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Issue>,
}

/// The step that a sub-plan stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The plan that the step belongs to.
    pub plan: PlanId,
    /// The step.
    pub step: StepId,
    /// The step's attempt that became the plan.
    pub attempt: u32,
    /// Plans above this one: 1 for a plan inside a submitted plan.
    pub depth: u32,
    /// The outermost plan; none when that is `plan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PlanId>,
}

impl Parent {
    /// The outermost plan.
    pub fn family(&self) -> &PlanId {
        self.root.as_ref().unwrap_or(&self.plan)
    }
}

/// Steps and bytes that the plans inside a plan have more, at any depth. Only plans that are inside no other one have this event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FamilyGrew {
    /// How many steps; a plan counts as one step more.
    #[serde(default)]
    pub steps: u64,
    /// Bytes of outputs, and of plans that started inside them.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub bytes: u64,
}

/// An event from outside that a plan inside this one has. Only the outermost plan, and plans that kept the event, have
/// this event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventTaken {
    /// The id of the event from outside.
    pub id: String,
    /// The plan that has it.
    pub plan: PlanId,
}

/// Why something was done, in words.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reason {
    /// In one line; empty when none was given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Located errors, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
}

impl Reason {
    /// A reason without located errors.
    pub fn boxed(reason: impl Into<String>) -> Box<Self> {
        Box::new(Self { reason: reason.into(), issues: Vec::new() })
    }
}

/// The phase that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseNamed {
    /// The phase's id.
    pub phase: String,
}

/// A person refused the plan before it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRejected {
    /// Why, in the person's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The steps that are cancelled by this event, in the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancelled: Vec<StepId>,
}

/// The plan is final. Steps in flight were cancelled by events of their own before; those that were open and not in
/// flight are cancelled by this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanEnded {
    /// What it ended as.
    pub status: PlanStatus,
    /// What it failed with, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Why, in words; empty when it simply completed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The steps that are cancelled by this event, in the order of the plan. They take less room than the plan that
    /// names them. Older logs do not list them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancelled: Vec<StepId>,
}
