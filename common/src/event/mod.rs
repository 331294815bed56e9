//! Events of a plan: recorded once, never changed. Folding a plan's events gives its state.

use serde_json::value::RawValue;

use crate::id::StepId;

mod hook;
mod kind;
mod line;
mod plan;
mod step;
mod weight;

pub use crate::call::RecordedCall;
pub use hook::{HookAsked, HookDecided, HookDecision};
pub use kind::{PlanEventKind, StepEventKind};
pub use line::{LogError, read_entry, write_entry};
pub use plan::{
    ApprovalRequested, ConstraintChanged, CriteriaJudged, FamilyGrew, GoalAccepted, JudgementRequested, ModelAnswered,
    ModelAsked, Parent, PhaseAdded, PhaseNamed, PlanCreated, PlanEnded, PlanExtended, PlanRejected, PlanRevised,
    PlanValidated, PlannerToolCall, PlanningFailed, QuestionAnswered, QuestionAsked, Reason, ReplanTriggered,
    RevisionProposed, RevisionRefused, Route, RouteCandidate, ToolsCalled,
};
pub use step::{
    CallsDiscarded, SkipCause, StepAdded, StepAnswered, StepCompleted, StepDecomposed, StepFailed, StepMeasured,
    StepModified, StepProgress, StepQuestion, StepQueued, StepReleased, StepResumed, StepRetrying, StepSkipped,
    StepStarted, StepSuspended,
};

use line::{LineHead, write_record};

/// One line of a plan's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Counted from 1, without gaps.
    pub seq: u64,
    /// Unix milliseconds, by the clock of the shard's owner.
    pub time_ms: u64,
    /// Who caused it, when it was not the engine: `api`, `cli:ann`, `timer`.
    pub actor: Option<String>,
    /// What happened.
    pub event: Event,
}

/// What happened, to the plan as a whole or to one attempt of one step.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// To the plan as a whole.
    Plan(PlanEvent),
    /// `attempt` is 0 as long as there was none.
    Step {
        /// The step.
        step: StepId,
        /// The attempt, counted from 1.
        attempt: u32,
        /// The phase that the step belongs to.
        phase: Option<Box<str>>,
        /// What happened to it.
        event: StepEvent,
    },
}

/// Every type of event, those of plans first.
pub fn types() -> impl Iterator<Item = &'static str> {
    PlanEvent::TYPES.iter().chain(StepEvent::TYPES).copied()
}

macro_rules! events {
    ($(#[$doc:meta])* $enum:ident { $($(#[$vdoc:meta])* $variant:ident $(($data:ty))? = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $enum { $($(#[$vdoc])* $variant $((Box<$data>))?,)+ }

        impl $enum {
            /// Every event type of this kind.
            pub const TYPES: &'static [&'static str] = &[$($name,)+];

            /// The event's type, as JSON and the log spell it.
            pub fn type_name(&self) -> &'static str {
                match self { $(events!(@pattern $variant $(($data))?) => $name,)+ }
            }

            fn write(&self, out: &mut Vec<u8>, head: &LineHead<'_>) {
                match self { $(events!(@bind data $variant $(($data))?) => events!(@write out head data $(($data))?),)+ }
            }

            /// `None`: no event of this kind has that type.
            fn read(name: &str, data: Option<&RawValue>) -> Option<Result<Self, serde_json::Error>> {
                let text = data.map_or("{}", RawValue::get);
                match name { $($name => Some(events!(@read text $variant $(($data))?)),)+ _ => None }
            }
        }
    };
    (@pattern $variant:ident ($data:ty)) => { Self::$variant(_) };
    (@pattern $variant:ident) => { Self::$variant };
    (@bind $b:ident $variant:ident ($data:ty)) => { Self::$variant($b) };
    (@bind $b:ident $variant:ident) => { Self::$variant };
    (@write $out:ident $head:ident $b:ident ($data:ty)) => { write_record($out, $head, Some($b.as_ref())) };
    (@write $out:ident $head:ident $b:ident) => { write_record::<()>($out, $head, None) };
    (@read $text:ident $variant:ident ($data:ty)) => { serde_json::from_str($text).map(|d| Self::$variant(Box::new(d))) };
    (@read $text:ident $variant:ident) => { { let _ = $text; Ok(Self::$variant) } };
}

