//! The events of a step, and their payloads. Those of an attempt are in `attempt.rs`.

use serde::{Deserialize, Serialize};

use crate::call::RecordedCall;
use crate::failure::Failure;
use crate::id::AgentType;
use crate::json::Json;
use crate::plan::{Plan, Step};
use crate::report::{SuggestedAdjustment, TokenSplit};

use super::attempt::{
    CallbackReceived, CallsDiscarded, StepDecomposed, StepIterated, StepMeasured, StepProgress, StepQueued,
    StepReleased, StepResumed, StepRetrying, StepStarted, StepSuspended, StepUndone, is_none_left, is_zero,
};
use super::event_bytes::{self, json};
use super::hook::{HookAsked, HookDecided};
use super::plan::Reason;
use super::review::ApprovalRequested;
use super::table::events;

events! {
    /// Something happened to a step.
    StepEvent: StepEventKind {
        /// A revision adds it.
        Added(StepAdded) = "step_added": Change, sample r#"{"step":{"id":"a","agent_type":"echo"}}"#,
            weight |added| event_bytes::step(&added.step);
        /// A revision changes it.
        Modified(StepModified) = "step_modified": Change, sample r#"{"step":{"id":"a","agent_type":"echo"}}"#,
            weight |modified| event_bytes::step(&modified.step) + modified.before.as_deref().map_or(0, event_bytes::step);
        /// A revision takes it away.
        Removed(Reason) = "step_removed": Change;
        /// It may be handed out.
        Ready = "step_ready": Ready;
        /// A dependency failed, and a decision is awaited.
        Blocked(Reason) = "step_blocked": Wait;
        /// A person must approve it before it starts.
        ApprovalRequested(ApprovalRequested) = "step_approval_requested": Wait, sample r#"{"due_ms":1}"#;
        /// The hooks of a point are asked about the step.
        HookAsked(HookAsked) = "step_hook_asked": Wait, sample r#"{"id":"p0-1:2","point":"on_step_start"}"#,
            weight |asked| asked.completed.as_ref().map_or(0, |completed| completed.outputs.text().len());
        /// The hooks have decided about the step.
        HookDecided(HookDecided) = "step_hook_decided": Wait,
            sample r#"{"id":"p0-1:2","point":"on_step_start","decision":"allow"}"#,
            weight |decided| decided.reason.len() + json(decided.inputs.as_ref());
        /// It was approved.
        Approved(Reason) = "step_approved": Ready;
        /// A person is asked something before the step continues.
        QuestionAsked(StepQuestion) = "step_question_asked": Wait, sample r#"{"question":"Which?","due_ms":1}"#,
            weight |asked| asked.question.len();
        /// The question has an answer.
        Answered(StepAnswered) = "step_question_answered": Wait, sample r#"{"answer":"this"}"#,
            weight |answered| answered.answer.text().len() + answered.reason.len();
        /// The attempt in flight does not count: the step is about to be changed, or removed.
        Recalled(Reason) = "step_recalled": AttemptEnd;
        /// The step turned out to be a plan of its own.
        Decomposed(StepDecomposed) = "step_decomposed": AttemptEnd, sample r#"{"reason":"too much at once"}"#,
            weight |decomposed| decomposed.plan.as_deref().map_or(0, event_bytes::plan) + decomposed.reason.len();
        /// A map got a plan with one step for each item of its list.
        Expanded(StepExpanded) = "step_expanded": Wait, sample r#"{"items":1,"plan":{"steps":[]}}"#,
            weight |expanded| event_bytes::plan(&expanded.plan);
        /// An attempt went out to the workers.
        Queued(StepQueued) = "step_queued": AttemptBegin, sample r#"{"agent_type":"echo","due_ms":1}"#,
            weight |queued| json(queued.inputs.as_ref()) + queued.action.len();
        /// The attempt began.
        Started(StepStarted) = "step_started": AttemptProgress, sample r#"{"started_ms":1,"due_ms":2}"#;
        /// The attempt reported its progress.
        Progress(StepProgress) = "step_progress": AttemptProgress,
            weight |progress| progress.message.as_ref().map_or(0, String::len);
        /// The attempt reported measures beside cost and tokens.
        Measured(StepMeasured) = "step_measured": AttemptProgress, sample r#"{"measures":{}}"#,
            weight |measured| 32 * measured.measures.len();
        /// The attempt finished a call, which the next attempt need not make again.
        CallRecorded(RecordedCall) = "call_recorded": AttemptProgress, sample r#"{"n":1,"name":"model"}"#,
            weight |call| call.bytes();
        /// Recorded calls are dropped: the attempt makes another call, or its outputs were refused.
        CallsDiscarded(CallsDiscarded) = "calls_discarded": AttemptProgress,
            sample r#"{"from":1,"recorded":"model","called":"http_get"}"#,
            weight |discarded| discarded.recorded.len() + discarded.called.as_ref().map_or(0, String::len);
        /// The attempt ended because one of its calls waits for a person.
        Suspended(StepSuspended) = "step_suspended": AttemptEnd,
            sample r#"{"call":{"n":1,"name":"approve","wait":{"for":"approval","text":"write?"}},"worker":"w",
                "due_ms":1}"#,
            weight |suspended| suspended.bytes();
        /// The outcome of an attempt came by callback; what it means follows.
        CallbackReceived(CallbackReceived) = "callback_received": AttemptProgress, sample r#"{"digest":"d"}"#;
        /// The person has decided or answered, or did not in time: the next attempt continues.
        Resumed(StepResumed) = "step_resumed": Ready, sample r#"{"call":{"n":1,"name":"approve"}}"#,
            weight |resumed| resumed.call.bytes();
        /// It waits for a time, or for an event from outside.
        WaitStarted(StepWaitStarted) = "step_wait_started": Wait, sample r#"{"due_ms":1}"#,
            weight |wait| wait.event.len() + wait.key.len();
        /// It is done.
        Completed(StepCompleted) = "step_completed": End, sample r#"{"outputs":{"x":1.10}}"#,
            weight |completed| completed.outputs.text().len() + json(completed.adjustments.as_ref())
                + 16 * completed.items.as_ref().map_or(0, Vec::len);
        /// The attempt failed, and there will be another one.
        Retrying(StepRetrying) = "step_retrying": AttemptEnd,
            sample r#"{"failure":{"class":"transient","code":"SLOW","message":"m"},"due_ms":1}"#,
            weight |retrying| retrying.failure.message.len();
        /// An iteration of a loop gave outputs, and there will be another one.
        Iterated(StepIterated) = "step_iterated": AttemptEnd, sample r#"{"iteration":1,"outputs":{},"due_ms":1}"#,
            weight |iterated| iterated.outputs.text().len();
        /// An undo step has undone one iteration or attempt, or could not; the one before it follows.
        Undone(StepUndone) = "step_undone": AttemptEnd,
            weight |undone| json(undone.outputs.as_ref())
                + undone.failure.as_ref().map_or(0, |failure| failure.message.len());
        /// Handed back untried; the attempt does not count as a failure.
        Released(StepReleased) = "step_released": AttemptEnd, sample r#"{"worker":"w"}"#;
        /// It failed for good.
        Failed(StepFailed) = "step_failed": End,
            sample r#"{"failure":{"class":"transient","code":"SLOW","message":"m"}}"#,
            weight |failed| failed.failure.message.len();
        /// It is skipped.
        Skipped(StepSkipped) = "step_skipped": End, sample r#"{"cause":"condition"}"#;
        /// It will not be done.
        Cancelled(StepCancelled) = "step_cancelled": End;
    }
}

