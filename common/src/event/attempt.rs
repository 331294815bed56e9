//! Payloads of events of an attempt, from the hand-out of its task to its end.

use serde::{Deserialize, Serialize};

use crate::call::{CallBudget, RecordedCall, SuspendedCall};
use crate::failure::Failure;
use crate::id::{AgentType, WorkerId};
use crate::json::Json;
use crate::plan::Plan;
use crate::report::TokenSplit;

use super::event_bytes::{self, json};

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
    /// Bytes of the plan that starts inside, and of its goal.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub plan_bytes: u64,
}

impl StepQueued {
    /// An attempt for this queue, without more.
    pub fn new(agent_type: AgentType, due_ms: u64) -> Self {
        Self {
            agent_type,
            due_ms,
            cache_key: None,
            action: String::new(),
            inputs: None,
            inputs_bytes: 0,
            budget: None,
            plan_bytes: 0,
        }
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
    /// Given up if no outcome came by then, by the time of the store, Unix milliseconds.
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
    /// The same tokens, split into those of prompts and of answers, where the worker reported the split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenSplit>,
}

impl StepSuspended {
    /// A call that waits until `due_ms`, Unix milliseconds, for nothing.
    pub fn new(call: SuspendedCall, worker: WorkerId, due_ms: u64) -> Self {
        Self { call, worker, due_ms, plan: None, budget: None, cost: 0.0, tokens: 0, usage: None }
    }

    /// About how many bytes it takes in the log.
    pub(super) fn bytes(&self) -> usize {
        let wait = &self.call.wait;
        let texts =
            self.call.name.len() + wait.text.len() + wait.schema.as_ref().map_or(0, |schema| schema.text().len());
        texts + json(wait.inputs.as_ref()) + self.plan.as_deref().map_or(0, event_bytes::plan)
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
    /// The same tokens, split into those of prompts and of answers, where the worker reported the split.
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
    /// They are incomplete: a partial success.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The next one begins then, Unix milliseconds.
    pub due_ms: u64,
    /// US dollars the attempt cost.
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
}

/// An undo step is through with one of the iterations or attempts that it undoes, and continues with the one before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepUndone {
    /// What its agent gave; none when it failed, or when the condition of the undo step was false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Json>,
    /// Why this one could not be undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// US dollars the attempt cost.
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
    /// The same tokens, split into those of prompts and of answers, where the worker reported the split.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer asks so")]
pub(super) fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer asks so")]
pub(super) fn is_none_left(value: &u64) -> bool {
    *value == 0
}
