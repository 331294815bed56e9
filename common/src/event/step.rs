//! The events of a step, and their payloads.

use serde::{Deserialize, Serialize};

use crate::call::{CallBudget, RecordedCall, SuspendedCall};
use crate::failure::Failure;
use crate::id::{AgentType, WorkerId};
use crate::json::Json;
use crate::plan::{Plan, Step};
use crate::report::{SuggestedAdjustment, TokenSplit};

use super::hook::{HookAsked, HookDecided};
use super::plan::Reason;
use super::review::ApprovalRequested;
use super::table::events;
use super::weight::{self, json};

events! {
    /// Something happened to a step.
    StepEvent: StepEventKind {
        /// A revision adds it.
        Added(StepAdded) = "step_added": Change, sample r#"{"step":{"id":"a","agent_type":"echo"}}"#,
            weight |added| weight::step(&added.step);
        /// A revision changes it.
        Modified(StepModified) = "step_modified": Change, sample r#"{"step":{"id":"a","agent_type":"echo"}}"#,
            weight |modified| weight::step(&modified.step) + modified.before.as_deref().map_or(0, weight::step);
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
        /// A person is asked something before the step goes on.
        QuestionAsked(StepQuestion) = "step_question_asked": Wait, sample r#"{"question":"Which?","due_ms":1}"#,
            weight |asked| asked.question.len();
        /// The question has an answer.
        Answered(StepAnswered) = "step_question_answered": Wait, sample r#"{"answer":"this"}"#,
            weight |answered| answered.answer.text().len() + answered.reason.len();
        /// The attempt in flight does not count: the step is about to be changed, or removed.
        Recalled(Reason) = "step_recalled": AttemptEnd;
        /// The step turned out to be a plan of its own.
        Decomposed(StepDecomposed) = "step_decomposed": AttemptEnd, sample r#"{"reason":"too much at once"}"#,
            weight |decomposed| decomposed.plan.as_deref().map_or(0, weight::plan) + decomposed.reason.len();
        /// A map got a plan with one step for each item of its list.
        Expanded(StepExpanded) = "step_expanded": Wait, sample r#"{"items":1,"plan":{"steps":[]}}"#,
            weight |expanded| weight::plan(&expanded.plan);
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
        /// The person has decided or answered, or nobody did in time: the next attempt goes on.
        Resumed(StepResumed) = "step_resumed": Ready, sample r#"{"call":{"n":1,"name":"approve"}}"#,
            weight |resumed| resumed.call.bytes();
        /// It waits for a time, or for an event from outside.
        WaitStarted(StepWaitStarted) = "step_wait_started": Wait, sample r#"{"due_ms":1}"#,
            weight |wait| wait.event.len() + wait.key.len();
        /// It is done.
        Completed(StepCompleted) = "step_completed": End, sample r#"{"outputs":{"x":1.10}}"#,
            weight |completed| completed.outputs.text().len() + json(completed.adjustments.as_ref());
        /// The attempt failed, and there will be another one.
        Retrying(StepRetrying) = "step_retrying": AttemptEnd,
            sample r#"{"failure":{"class":"transient","code":"SLOW","message":"m"},"due_ms":1}"#,
            weight |retrying| retrying.failure.message.len();
        /// An iteration of a loop gave outputs, and there will be another one.
        Iterated(StepIterated) = "step_iterated": AttemptEnd, sample r#"{"iteration":1,"outputs":{},"due_ms":1}"#,
            weight |iterated| iterated.outputs.text().len();
        /// Handed back untried; the attempt does not count as a failure.
        Released(StepReleased) = "step_released": AttemptEnd, sample r#"{"worker":"w"}"#;
        /// It failed for good.
        Failed(StepFailed) = "step_failed": End,
            sample r#"{"failure":{"class":"transient","code":"SLOW","message":"m"}}"#,
            weight |failed| failed.failure.message.len();
        /// It is skipped.
        Skipped(StepSkipped) = "step_skipped": End, sample r#"{"cause":"condition"}"#;
        /// It will not be done.
        Cancelled(Reason) = "step_cancelled": End;
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

/// A person is asked something before the step goes on.
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
    /// Nobody answered in time: it is the question's default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
    /// Why, in the person's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The attempt ended with a plan to run in the step's place, or with the wish for one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepDecomposed {
    /// The plan in its place; the planners make one without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<Plan>>,
    /// The agent's reason.
    pub reason: String,
    /// US dollars the attempt cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    /// Tokens that the attempt took.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
    /// The same tokens, split into those of prompts and of answers, where the worker told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenSplit>,
    /// How long the attempt ran, by the clock of its worker, where start and end are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl StepDecomposed {
    /// A step that becomes a plan of its own for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { plan: None, reason: reason.into(), cost: 0.0, tokens: 0, usage: None, duration_ms: None }
    }
}

/// An iteration of a loop is done, and its condition is not true yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepIterated {
    /// Its number, from 1.
    pub iteration: u32,
    /// What it gave; the next one sees them as `previous.outputs`.
    pub outputs: Json,
    /// The next one begins then, Unix milliseconds.
    pub due_ms: u64,
    /// US dollars the attempt cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    /// Tokens that the attempt took.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
    /// The same tokens, split into those of prompts and of answers, where the worker told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenSplit>,
    /// How long the attempt ran, by the clock of its worker, where start and end are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// A map got the plan of its items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepExpanded {
    /// How many steps it has.
    pub items: u32,
    /// The plan that runs in its place.
    pub plan: Box<Plan>,
}