/// A revision adds a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepAdded {
    /// The step, as a plan has it.
    pub step: Step,
}

/// A revision changes a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepModified {
    /// As it is from now on.
    pub step: Step,
    /// As it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<Step>>,
}

/// A person is asked something before the step continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepQuestion {
    /// Filled in.
    pub question: String,
    /// The default counts from then, Unix milliseconds.
    pub due_ms: u64,
}

/// A step's question has an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepAnswered {
    /// The answer.
    pub answer: Json,
    /// The time limit passed: it is the default of the question.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
    /// Why, in the person's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A map got the plan of its items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepExpanded {
    /// How many steps it has.
    pub items: u32,
    /// The plan that runs in its place.
    pub plan: Box<Plan>,
}

/// A `wait` step begins to wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepWaitStarted {
    /// The wait ends then, Unix milliseconds; 0: when the event comes, or the plan ends.
    pub due_ms: u64,
    /// The name of the event that it waits for; empty when it waits for the time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub event: String,
    /// The key of the event.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
}

/// A step is done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepCompleted {
    /// What it gave; dependents see it in expressions.
    pub outputs: Json,
    /// By the worker's clock, Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_ms: Option<u64>,
    /// US dollars.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    /// Tokens that the attempt took.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
    /// The same tokens, split into those of prompts and of answers, where the worker reported the split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenSplit>,
    /// How long the attempt ran, by the clock of its worker, where start and end are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The outputs are from the cache, under this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
    /// The id of the event from outside that the step waited for; its data are the outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// New information that the report brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adjustments: Option<Json>,
    /// The outputs are incomplete: a partial success.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// What is missing, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Failure>,
    /// What the agent would change in the rest of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggested_adjustments: Vec<SuggestedAdjustment>,
    /// Of a map that can be undone: what its items have done, or may have, in the order in which they were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<ItemWork>>,
}

