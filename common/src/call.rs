//! A finished call of a step: of a model, a tool, or anything else that costs money or has effects.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::json::Json;

/// Characters of a call's name, and bytes of what identifies its inputs.
pub const CALL_NAME_MAX: usize = 200;

/// A finished call, as a worker reports it and as the next attempt of the step gets it back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RecordedCall {
    /// Counted from 1 over the step's whole life.
    pub n: u32,
    /// What was called: the next attempt gets the outcome back if its call `n` has the same name and inputs.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer asks so")]
fn is_zero(cost: &f64) -> bool {
    *cost == 0.0
}

/// A call that waits for a person. The attempt has ended; the answer is the outcome of the call.
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
    /// Whether a person agrees, or answers.
    #[serde(rename = "for")]
    pub kind: CallWaitKind,
    /// What the person agrees to, or is asked.
    pub text: String,
    /// JSON Schema of the answer; anything goes without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// How long the person has, in milliseconds: at most, and by default, `limits.approval_ms_max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallWaitKind {
    /// A person agrees or refuses. The outcome is `{"approved": true or false, "reason": text}`.
    Approval,
    /// A person answers. The outcome is `{"answer": any JSON}`, or `{"error": text}` when nobody did in time.
    Answer,
}

/// Characters of what a person is told or asked.
pub const WAIT_TEXT_CHARS_MAX: usize = 4_000;

/// The digest of a call's inputs.
pub fn inputs_digest(inputs: &str) -> String {
    format!("{:032x}", inputs.bytes().fold(crate::id::FNV_BASIS, crate::id::fnv))
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
