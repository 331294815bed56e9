//! What happened to a plan: recorded once, never changed. Folding a plan's events gives its state.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::clock;
use crate::failure::Failure;
use crate::goal::Goal;
use crate::id::{AgentType, PlanId, StepId, WorkerId};
use crate::json::Json;
use crate::plan::{Plan, Question, Step};
use crate::problem::Issue;
use crate::revision::{Fork, Proposal, RevisionStrategy};
use crate::status::PlanStatus;

/// One line of a plan's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Counted from 1, without gaps.
    pub seq: u64,
    /// Unix milliseconds, by the clock of the shard's owner.
    pub time_ms: u64,
    /// Who caused it, when it was not the engine: `api`, `cli:ann`, `timer`.
    pub actor: Option<String>,
    pub event: Event,
}

/// What happened, to the plan as a whole or to one attempt of one step.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Plan(PlanEvent),
    /// `attempt` is 0 as long as there was none.
    Step {
        step: StepId,
        attempt: u32,
        event: StepEvent,
    },
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

            fn write(&self, out: &mut Vec<u8>, head: &Head<'_>) {
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
        GoalAccepted(GoalAccepted) = "goal_accepted",
        /// A language model is about to be asked; written before the call goes out.
        ModelAsked(ModelAsked) = "model_asked",
        /// What became of the call, and what it took.
        ModelAnswered(ModelAnswered) = "model_answered",
        PlanningFailed(PlanningFailed) = "planning_failed",
        PlanCreated(PlanCreated) = "plan_created",
        PlanValidated(PlanValidated) = "plan_validated",
        ApprovalRequested(ApprovalRequested) = "plan_approval_requested",
        Approved(Reason) = "plan_approved",
        Rejected(Reason) = "plan_rejected",
        PhaseAdded(PhaseAdded) = "phase_added",
        PhaseStarted(PhaseNamed) = "phase_started",
        PhaseCompleted(PhaseNamed) = "phase_completed",
        PhaseFailed(PhaseNamed) = "phase_failed",
        PhaseSkipped(PhaseNamed) = "phase_skipped",
        ReplanTriggered(ReplanTriggered) = "replan_triggered",
        /// A revision waits for a person.
        RevisionProposed(RevisionProposed) = "revision_proposed",
        /// A revision was not taken.
        RevisionRefused(RevisionRefused) = "revision_refused",
        QuestionAsked(QuestionAsked) = "question_asked",
        QuestionAnswered(QuestionAnswered) = "question_answered",
        /// Takes the `step_added`, `step_modified`, `step_removed` and `phase_added` before it into the plan.
        Revised(PlanRevised) = "plan_revised",
        /// Takes the `step_added` and `phase_added` before it into a plan that is still being written.
        Extended(PlanExtended) = "plan_extended",
        Paused(Reason) = "plan_paused",
        Resumed(Reason) = "plan_resumed",
        Completed(PlanEnded) = "plan_completed",
        Failed(PlanEnded) = "plan_failed",
        Cancelled(PlanEnded) = "plan_cancelled",
    }
}

events! {
    /// Something happened to a step.
    StepEvent {
        Added(StepAdded) = "step_added",
        Modified(StepModified) = "step_modified",
        Removed(Reason) = "step_removed",
        Ready = "step_ready",
        Blocked(Reason) = "step_blocked",
        ApprovalRequested(ApprovalRequested) = "step_approval_requested",
        Approved(Reason) = "step_approved",
        /// A person is asked something before the step goes on.
        QuestionAsked(StepQuestion) = "step_question_asked",
        Answered(StepAnswered) = "step_question_answered",
        /// The attempt in flight does not count: the step is about to be changed, or removed.
        Recalled(Reason) = "step_recalled",
        /// The step turned out to be a plan of its own.
        Decomposed(StepDecomposed) = "step_decomposed",
        Queued(StepQueued) = "step_queued",
        Started(StepStarted) = "step_started",
        Progress(StepProgress) = "step_progress",
        Completed(StepCompleted) = "step_completed",
        Retrying(StepRetrying) = "step_retrying",
        /// Handed back untried; the attempt does not count as a failure.
        Released(StepReleased) = "step_released",
        Failed(StepFailed) = "step_failed",
        Skipped(StepSkipped) = "step_skipped",
        Cancelled(Reason) = "step_cancelled",
    }
}

