//! Why there is no answer.

use crate::answer::Answer;
use crate::purse::Refused;

/// The code of a call that took too long.
pub const TIMEOUT: &str = "LLM_TIMEOUT";

/// Why a model gave no answer; messages hold no prompt and no key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    #[error("no model can be asked: {reason}")]
    NoModel { reason: String },
    #[error("asking model `{model}` does not fit the budget: {refused}")]
    OverBudget { model: String, refused: Refused },
    #[error("asking was cancelled")]
    Cancelled,
    #[error("no answer within {limit_ms} ms")]
    OutOfTime { limit_ms: u64 },
    #[error("model `{model}`: {wait} within {limit_ms} ms")]
    Timeout { model: String, wait: Wait, limit_ms: u64 },
    #[error("model `{model}` cannot be reached: {reason}")]
    Unreachable { model: String, reason: String },
    #[error("model `{model}` asks to slow down: {reason}")]
    RateLimited { model: String, reason: String, retry_after_ms: Option<u64> },
    /// 4xx: the same request will be refused again.
    #[error("model `{model}` refused the request ({status}): {reason}")]
    Refused { model: String, status: u16, reason: String },
    /// 5xx.
    #[error("model `{model}` failed ({status}): {reason}")]
    Failed { model: String, status: u16, reason: String },
    /// 200 with something that is no answer; the first 4 KiB of it.
    #[error("model `{model}` sent no answer: {reason}")]
    BadResponse { model: String, reason: String, raw: String },
    /// The answer ended in the middle; what came is in `partial`, marked as cut.
    #[error("the answer of model `{model}` broke off: {reason}")]
    BrokenOff { model: String, reason: String, partial: Box<Answer> },
    #[error("the answer of model `{model}` has more than {limit} bytes")]
    TooLarge { model: String, limit: usize },
    /// It failed too often; nothing was sent.
    #[error("model `{model}` is left alone for another {for_ms} ms: {reason}")]
    Resting { model: String, for_ms: u64, reason: String },
}

/// What was waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Slot,
    Connection,
    FirstByte,
    NextByte,
    End,
}

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Slot => "no free slot",
            Self::Connection => "no connection",
            Self::FirstByte => "no first byte",
            Self::NextByte => "nothing more came",
            Self::End => "no end of the answer",
        })
    }
}

impl ModelError {
    /// Stable, for logs, provenance and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoModel { .. } => "LLM_NONE",
            Self::OverBudget { .. } => "LLM_OVER_BUDGET",
            Self::Cancelled => "LLM_CANCELLED",
            Self::OutOfTime { .. } | Self::Timeout { .. } => TIMEOUT,
            Self::Unreachable { .. } => "LLM_UNREACHABLE",
            Self::RateLimited { .. } => "LLM_RATE_LIMITED",
            Self::Refused { .. } => "LLM_REFUSED",
            Self::Failed { .. } => "LLM_FAILED",
            Self::BadResponse { .. } => "LLM_BAD_RESPONSE",
            Self::BrokenOff { .. } => "LLM_BROKEN_OFF",
            Self::TooLarge { .. } => "LLM_TOO_LARGE",
            Self::Resting { .. } => "LLM_RESTING",
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
            | Self::BrokenOff { .. } => true,
            Self::NoModel { .. }
            | Self::OverBudget { .. }
            | Self::Cancelled
            | Self::OutOfTime { .. }
            | Self::Refused { .. }
            | Self::TooLarge { .. }
            | Self::Resting { .. } => false,
        }
    }

    /// Whether another model may do better.
    pub fn is_of_one_model(&self) -> bool {
        match self {
            Self::NoModel { .. } | Self::Cancelled | Self::OutOfTime { .. } => false,
            Self::OverBudget { .. }
            | Self::Timeout { .. }
            | Self::Unreachable { .. }
            | Self::RateLimited { .. }
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::BadResponse { .. }
            | Self::BrokenOff { .. }
            | Self::TooLarge { .. }
            | Self::Resting { .. } => true,
        }
    }

    /// What of the answer came before it broke off.
    pub fn partial(&self) -> Option<&Answer> {
        match self {
            Self::BrokenOff { partial, .. } => Some(partial),
            Self::NoModel { .. }
            | Self::OverBudget { .. }
            | Self::Cancelled
            | Self::OutOfTime { .. }
            | Self::Timeout { .. }
            | Self::Unreachable { .. }
            | Self::RateLimited { .. }
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::BadResponse { .. }
            | Self::TooLarge { .. }
            | Self::Resting { .. } => None,
        }
    }
}
