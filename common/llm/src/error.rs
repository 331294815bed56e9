//! Errors of model calls.

use crate::budget::BudgetExceeded;
use crate::completion::{Completion, TIMEOUT};

/// Why a request returned no completion. Messages contain neither prompts nor keys.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// - `retry_after_ms`: when all models wait because their servers asked to, until the first one may be called.
    #[error("no model is available: {reason}")]
    NoModel { reason: String, retry_after_ms: Option<u64> },
    #[error("calling model `{model}` exceeds the budget: {exceeded}")]
    OverBudget { model: String, exceeded: BudgetExceeded },
    #[error("the model call was cancelled")]
    Cancelled,
    #[error("no completion within {limit_ms} ms")]
    OutOfTime { limit_ms: u64 },
    #[error("model `{model}`: {wait} within {limit_ms} ms")]
    Timeout { model: String, wait: WaitPhase, limit_ms: u64 },
    #[error("model `{model}` is unreachable: {reason}")]
    Unreachable { model: String, reason: String },
    #[error("model `{model}` is rate limited: {reason}")]
    RateLimited { model: String, reason: String, retry_after_ms: Option<u64> },
    /// 4xx: the same request will be rejected again.
    #[error("model `{model}` rejected the request ({status}): {reason}")]
    Refused { model: String, status: u16, reason: String },
    /// The model does not want to answer, or the filter of its provider does not let it; no other model is asked.
    #[error("model `{model}` declined: {reason}")]
    Declined { model: String, reason: String },
    /// 5xx.
    #[error("model `{model}` failed ({status}): {reason}")]
    Failed { model: String, status: u16, reason: String },
    /// 200 with a body that is no completion; `raw` has its first 4,096 characters.
    #[error("model `{model}` sent an invalid response: {reason}")]
    BadResponse { model: String, reason: String, raw: String },
    /// The response ended early; `partial` has the part that was received.
    #[error("the response of model `{model}` was interrupted: {reason}")]
    Interrupted { model: String, reason: String, partial: Box<Completion> },
    #[error("the response of model `{model}` exceeds {limit} bytes")]
    TooLarge { model: String, limit: usize },
    /// The circuit is open; nothing was sent.
    #[error("circuit open for model `{model}`, retry in {for_ms} ms: {reason}")]
    CircuitOpen { model: String, for_ms: u64, reason: String },
}

/// The phase of a call that timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPhase {
    Slot,
    Connection,
    FirstByte,
    NextByte,
    End,
}

impl std::fmt::Display for WaitPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Slot => "no free call slot",
            Self::Connection => "no connection",
            Self::FirstByte => "no first byte",
            Self::NextByte => "no further data",
            Self::End => "no end of the response",
        })
    }
}

impl ModelError {
    /// Stable code for logs, provenance and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoModel { .. } => "LLM_NONE",
            Self::OverBudget { .. } => "LLM_OVER_BUDGET",
            Self::Cancelled => "LLM_CANCELLED",
            Self::OutOfTime { .. } | Self::Timeout { .. } => TIMEOUT,
            Self::Unreachable { .. } => "LLM_UNREACHABLE",
            Self::RateLimited { .. } => "LLM_RATE_LIMITED",
            Self::Refused { .. } => "LLM_REFUSED",
            Self::Declined { .. } => "LLM_DECLINED",
            Self::Failed { .. } => "LLM_FAILED",
            Self::BadResponse { .. } => "LLM_BAD_RESPONSE",
            Self::Interrupted { .. } => "LLM_BROKEN_OFF",
            Self::TooLarge { .. } => "LLM_TOO_LARGE",
            Self::CircuitOpen { .. } => "LLM_RESTING",
        }
    }

    /// Whether the same call to the same model may succeed soon.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout { .. }
            | Self::Unreachable { .. }
            | Self::RateLimited { .. }
            | Self::Failed { .. }
            | Self::BadResponse { .. }
            | Self::Interrupted { .. } => true,
            Self::NoModel { .. }
            | Self::OverBudget { .. }
            | Self::Cancelled
            | Self::OutOfTime { .. }
            | Self::Refused { .. }
            | Self::Declined { .. }
            | Self::TooLarge { .. }
            | Self::CircuitOpen { .. } => false,
        }
    }

    /// Whether another model may succeed.
    pub fn is_model_specific(&self) -> bool {
        match self {
            Self::NoModel { .. } | Self::Cancelled | Self::OutOfTime { .. } | Self::Declined { .. } => false,
            Self::OverBudget { .. }
            | Self::Timeout { .. }
            | Self::Unreachable { .. }
            | Self::RateLimited { .. }
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::BadResponse { .. }
            | Self::Interrupted { .. }
            | Self::TooLarge { .. }
            | Self::CircuitOpen { .. } => true,
        }
    }

    /// The part of the completion that was received before an interruption.
    pub fn partial(&self) -> Option<&Completion> {
        match self {
            Self::Interrupted { partial, .. } => Some(partial),
            Self::NoModel { .. }
            | Self::OverBudget { .. }
            | Self::Cancelled
            | Self::OutOfTime { .. }
            | Self::Timeout { .. }
            | Self::Unreachable { .. }
            | Self::RateLimited { .. }
            | Self::Refused { .. }
            | Self::Declined { .. }
            | Self::Failed { .. }
            | Self::BadResponse { .. }
            | Self::TooLarge { .. }
            | Self::CircuitOpen { .. } => None,
        }
    }
}
