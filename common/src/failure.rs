//! Failures of attempts, and their classes.

use serde::{Deserialize, Serialize};

/// Code of a lost attempt that no worker had: its task was on no stream.
pub const TASK_MISSING: &str = "TASK_MISSING";

/// Code of a step whose agents asked to wait for longer than a step may wait.
pub const WAIT_EXCEEDED: &str = "WAIT_EXCEEDED";

/// The kind of a failure: it decides whether another attempt makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// May pass: connection refused, 5xx.
    Transient,
    /// Will fail again: bad input, not found, refused by policy.
    Permanent,
    /// Took longer than its limit.
    Timeout,
    /// The other side asked to wait: no retry is used.
    RateLimited,
    /// The result breaks a constraint of the goal or the step.
    ConstraintViolation,
    /// The worker vanished; counted apart from the retries.
    Lost,
}

impl FailureClass {
    /// The word used in messages and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Timeout => "timeout",
            Self::RateLimited => "rate_limited",
            Self::ConstraintViolation => "constraint_violation",
            Self::Lost => "lost",
        }
    }

    /// Whether the same attempt may succeed later.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::Transient | Self::Timeout | Self::RateLimited | Self::Lost => true,
            Self::Permanent | Self::ConstraintViolation => false,
        }
    }
}

/// The failure of one attempt, as a worker or the scheduler reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Failure {
    /// Whether it is worth trying again.
    pub class: FailureClass,
    /// Stable, upper case: `HTTP_503`, `STEP_TIMEOUT`, `REF_UNRESOLVED`.
    pub code: String,
    /// For people; no secrets, no payloads.
    pub message: String,
    /// Wait at least this long before the next attempt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Further errors of the same attempt, at most 20; they have none of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Failure>,
}

/// Errors, and suggested adjustments, that are kept of one report, at most each.
pub const ERRORS_MAX: usize = 20;

impl Failure {
    /// A failure without a time for the next attempt.
    pub fn new(class: FailureClass, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { class, code: code.into(), message: message.into(), retry_after_ms: None, errors: Vec::new() }
    }
}