/// What one item of a map has done by one agent, or may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemWork {
    /// The number of the item, from 0.
    pub item: u32,
    /// The agent type, when it is not that of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<AgentType>,
    /// Its outputs are unknown; otherwise they are in the outputs of the map.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

/// A step is stopped, because the plan ends or a revision needs it no more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepCancelled {
    /// In one line; empty when none was given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// US dollars that the plan inside it cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    /// Tokens that the plan inside it took.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
    /// Clean-up steps of the plan inside it that did not succeed, by their steps from the outside to the inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_undone: Vec<String>,
}

impl StepCancelled {
    /// A step that is stopped for this reason, for nothing.
    pub fn boxed(reason: impl Into<String>) -> Box<Self> {
        Box::new(Self { reason: reason.into(), ..Self::default() })
    }
}

/// A step failed for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepFailed {
    /// What the last attempt failed with.
    pub failure: Failure,
    /// US dollars the failed attempt cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    /// Tokens that the failed attempt took.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
    /// The same tokens, split into those of prompts and of answers, where the worker reported the split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenSplit>,
    /// How long the attempt ran, by the clock of its worker, where start and end are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl StepFailed {
    /// A step that failed with this, for nothing.
    pub fn new(failure: Failure) -> Self {
        Self { failure, cost: 0.0, tokens: 0, usage: None, duration_ms: None }
    }
}

/// Why a step is skipped; the reason decides whether its dependents may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipCause {
    /// `when` was false. Satisfies dependents.
    Condition,
    /// It failed and `on_failure` is `skip`. Satisfies dependents.
    FailurePolicy,
    /// By a person. Satisfies dependents.
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

impl StepSkipped {
    /// A step that is skipped for this cause, without an attempt.
    pub fn new(cause: SkipCause) -> Self {
        Self { cause, reason: String::new(), failure: None, cost: 0.0, tokens: 0, usage: None, duration_ms: None }
    }
}

/// A step is passed over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepSkipped {
    /// Why; decides whether its dependents may run.
    pub cause: SkipCause,
    /// The same in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What it failed with, when it is skipped for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// US dollars the failed attempt cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    /// Tokens that the failed attempt took.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
    /// The same tokens, split into those of prompts and of answers, where the worker reported the split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenSplit>,
    /// How long the attempt ran, by the clock of its worker, where start and end are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}
