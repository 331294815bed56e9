//! A finished call of a step: of a model, a tool, or anything else that costs money or has effects.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::json::Json;
use crate::status::StepStatus;
use crate::word_enum::word_enum;

/// Characters of a call's name, and bytes of what identifies its inputs.
pub const CALL_NAME_MAX: usize = 200;

/// A finished call, as a worker reports it and as the next attempt of the step gets it back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RecordedCall {
    /// Counted from 1 in the order of the records.
    pub n: u32,
    /// What was called: the next attempt gets the outcome back for a call with the same name and inputs.
    pub name: String,
    /// Identifies its inputs, for example a digest of them. Other inputs are another call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,
    /// What came of it. May be `{"$blob": "<key>"}` when large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Json>,
    /// The error that came of it instead, if the next attempt is to get it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// US dollars.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    /// Tokens of language models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenSplit>,
    /// When it began, Unix milliseconds by the worker's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_ms: Option<u64>,
}

/// The names and inputs of recorded calls that a next attempt does not get. Equal calls are told apart by their order, so
/// it does not get later ones of the same name and inputs either: it would take them for the earlier ones.
#[derive(Debug, Default)]
pub struct LeftOutCalls(BTreeSet<(String, Option<String>)>);

impl LeftOutCalls {
    /// Whether an earlier call of the same name and inputs is left out.
    pub fn contain(&self, call: &RecordedCall) -> bool {
        !self.0.is_empty() && self.0.contains(&(call.name.clone(), call.inputs.clone()))
    }

    /// Leaves out a call and the equal ones after it.
    pub fn add(&mut self, call: &RecordedCall) {
        self.0.insert((call.name.clone(), call.inputs.clone()));
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer asks so")]
fn is_zero(cost: &f64) -> bool {
    *cost == 0.0
}

/// A call that waits. The attempt has ended; what it waited for is the outcome of the call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SuspendedCall {
    /// Its number, counted as that of a recorded call.
    pub n: u32,
    /// What is called.
    pub name: String,
    /// Identifies its inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,
    /// What it waits for.
    pub wait: CallWait,
}

/// What a call waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallWait {
    /// For whom, or for what.
    #[serde(rename = "for")]
    pub kind: CallWaitKind,
    /// What the person agrees to, or is asked; what the plan or the budget is for.
    pub text: String,
    /// JSON Schema of the answer; anything goes without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// How long it waits, in milliseconds. For a person at most, and by default, `limits.approval_ms_max`; for a plan as
    /// long as the plan of the step, at most and by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// With `plan`: the plan to run, in any accepted spelling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Json>,
    /// With `plan`: what its steps read as `inputs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Json>,
    /// With `budget`: the most that the call may use up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<CallNeeds>,
}

impl CallWait {
    /// A wait without more than its text.
    pub fn new(kind: CallWaitKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), schema: None, limit_ms: None, plan: None, inputs: None, needs: None }
    }
}

word_enum! {
    /// For whom or for what a call waits.
    CallWaitKind {
        /// A person agrees or refuses. The outcome is `{"approved": true or false, "reason": text}`.
        Approval = "approval",
        /// A person answers. The outcome is `{"answer": any JSON}`, or `{"error": text}` when there was no answer in time.
        Answer = "answer",
        /// A plan of its own ends. The outcome is `{"plan": id, "status": status, "outputs": any JSON}`, or
        /// `{"plan": id, "status": status, "error": failure}` when it did not complete. A plan that is refused never
        /// starts, and its outcome is `{"error": failure}`.
        Plan = "plan",
        /// The budget of the plan has room for the call. It has no outcome: the next attempt makes the call.
        Budget = "budget",
        /// The agent has accepted the task, and its callback ends the attempt. Only a step with `callback: true`.
        Callback = "callback",
    }
}

impl CallWaitKind {
    /// The status of a step whose call waits for that.
    pub fn status(self) -> StepStatus {
        match self {
            Self::Approval | Self::Answer => StepStatus::AwaitingApproval,
            Self::Plan | Self::Budget => StepStatus::Retrying,
            Self::Callback => StepStatus::Waiting,
        }
    }

    /// Whether a person ends the wait.
    pub fn is_for_person(self) -> bool {
        matches!(self, Self::Approval | Self::Answer)
    }
}

/// The most that a call may use up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct CallNeeds {
    /// Tokens of language models.
    pub tokens: u64,
    /// US dollars.
    pub cost: f64,
}

/// What the calls of one attempt may use up, beside the recorded calls that came with its task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallBudget {
    /// Tokens of language models; no limit when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// US dollars; no limit when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Nothing else of the plan's budget is left: waiting for more is of no use.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
}

/// Characters of what a person is shown or asked.
pub const WAIT_TEXT_CHARS_MAX: usize = 4_000;

/// The digest of a call's inputs.
pub fn inputs_digest(inputs: &str) -> String {
    format!("{:032x}", inputs.bytes().fold(crate::id::FNV_BASIS, crate::id::fnv))
}

/// The idempotency key of a call: the same each time the call is made, and that of no other call of the plan.
///
/// - `task`: the idempotency key of the task.
/// - `inputs`: what the log has as the inputs of the call.
pub fn call_key(task: &str, name: &str, inputs: &str) -> String {
    let hash = name.bytes().chain([0]).chain(inputs.bytes()).fold(crate::id::FNV_BASIS, crate::id::fnv);
    format!("{task}/{}", crate::id::base32(hash, 26))
}

impl RecordedCall {
    /// Whether both are the same call. The outcome of the one is then that of the other.
    pub fn is_same(&self, name: &str, inputs: Option<&str>) -> bool {
        self.name == name && self.inputs.as_deref() == inputs
    }

    /// Bytes that it takes in the log and in tasks, without its fixed parts.
    pub fn bytes(&self) -> usize {
        let error = self.error.as_ref().map_or(0, |error| error.message.len() + error.code.len());
        let inputs = self.inputs.as_ref().map_or(0, String::len);
        self.name.len() + inputs + self.outcome.as_ref().map_or(0, |outcome| outcome.text().len()) + error
    }

    /// Tokens of prompts and answers together.
    pub fn tokens(&self) -> u64 {
        self.usage.map_or(0, TokenSplit::sum)
    }
}

/// Tokens of language models: of prompts and of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TokenSplit {
    /// Tokens of prompts.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Tokens of answers.
    #[serde(default)]
    pub completion_tokens: u64,
}

impl TokenSplit {
    /// Both together.
    pub fn sum(self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}