/// An attempt went out to the workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepQueued {
    /// The queue it went to: the step's agent type, or its fallback's. Empty for steps the engine does itself.
    pub agent_type: AgentType,
    /// Given up if no worker has started it by then, Unix milliseconds.
    pub due_ms: u64,
    /// Its outputs are kept under this word for other steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
    /// What the agent is to do, when that is the fallback's action and not the step's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// What the agent receives, rendered and redacted: itself, or `{"$blob": "<key>", "bytes": n}` when it is large. None
    /// when inputs are not recorded, or when the plan's recorded inputs are too large together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Json>,
    /// Bytes of inputs that are recorded by reference, or by this number alone.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub inputs_bytes: u64,
    /// What its calls, or its sub-plan, may use up; reserved in the budget of the plan until the attempt ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<CallBudget>,
}

impl StepQueued {
    /// An attempt for this queue, without more.
    pub fn new(agent_type: AgentType, due_ms: u64) -> Self {
        Self { agent_type, due_ms, cache_key: None, action: String::new(), inputs: None, inputs_bytes: 0, budget: None }
    }
}

/// An attempt began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepStarted {
    /// Who runs it; none for what the engine does itself, and for plans inside the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// When the execution began, by the worker's clock, Unix milliseconds.
    pub started_ms: u64,
    /// Given up if no outcome came by then, by the owner's clock, Unix milliseconds.
    pub due_ms: u64,
}

/// An attempt reports its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepProgress {
    /// 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// One line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// An attempt reported measures beside cost and tokens; they are added to those of the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepMeasured {
    /// Amounts by name; `cost_EUR` is a cost in euros.
    pub measures: crate::constraint::Measures,
}

/// Recorded calls are dropped: an attempt makes another call, or what came of them was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallsDiscarded {
    /// The number of the first call that is dropped.
    pub from: u32,
    /// The name under which it was recorded.
    pub recorded: String,
    /// The name of the call that is made instead; none when what came of all calls was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
}

/// An attempt ends because one of its calls waits: for a person, a plan of its own, or the budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepSuspended {
    /// What waits, and for what.
    pub call: SuspendedCall,
    /// Who ran the attempt.
    pub worker: WorkerId,
    /// When the wait ends in any case, Unix milliseconds.
    pub due_ms: u64,
    /// The plan that it waits for, validated; none when that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<Plan>>,
    /// What that plan may use up; reserved until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<CallBudget>,
    /// US dollars that the attempt cost beside its recorded calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    /// Tokens that the attempt took beside its recorded calls.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
    /// The same tokens, split into those of prompts and of answers, where the worker told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenSplit>,
}

impl StepSuspended {
    /// A call that waits until `due_ms`, Unix milliseconds, for nothing.
    pub fn new(call: SuspendedCall, worker: WorkerId, due_ms: u64) -> Self {
        Self { call, worker, due_ms, plan: None, budget: None, cost: 0.0, tokens: 0, usage: None }
    }

    /// About how many bytes it takes in the log.
    fn bytes(&self) -> usize {
        let wait = &self.call.wait;
        let texts =
            self.call.name.len() + wait.text.len() + wait.schema.as_ref().map_or(0, |schema| schema.text().len());
        texts + json(wait.inputs.as_ref()) + self.plan.as_deref().map_or(0, weight::plan)
    }
}

/// The outcome of an attempt came by callback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackReceived {
    /// Tells a repeated report from another one.
    pub digest: String,
}

/// A call that waited has its outcome: the step may be handed out again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResumed {
    /// The call with the answer as its outcome.
    pub call: RecordedCall,
    /// The wait ended at its time limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
    /// US dollars that the plan cost which the call waited for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    /// Tokens that this plan took.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
}

impl StepResumed {
    /// A call that has its outcome, for nothing.
    pub fn new(call: RecordedCall, by_default: bool) -> Self {
        Self { call, by_default, cost: 0.0, tokens: 0 }
    }
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
    /// The same tokens, split into those of prompts and of answers, where the worker told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenSplit>,
    /// How long the attempt ran, by the clock of its worker, where start and end are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Nobody did it: the outputs were kept under this word.
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
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer asks so")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer asks so")]
fn is_none_left(value: &u64) -> bool {
    *value == 0
}

/// An attempt failed, and there will be another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRetrying {
    /// What it failed with.
    pub failure: Failure,
    /// The next attempt may start then, Unix milliseconds.
    pub due_ms: u64,
    /// Set when the next attempt is the fallback's first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fallback: bool,
    /// The other side asked to wait: no retry is used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub told_to_wait: bool,
    /// US dollars the failed attempt cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    /// Tokens that the failed attempt took.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub tokens: u64,
    /// The same tokens, split into those of prompts and of answers, where the worker told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenSplit>,
    /// How long the attempt ran, by the clock of its worker, where start and end are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl StepRetrying {
    /// An attempt that failed with this, for nothing; the next one may start at `due_ms`.
    pub fn new(failure: Failure, due_ms: u64) -> Self {
        Self {
            failure,
            due_ms,
            fallback: false,
            told_to_wait: false,
            cost: 0.0,
            tokens: 0,
            usage: None,
            duration_ms: None,
        }
    }
}

/// A worker handed the task back without trying it: the attempt is not used up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReleased {
    /// Who handed it back.
    pub worker: WorkerId,
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
    /// The same tokens, split into those of prompts and of answers, where the worker told.
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

/// Why a step is skipped; the reason decides whether its dependents may go on.
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
    /// Why; decides whether its dependents may go on.
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
    /// The same tokens, split into those of prompts and of answers, where the worker told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenSplit>,
    /// How long the attempt ran, by the clock of its worker, where start and end are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}