/// The goal of a plan was taken on; always the first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalAccepted {
    pub plan_id: PlanId,
    pub goal: Goal,
    /// The submission's id, the caller's idempotency key.
    pub submission: String,
    /// Where it came from: CloudEvents `source`.
    pub source: String,
    /// Attempt tokens are made from this word, so that no attempt needs one stored. It stays in the journal: an
    /// exported line has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub secret: String,
    /// What the caller sent, as [`crate::command::fingerprint`] tells it: another body under the same key is refused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fingerprint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The plan ends by then, Unix milliseconds.
    pub deadline_ms: u64,
}

impl GoalAccepted {
    /// Whether a body with this fingerprint is another one than began the plan. Those that came without an
    /// idempotency key of HTTP have no fingerprint: their id alone decides.
    pub fn is_other_body(&self, fingerprint: &str) -> bool {
        !self.fingerprint.is_empty() && !fingerprint.is_empty() && self.fingerprint != fingerprint
    }
}

/// The step that a sub-plan stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub plan: PlanId,
    pub step: StepId,
    pub attempt: u32,
    /// Plans above this one: 1 for a plan inside a submitted plan.
    pub depth: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reason {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Located errors, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
}

impl Reason {
    pub fn boxed(reason: impl Into<String>) -> Box<Self> {
        Box::new(Self { reason: reason.into(), issues: Vec::new() })
    }
}

/// A language model is about to be asked for the plan, or for a change of it.
///
/// It is written before the call goes out, so that a call whose scheduler ends in the middle is known to have been made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelAsked {
    /// 0 for the plan itself, else the revision that is being made.
    pub revision: u32,
    /// `llm`, `tools`.
    pub planner: String,
    /// Counted from 1 each time the planner is asked.
    pub call: u32,
    /// The prompt's template.
    pub template: String,
    /// The most that it may take: the prompt by estimate, and the longest answer, by the dearest model.
    pub reserved: crate::goal::Usage,
    /// The same call was begun before, by a scheduler that ended before it had written down an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

/// What became of a call of a language model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswered {
    /// With `planner` and `call`: which [`ModelAsked`] it is about.
    pub revision: u32,
    pub planner: String,
    pub call: u32,
    /// What it took, tries that failed included; it belongs to what the plan has used up.
    pub usage: crate::goal::Usage,
    /// Some of it was counted from texts, because a server did not say or a call was cut short.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// The answer, for a scheduler that has to go on with the planning; none when it holds what looks like a secret, or
    /// is very long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Json>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// No planner has a plan, or a change of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanningFailed {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Located errors of the best try.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// What the planners said, with the questions that models were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanCreated {
    /// Shared, because the state keeps it too.
    pub plan: Arc<Plan>,
    /// `submitted`, `rules`, `htn`, `llm`.
    pub planner: String,
    /// 0 to 1.
    pub confidence: f64,
    /// How the plan came about: rule or template id and version, model, prompt, repairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
    /// More steps are to come: the planner is still writing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// The plan it goes on from; steps whose results are kept are completed from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Box<Fork>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanValidated {
    /// What is odd but no error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Issue>,
    /// Who the router chose for steps that asked for it, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// Estimated seconds on the longest path.
    #[serde(default)]
    pub critical_path_seconds: f64,
}

