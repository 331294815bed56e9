//! An attempt of one step, as sent to a worker.

use serde::{Deserialize, Serialize};

use crate::call::{CallBudget, RecordedCall};
use crate::callback::TaskCallback;
use crate::id::{AgentType, AttemptToken, PlanId, StepId};
use crate::json::Json;
use crate::trace;

/// What a worker gets: one attempt of one step, complete in itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Task {
    /// The plan that the step belongs to.
    pub plan: PlanId,
    /// The outermost plan around the plan, to which its blobs belong; none when that is the plan itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<PlanId>,
    /// The step.
    pub step: StepId,
    /// Counted from 1 over the step's whole life.
    pub attempt: u32,
    /// To be echoed in every report.
    pub token: AttemptToken,
    /// The agent type that is to do it.
    pub agent_type: AgentType,
    /// What it is to do; empty when it does one thing only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// What the step is for, in words, as the plan has it; not rendered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Rendered: expressions are already replaced. May be `{"$blob": "<key>"}` when too large to carry.
    pub inputs: Json,
    /// Fields that the outputs must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected_outputs: Vec<String>,
    /// What the outputs are expected to be, in words; nothing is compared with them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub expected_output: String,
    /// A JSON Schema that the outputs must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Json>,
    /// Limit of the execution, from its start.
    pub timeout_ms: u64,
    /// The worker's right to the task lapses after this long without an extension.
    pub lease_ms: u64,
    /// The stream that reports go to.
    pub reply: String,
    /// The same for every attempt of the step: pass it to side effects.
    pub idempotency_key: String,
    /// Finished calls of earlier attempts, by their numbers from 1: their outcomes are used instead of calling again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<RecordedCall>,
    /// Where the outcome may be sent later, if the agent accepts the task and cannot wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<TaskCallback>,
    /// What further calls may use up, when the plan has a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<CallBudget>,
    /// W3C trace context: of the attempt's execution when traces are on, else as the caller gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

impl Task {
    /// The plan to whose family the blobs of the task belong.
    pub fn family(&self) -> &PlanId {
        self.family.as_ref().unwrap_or(&self.plan)
    }

    /// The trace context, if it may be handed on: schedulers of other makes may send anything.
    pub fn safe_traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref().filter(|text| trace::is_traceparent(text))
    }

    /// The id of the trace that it belongs to, for logs.
    pub fn trace_id(&self) -> Option<&str> {
        self.traceparent.as_deref().and_then(trace::trace_id)
    }
}