events! {
    /// Something happened to a plan.
    PlanEvent {
        /// The goal was accepted; always the first event.
        GoalAccepted(GoalAccepted) = "goal_accepted",
        /// A language model is about to be asked; written before the call goes out.
        ModelAsked(ModelAsked) = "model_asked",
        /// The result of the call, and its usage.
        ModelAnswered(ModelAnswered) = "model_answered",
        /// The planner's model called tools; written when they have run.
        ToolsCalled(ToolsCalled) = "tools_called",
        /// No planner has a plan, or a change of one.
        PlanningFailed(PlanningFailed) = "planning_failed",
        /// The plan was created.
        PlanCreated(PlanCreated) = "plan_created",
        /// The plan is valid.
        PlanValidated(PlanValidated) = "plan_validated",
        /// A person must approve it before it runs.
        ApprovalRequested(ApprovalRequested) = "plan_approval_requested",
        /// The hooks of a point are asked about the plan.
        HookAsked(HookAsked) = "hook_asked",
        /// The hooks have decided about the plan.
        HookDecided(HookDecided) = "hook_decided",
        /// It was approved.
        Approved(Reason) = "plan_approved",
        /// It was rejected; the plan ends.
        Rejected(PlanRejected) = "plan_rejected",
        /// A revision adds a phase.
        PhaseAdded(PhaseAdded) = "phase_added",
        /// The steps of a phase may start.
        PhaseStarted(PhaseNamed) = "phase_started",
        /// All steps of a phase are final, and none failed.
        PhaseCompleted(PhaseNamed) = "phase_completed",
        /// All steps of a phase are final, and some failed.
        PhaseFailed(PhaseNamed) = "phase_failed",
        /// A phase was skipped.
        PhaseSkipped(PhaseNamed) = "phase_skipped",
        /// The planners are asked to change it.
        ReplanTriggered(ReplanTriggered) = "replan_triggered",
        /// A revision waits for a person.
        RevisionProposed(RevisionProposed) = "revision_proposed",
        /// A revision was refused.
        RevisionRefused(RevisionRefused) = "revision_refused",
        /// A person is asked something before it is changed.
        QuestionAsked(QuestionAsked) = "question_asked",
        /// The question has an answer.
        QuestionAnswered(QuestionAnswered) = "question_answered",
        /// Takes the `step_added`, `step_modified`, `step_removed` and `phase_added` before it into the plan.
        Revised(PlanRevised) = "plan_revised",
        /// Takes the `step_added` and `phase_added` before it into a plan that is still being written.
        Extended(PlanExtended) = "plan_extended",
        /// Plans inside it have more steps.
        FamilyGrew(FamilyGrew) = "family_grew",
        /// The plan stands differently with a constraint: low, broken or relaxed.
        ConstraintChanged(ConstraintChanged) = "constraint_changed",
        /// A model or a person is asked to judge success criteria.
        JudgementRequested(JudgementRequested) = "judgement_requested",
        /// Success criteria were judged.
        CriteriaJudged(CriteriaJudged) = "criteria_judged",
        /// Nothing new starts until it is resumed.
        Paused(Reason) = "plan_paused",
        /// It goes on.
        Resumed(Reason) = "plan_resumed",
        /// Schedulers died while they worked on it: it is in quarantine until it is resumed.
        Quarantined(Reason) = "plan_quarantined",
        /// All that had to be done is done, or as much as its policy asks for.
        Completed(PlanEnded) = "plan_completed",
        /// It ended with a failure.
        Failed(PlanEnded) = "plan_failed",
        /// It was ended.
        Cancelled(PlanEnded) = "plan_cancelled",
    }
}

events! {
    /// Something happened to a step.
    StepEvent {
        /// A revision adds it.
        Added(StepAdded) = "step_added",
        /// A revision changes it.
        Modified(StepModified) = "step_modified",
        /// A revision takes it away.
        Removed(Reason) = "step_removed",
        /// It may be handed out.
        Ready = "step_ready",
        /// A dependency failed, and a decision is awaited.
        Blocked(Reason) = "step_blocked",
        /// A person must approve it before it starts.
        ApprovalRequested(ApprovalRequested) = "step_approval_requested",
        /// The hooks of a point are asked about the step.
        HookAsked(HookAsked) = "step_hook_asked",
        /// The hooks have decided about the step.
        HookDecided(HookDecided) = "step_hook_decided",
        /// It was approved.
        Approved(Reason) = "step_approved",
        /// A person is asked something before the step goes on.
        QuestionAsked(StepQuestion) = "step_question_asked",
        /// The question has an answer.
        Answered(StepAnswered) = "step_question_answered",
        /// The attempt in flight does not count: the step is about to be changed, or removed.
        Recalled(Reason) = "step_recalled",
        /// The step turned out to be a plan of its own.
        Decomposed(StepDecomposed) = "step_decomposed",
        /// An attempt went out to the workers.
        Queued(StepQueued) = "step_queued",
        /// The attempt began.
        Started(StepStarted) = "step_started",
        /// The attempt reported its progress.
        Progress(StepProgress) = "step_progress",
        /// The attempt reported measures beside cost and tokens.
        Measured(StepMeasured) = "step_measured",
        /// The attempt finished a call, which the next attempt need not make again.
        CallRecorded(RecordedCall) = "call_recorded",
        /// Recorded calls are dropped: the attempt makes another call, or its outputs were refused.
        CallsDiscarded(CallsDiscarded) = "calls_discarded",
        /// The attempt ended because one of its calls waits for a person.
        Suspended(StepSuspended) = "step_suspended",
        /// The person has decided or answered, or nobody did in time: the next attempt goes on.
        Resumed(StepResumed) = "step_resumed",
        /// It is done.
        Completed(StepCompleted) = "step_completed",
        /// The attempt failed, and there will be another one.
        Retrying(StepRetrying) = "step_retrying",
        /// Handed back untried; the attempt does not count as a failure.
        Released(StepReleased) = "step_released",
        /// It failed for good.
        Failed(StepFailed) = "step_failed",
        /// It is skipped.
        Skipped(StepSkipped) = "step_skipped",
        /// It will not be done.
        Cancelled(Reason) = "step_cancelled",
    }
}

impl Event {
    /// The event's type, as JSON and the log spell it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Plan(event) => event.type_name(),
            Self::Step { event, .. } => event.type_name(),
        }
    }

    /// The phase that it happened in, or to.
    pub fn phase(&self) -> Option<&str> {
        match self {
            Self::Plan(event) => event.phase(),
            Self::Step { phase, .. } => phase.as_deref(),
        }
    }

    /// The step that it happened to.
    pub fn step(&self) -> Option<&StepId> {
        match self {
            Self::Plan(_) => None,
            Self::Step { step, .. } => Some(step),
        }
    }
}