/// One decision of the router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Route {
    pub step: StepId,
    pub agent_type: AgentType,
    /// Best first.
    pub candidates: Vec<RouteCandidate>,
    /// How likely it is that anybody fits, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RouteCandidate {
    pub agent_type: AgentType,
    /// 0 to 1.
    pub similarity: f64,
    /// 0 to 1.
    pub success_rate: f64,
    /// US dollars a step.
    pub cost: f64,
    pub score: f64,
    /// Believed duration of a step, in milliseconds; none if neither declared nor measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// What the similarity is made of, 0 to 1 each: `words`, `letters`, `meaning`, …
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub factors: std::collections::BTreeMap<String, f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequested {
    /// The default answer counts from then, Unix milliseconds.
    pub due_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseNamed {
    pub phase: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseAdded {
    pub phase: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
    /// Phases before it.
    #[serde(default)]
    pub place: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplanTriggered {
    /// See [`crate::revision::Trigger`].
    pub trigger: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    pub reason: String,
    /// The planner's answer is awaited until then, Unix milliseconds.
    pub due_ms: u64,
    /// What a person would like.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// What the step's report suggested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub information: Option<Json>,
}

/// A revision that a person must agree to; what it would change is in it, in the planner's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RevisionProposed {
    pub revision: u32,
    pub proposal: Proposal,
    /// For people, a line each.
    pub changes: Vec<String>,
    /// What it may do that the plan could not do before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub widens: Vec<Issue>,
    pub confidence_before: f64,
    pub confidence_after: f64,
    /// The policy's default counts from then, Unix milliseconds.
    pub due_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RevisionRefused {
    pub revision: u32,
    pub strategy: RevisionStrategy,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// The planners are asked once more, and their answer is awaited until then, Unix milliseconds; 0: they are not.
    #[serde(default)]
    pub due_ms: u64,
    /// What it took to make it.
    #[serde(default)]
    pub usage: crate::goal::Usage,
}

/// A planner wants to know something before it revises the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionAsked {
    /// Names the question in the answer.
    pub id: String,
    pub question: Question,
    /// The default counts from then, Unix milliseconds.
    pub due_ms: u64,
    /// What it took to come up with it.
    #[serde(default)]
    pub usage: crate::goal::Usage,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswered {
    pub id: String,
    pub answer: Json,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The planner's answer is awaited until then, Unix milliseconds.
    pub due_ms: u64,
}

/// Steps were added to a plan that is still being written, or its end was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanExtended {
    pub added: Vec<StepId>,
    /// Whether more is to come.
    pub open: bool,
    /// How the whole plan came about, at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Issue>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// A validated change of a running plan. The steps themselves are in the `step_added`, `step_modified` and
/// `step_removed` before it, which take effect with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanRevised {
    /// Counted from 1; 0 is the plan as it began.
    pub revision: u32,
    pub trigger: String,
    /// For people.
    pub changes: Vec<String>,
    pub added: Vec<StepId>,
    pub removed: Vec<StepId>,
    pub modified: Vec<StepId>,
    pub confidence_delta: f64,
    /// Steps that count as done from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<StepId>,
    /// Steps that start again: the modified ones whose attempt is void, or that were final or blocked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarted: Vec<StepId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RevisionStrategy>,
    /// The step that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// Why it came to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Empty when a person made it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub planner: String,
    #[serde(default)]
    pub confidence_before: f64,
    #[serde(default)]
    pub confidence_after: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// What it took to make it.
    #[serde(default)]
    pub usage: crate::goal::Usage,
    /// Why the person who was asked agreed to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub approved_because: String,
}

/// The plan is final. Steps in flight were cancelled by events of their own before; those that had not begun are
/// cancelled by this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanEnded {
    pub status: PlanStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepAdded {
    pub step: Step,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepModified {
    /// As it is from now on.
    pub step: Step,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<Step>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepQuestion {
    /// Filled in.
    pub question: String,
    /// The default counts from then, Unix milliseconds.
    pub due_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepAnswered {
    pub answer: Json,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepDecomposed {
    /// The plan in its place; the planners make one without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<Plan>>,
    pub reason: String,
    /// US dollars the attempt cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepQueued {
    /// The queue it went to: the step's agent type, or its fallback's. Empty for steps the engine does itself.
    pub agent_type: AgentType,
    /// Given up if no worker has started it by then, Unix milliseconds.
    pub due_ms: u64,
    /// Its outputs are kept under this word for other steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepStarted {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// When the execution began, by the worker's clock, Unix milliseconds.
    pub started_ms: u64,
    /// Given up if no outcome came by then, by the owner's clock, Unix milliseconds.
    pub due_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepProgress {
    /// 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepCompleted {
    pub outputs: Json,
    /// By the worker's clock, Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_ms: Option<u64>,
    /// US dollars.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
    /// Nobody did it: the outputs were kept under this word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
    /// New information that the report brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adjustments: Option<Json>,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
fn is_none_left(value: &u64) -> bool {
    *value == 0
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRetrying {
    pub failure: Failure,
    /// The next attempt may start then, Unix milliseconds.
    pub due_ms: u64,
    /// Set when the next attempt is the fallback's first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fallback: bool,
    /// US dollars the failed attempt cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReleased {
    pub worker: WorkerId,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepFailed {
    pub failure: Failure,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
}

/// Why a step is skipped; the reason decides whether its dependents may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipCause {
    /// `when` was false. Satisfies dependents.
    Condition,
    /// It failed and `on_failure` is `skip`. Satisfies dependents.
    FailurePolicy,
    /// A person said so. Satisfies dependents.
    Person,
    /// A revision passes it over. Satisfies dependents.
    Revision,
    /// Too few of its dependencies can still be satisfied. Does not satisfy dependents.
    DependencyFailed,
}

impl SkipCause {
    /// Whether dependents count the step as done.
    pub fn satisfies(self) -> bool {
        match self {
            Self::Condition | Self::FailurePolicy | Self::Person | Self::Revision => true,
            Self::DependencyFailed => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepSkipped {
    pub cause: SkipCause,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// US dollars the failed attempt cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
}

impl Event {
    /// The event's type, as JSON and the log spell it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Plan(event) => event.type_name(),
            Self::Step { event, .. } => event.type_name(),
        }
    }

    pub fn step(&self) -> Option<&StepId> {
        match self {
            Self::Plan(_) => None,
            Self::Step { step, .. } => Some(step),
        }
    }
}

/// The fields before `data`.
struct Head<'a> {
    seq: u64,
    type_name: &'static str,
    step: Option<&'a StepId>,
    attempt: u32,
    actor: Option<&'a str>,
    /// Set where a record stands alone; in the log the entry has the time.
    time: Option<String>,
}

/// Field by field: names and types need no escaping, and a library looks at each of their letters.
fn write_record<T: Serialize>(out: &mut Vec<u8>, head: &Head<'_>, data: Option<&T>) {
    out.extend_from_slice(br#"{"seq":"#);
    write_value(out, &head.seq);
    out.extend_from_slice(br#","type":""#);
    out.extend_from_slice(head.type_name.as_bytes());
    out.push(b'"');
    if let Some(time) = &head.time {
        out.extend_from_slice(br#","time":"#);
        write_value(out, time);
    }
    if let Some(step) = head.step {
        out.extend_from_slice(br#","step_id":"#);
        write_value(out, step);
    }
    if head.attempt > 0 {
        out.extend_from_slice(br#","attempt":"#);
        write_value(out, &head.attempt);
    }
    if let Some(actor) = head.actor {
        out.extend_from_slice(br#","actor":"#);
        write_value(out, actor);
    }
    if let Some(data) = data {
        out.extend_from_slice(br#","data":"#);
        write_value(out, data);
    }
    out.push(b'}');
}

fn write_value<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("an event always has a JSON text");
}

#[derive(Deserialize)]
struct LineIn<'a> {
    seq: u64,
    #[serde(rename = "type")]
    type_name: std::borrow::Cow<'a, str>,
    #[serde(default)]
    time: Option<String>,
    #[serde(default)]
    step_id: Option<StepId>,
    #[serde(default)]
    attempt: u32,
    #[serde(default)]
    actor: Option<String>,
    #[serde(default, borrow)]
    data: Option<&'a RawValue>,
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the text is not a list of events: {0}")]
    Syntax(#[from] serde_json::Error),
    #[error("event {seq} has the unknown type `{type_name}`")]
    UnknownType { seq: u64, type_name: String },
    #[error("event {seq} (`{type_name}`) names no step")]
    NoStep { seq: u64, type_name: String },
    #[error("the data of event {seq} (`{type_name}`) cannot be read: {source}")]
    Data { seq: u64, type_name: String, source: serde_json::Error },
    #[error("event {seq} has no time")]
    NoTime { seq: u64 },
}

impl Record {
    /// Appends the record as JSON: with its time where it stands alone, without in a log entry.
    fn write(&self, out: &mut Vec<u8>, alone: bool) {
        let time = alone.then(|| clock::rfc3339(self.time_ms));
        let actor = self.actor.as_deref();
        match &self.event {
            Event::Plan(event) => {
                let head = Head { seq: self.seq, type_name: event.type_name(), step: None, attempt: 0, actor, time };
                event.write(out, &head);
            }
            Event::Step { step, attempt, event } => {
                let type_name = event.type_name();
                let head = Head { seq: self.seq, type_name, step: Some(step), attempt: *attempt, actor, time };
                event.write(out, &head);
            }
        }
    }

    /// One line of an exported log: `{"seq":…,"type":…,"time":…,"step_id":…,"attempt":…,"data":…}`.
    ///
    /// The word that attempt tokens are made from is left out; the folded view does not depend on it.
    pub fn to_line(&self) -> String {
        let mut out = Vec::with_capacity(160);
        if let Event::Plan(PlanEvent::GoalAccepted(accepted)) = &self.event {
            let accepted = Box::new(GoalAccepted { secret: String::new(), ..accepted.as_ref().clone() });
            let event = Event::Plan(PlanEvent::GoalAccepted(accepted));
            Self { event, actor: self.actor.clone(), ..*self }.write(&mut out, true);
        } else {
            self.write(&mut out, true);
        }
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    /// Reads one line of an exported log.
    pub fn from_line(line: &str) -> Result<Self, LogError> {
        let line: LineIn<'_> = serde_json::from_str(line)?;
        let seq = line.seq;
        let time_ms = line.time.as_deref().and_then(clock::parse_rfc3339).ok_or(LogError::NoTime { seq })?;
        line.into_record(time_ms)
    }
}

impl LineIn<'_> {
    fn into_record(self, time_ms: u64) -> Result<Record, LogError> {
        let (seq, type_name) = (self.seq, self.type_name);
        let data = |source| LogError::Data { seq, type_name: type_name.clone().into_owned(), source };
        let event = if let Some(event) = PlanEvent::read(&type_name, self.data) {
            Event::Plan(event.map_err(data)?)
        } else if let Some(event) = StepEvent::read(&type_name, self.data) {
            let event = event.map_err(data)?;
            let Some(step) = self.step_id else {
                return Err(LogError::NoStep { seq, type_name: type_name.into_owned() });
            };
            Event::Step { step, attempt: self.attempt, event }
        } else {
            return Err(LogError::UnknownType { seq, type_name: type_name.into_owned() });
        };
        Ok(Record { seq, time_ms, actor: self.actor, event })
    }
}

/// Writes the events of one commit as the `events` field of a log entry: a JSON list without times.
pub fn write_entry(records: &[Record]) -> Vec<u8> {
    let mut out = Vec::with_capacity(records.len() * 96 + 2);
    out.push(b'[');
    for (i, record) in records.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        record.write(&mut out, false);
    }
    out.push(b']');
    out
}

/// Reads the `events` field of a log entry; `time_ms` is the entry's own.
pub fn read_entry(events: &str, time_ms: u64) -> Result<Vec<Record>, LogError> {
    let lines: Vec<LineIn<'_>> = serde_json::from_str(events)?;
    lines.into_iter().map(|line| line.into_record(time_ms)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<Record> {
        let step = |seq, attempt, event| Record {
            seq,
            time_ms: 1_795_293_490_279,
            actor: None,
            event: Event::Step { step: "a".into(), attempt, event },
        };
        vec![
            Record {
                seq: 1,
                time_ms: 1_795_293_490_279,
                actor: Some("api".into()),
                event: Event::Plan(PlanEvent::Paused(Reason::boxed("lunch"))),
            },
            step(2, 0, StepEvent::Ready),
            step(
                3,
                1,
                StepEvent::Completed(Box::new(StepCompleted {
                    outputs: Json::from_text("{\"x\": 1.10}".into()).expect("it is JSON"),
                    finished_ms: Some(5),
                    cost: 0.5,
                    tokens: 0,
                    cache_key: None,
                    adjustments: None,
                })),
            ),
        ]
    }

    #[test]
    fn an_entry_reads_back_and_payloads_keep_their_bytes() {
        let records = sample();
        let text = String::from_utf8(write_entry(&records)).expect("JSON is UTF-8");
        assert!(text.contains("{\"x\": 1.10}"), "{text}");
        assert!(text.contains(r#"{"seq":2,"type":"step_ready","step_id":"a"}"#), "{text}");
        assert_eq!(read_entry(&text, 1_795_293_490_279).expect("own text reads back"), records);
    }

    #[test]
    fn a_line_stands_alone() {
        for record in sample() {
            assert_eq!(Record::from_line(&record.to_line()).expect("own line reads back"), record);
        }
    }

    #[test]
    fn the_word_behind_the_tokens_stays_in_the_journal() {
        let accepted = GoalAccepted {
            plan_id: "p0-1".into(),
            goal: Goal::default(),
            submission: "s".into(),
            source: "test".into(),
            secret: "open-sesame".into(),
            fingerprint: String::new(),
            parent: None,
            traceparent: None,
            deadline_ms: 1,
        };
        let event = Event::Plan(PlanEvent::GoalAccepted(Box::new(accepted)));
        let record = Record { seq: 1, time_ms: 0, actor: None, event };
        let line = record.to_line();
        assert!(!line.contains("secret") && !line.contains("open-sesame"), "{line}");
        assert!(Record::from_line(&line).is_ok(), "an exported line reads back");
        let entry = String::from_utf8(write_entry(std::slice::from_ref(&record))).expect("JSON is UTF-8");
        assert_eq!(read_entry(&entry, 0).expect("own text reads back"), [record]);
    }

    #[test]
    fn a_failure_without_provenance_reads_as_it_did() {
        let line = r#"{"seq":2,"type":"planning_failed","time":"2026-11-22T05:00:00Z","data":{"reason":"no model"}}"#;
        let read = Record::from_line(line).expect("an older line reads");
        let failed = PlanningFailed { reason: "no model".into(), ..PlanningFailed::default() };
        assert_eq!(read.event, Event::Plan(PlanEvent::PlanningFailed(Box::new(failed))));
    }

    #[test]
    fn what_is_no_event_says_so() {
        let read = |text: &str| read_entry(text, 0).expect_err("it is refused").to_string();
        assert_eq!(read(r#"[{"seq":1,"type":"step_flew"}]"#), "event 1 has the unknown type `step_flew`");
        assert_eq!(read(r#"[{"seq":1,"type":"step_ready"}]"#), "event 1 (`step_ready`) names no step");
        assert!(read(r#"[{"seq":1,"type":"plan_created","data":{}}]"#).contains("cannot be read: missing field"));
    }
}
