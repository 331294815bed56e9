//! Whole completions.

use serde::{Deserialize, Serialize};

use crate::message::{ProviderFields, ToolCall};
use crate::response_mode::ResponseMode;
use crate::usage::{TokenUsage, Usd};

/// Code of a call that timed out.
pub const TIMEOUT: &str = "LLM_TIMEOUT";

/// A whole completion. Reasoning and raw bytes are not serialized.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// The text without tool calls, reasoning and refusal.
    pub text: String,
    pub tool_calls: Vec<ToolCall>,
    /// The reasoning of the model.
    #[serde(skip)]
    pub thinking: String,
    /// What the server wants back with the tool calls.
    #[serde(default, skip_serializing_if = "ProviderFields::is_empty")]
    pub provider_fields: ProviderFields,
    /// The model's reason for declining, from the refusal field of the response.
    pub refusal: String,
    pub finish: FinishReason,
    pub usage: TokenUsage,
    /// Cost by the prices in the settings.
    pub cost: Usd,
    /// Name in the settings.
    pub model: String,
    /// Model name that the server reported.
    pub served_by: String,
    /// How the response format was requested.
    pub mode: ResponseMode,
    #[serde(skip)]
    pub raw: RawResponse,
    /// From the first request to the last byte, including retries and other models, in milliseconds.
    pub latency_ms: u64,
    /// Every call of the request, including the last.
    pub attempts: Vec<CallAttempt>,
}

impl Completion {
    /// The requested content: the arguments of the tool that replaces a schema, otherwise the text.
    pub fn content(&self) -> &str {
        match (self.mode, self.tool_calls.first()) {
            (ResponseMode::ForcedTool, Some(call)) => &call.arguments,
            (ResponseMode::ForcedTool, None)
            | (ResponseMode::JsonSchema | ResponseMode::Tools | ResponseMode::JsonObject | ResponseMode::Text, _) => {
                &self.text
            }
        }
    }

    /// Why the model, or the filter of its provider, declined to answer; `None` when it did not.
    pub fn decline_reason(&self) -> Option<String> {
        let has_content = !self.text.trim().is_empty() || !self.tool_calls.is_empty();
        let is_filtered = self.finish == FinishReason::ContentFilter;
        let refusal = self.refusal.trim();
        if !is_filtered && (refusal.is_empty() || has_content) {
            return None;
        }
        Some(match (refusal, self.text.trim()) {
            ("", "") => "the content filter of the provider stopped the reply".into(),
            ("", text) => format!("the content filter of the provider stopped the reply after: {text}"),
            (refusal, _) => refusal.into(),
        })
    }

    /// Whether the completion ended early. A truncated completion is never continued.
    pub fn is_truncated(&self) -> bool {
        matches!(self.finish, FinishReason::Length | FinishReason::BrokenOff)
    }

    /// Other models that timed out during the request.
    pub fn timed_out_models(&self) -> impl Iterator<Item = &str> {
        let is_late = |call: &&CallAttempt| call.error.as_deref() == Some(TIMEOUT) && call.model != self.model;
        self.attempts.iter().filter(is_late).map(|call| call.model.as_str())
    }
}

/// Why the model stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    Stop,
    /// The token limit: the completion is truncated.
    Length,
    ToolCalls,
    ContentFilter,
    /// An unknown reason as the server wrote it.
    Other(String),
    /// The response ended without a finish reason: the completion is truncated.
    BrokenOff,
    /// The response ended normally without a finish reason.
    #[default]
    Unsaid,
}

impl FinishReason {
    /// Parses the finish reason of a server; empty is `None`.
    pub fn parse(word: &str) -> Option<Self> {
        let known = match word.trim().to_ascii_lowercase().as_str() {
            "" => return None,
            "stop" | "eos" | "eos_token" | "end_turn" | "stop_sequence" | "end" | "complete" | "completed" => {
                Self::Stop
            }
            "length" | "max_tokens" | "max_output_tokens" | "model_length" | "model_context_window_exceeded" => {
                Self::Length
            }
            "tool_calls" | "tool_use" | "function_call" | "tool_call" => Self::ToolCalls,
            "content_filter"
            | "content_filtered"
            | "refusal"
            | "safety"
            | "prohibited_content"
            | "blocklist"
            | "recitation"
            | "spii"
            | "sensitive"
            | "guardrail_intervened" => Self::ContentFilter,
            _ => Self::Other(word.trim().into()),
        };
        Some(known)
    }
}

/// The bytes of a response, up to a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawResponse {
    pub bytes: Vec<u8>,
    /// Bytes received, also those over the limit.
    pub total: u64,
}

/// Bytes that are kept of one response.
pub const RAW_BYTES_MAX: usize = 256 << 10;

impl RawResponse {
    /// Appends bytes up to the limit.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = RAW_BYTES_MAX.saturating_sub(self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..room]);
        self.total = self.total.saturating_add(bytes.len() as u64);
    }

    /// The bytes as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// One call to one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallAttempt {
    pub model: String,
    pub mode: ResponseMode,
    /// Error code; `None` for a successful call.
    pub error: Option<String>,
    pub latency_ms: u64,
    pub usage: TokenUsage,
    pub cost: Usd,
}
