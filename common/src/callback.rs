//! Callbacks: an agent accepts a task now, and reports its outcome later over HTTP.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::call::inputs_digest;
use crate::failure::{Failure, FailureClass};
use crate::id::AttemptToken;
use crate::json::Json;

/// The outputs of an agent that has accepted a task with a callback: `{"accepted": true}`.
pub const ACCEPTED: &str = "accepted";

/// Where the outcome of an accepted task goes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TaskCallback {
    /// The outcome is posted here, as JSON.
    pub url: String,
    /// Valid for this attempt. Sent back in the header `goalmill-callback-token`, or in the body as `token`.
    pub token: AttemptToken,
}

impl fmt::Debug for TaskCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskCallback").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The outcome of an accepted task: `outputs` or `error`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CallbackReport {
    /// Any JSON but `null`: the step's outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Json>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<CallbackError>,
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Tokens of language models that the task used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// A failure as an agent reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CallbackError {
    /// Whether it is worth trying again; `permanent` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// Upper case; `CALLBACK_FAILED` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Wait at least this long before the next attempt, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl CallbackError {
    /// The failure, with defaults for what is missing.
    pub fn into_failure(self) -> Failure {
        let Self { class, code, message, retry_after_ms } = self;
        let class = class.unwrap_or(FailureClass::Permanent);
        let code = code.unwrap_or_else(|| "CALLBACK_FAILED".into());
        let message = message.unwrap_or_else(|| "the agent gave no reason".into());
        Failure { retry_after_ms, ..Failure::new(class, code, message) }
    }
}

impl CallbackReport {
    /// Tells a repeated report from another one.
    pub fn digest(&self) -> String {
        inputs_digest(&serde_json::to_string(self).unwrap_or_default())
    }
}

/// Whether outputs say that the task is accepted and its outcome comes later.
pub fn is_accepted(outputs: &Json) -> bool {
    outputs.text().len() < 64 && outputs.value() == serde_json::json!({ ACCEPTED: true })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_exact_word_accepts() {
        assert!(is_accepted(&json!({"accepted": true}).into()));
        for other in [json!({"accepted": false}), json!({"accepted": true, "x": 1}), json!("accepted"), json!(true)] {
            assert!(!is_accepted(&other.into()));
        }
    }

    #[test]
    fn a_token_is_not_in_the_debug_text() {
        let callback = TaskCallback { url: "http://x".into(), token: "secret".into() };
        assert!(!format!("{callback:?}").contains("secret"));
    }
}
