//! Steps that wait for a time or an event from outside.

use serde::{Deserialize, Serialize};

use super::is_default;
use crate::json::Json;

/// What a `wait` step waits for: one of `for_ms`, `until` and `event`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StepWait {
    /// How long, from the moment the step could start, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// Until when: RFC 3339, or an expression that gives such a time or Unix milliseconds. A time in the past ends the
    /// wait immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The time zone of a local time that the expression in `until` gives, a name of the IANA database: `Europe/Berlin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tz: Option<String>,
    /// The name of an event from outside; its data are the outputs of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The key that the event has; it may hold expressions. Without it an event without a key is awaited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// JSON Schema of the event's data; other events are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// How long the event is awaited, in milliseconds; until the plan ends without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What happens when no event has come by then.
    #[serde(skip_serializing_if = "is_default")]
    pub on_timeout: OnTimeout,
}

/// What happens when a `wait` step has waited too long for its event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// The step fails with `WAIT_TIMEOUT`; its `on_failure` applies.
    #[default]
    Fail,
    /// The step is skipped and satisfies its dependents.
    Skip,
    /// The step completes with these outputs.
    Default(Json),
}
