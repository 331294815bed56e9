//! Failures of attempts, and their classes.

use serde::{Deserialize, Deserializer, Serialize};

/// Code of a lost attempt that no worker had: its task was on no stream.
pub const TASK_MISSING: &str = "TASK_MISSING";

/// Code of a step whose agents asked to wait for longer than a step may wait.
pub const WAIT_EXCEEDED: &str = "WAIT_EXCEEDED";

/// Codes of attempts whose agent answered, and whose answer was refused.
const REFUSED_ANSWERS: [&str; 3] = ["ANSWER_EMPTY", "ANSWER_INVALID", "OUTPUT_TOO_LARGE"];

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

/// What is known of the work of a failed attempt; who makes the failure says it. It decides whether another agent may try,
/// and whether the step is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureEffect {
    /// Nothing was done: nothing was sent, or the agent refused.
    None,
    /// It may be done or not.
    Unknown,
}

/// Reads an effect; `true` is how `outcome_unknown` said `unknown`.
pub fn read_effect<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<FailureEffect>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Flag(bool),
        Effect(FailureEffect),
    }
    Ok(match Option::<Given>::deserialize(deserializer)? {
        Some(Given::Flag(true)) => Some(FailureEffect::Unknown),
        Some(Given::Flag(false)) | None => None,
        Some(Given::Effect(effect)) => Some(effect),
    })
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
    /// What is known of the work of the attempt. Without it timeouts, losses and refused answers mean `unknown`, and any
    /// other failure `none`.
    #[serde(
        default,
        alias = "outcome_unknown",
        deserialize_with = "read_effect",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<FailureEffect>")]
    pub effect: Option<FailureEffect>,
}

/// Errors, and suggested adjustments, that are kept of one report, at most each.
pub const ERRORS_MAX: usize = 20;

impl Failure {
    /// A failure without a time for the next attempt.
    pub fn new(class: FailureClass, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            class,
            code: code.into(),
            message: message.into(),
            retry_after_ms: None,
            errors: Vec::new(),
            effect: None,
        }
    }

    /// The failure of an attempt that may have done its work.
    #[must_use]
    pub fn with_unknown_outcome(self) -> Self {
        Self { effect: Some(FailureEffect::Unknown), ..self }
    }

    /// The failure of an attempt that has done nothing.
    #[must_use]
    pub fn without_effect(self) -> Self {
        Self { effect: Some(FailureEffect::None), ..self }
    }

    /// Whether the attempt may have done its work.
    pub fn may_be_done(&self) -> bool {
        match self.effect {
            Some(effect) => effect == FailureEffect::Unknown,
            None => {
                matches!(self.class, FailureClass::Timeout | FailureClass::Lost)
                    || REFUSED_ANSWERS.contains(&self.code.as_str())
            }
        }
    }
}
