//! Questions to a person.

use serde::{Deserialize, Serialize};

use crate::json::Json;

/// Asks a person something, with an answer of a known shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// What is asked; in a step it may hold expressions.
    pub question: String,
    /// JSON Schema of the answer; anything goes without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// What counts as the answer when no person gives one; without it the step, or the revision, fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
    /// How long a person has, in milliseconds.
    #[serde(default = "day_ms")]
    pub limit_ms: u64,
    /// The input of the step that the answer becomes; without it the answer is the step's outputs and nothing else
    /// is done. With `*` each field of the answer becomes the input of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
}

/// [`Question::into`] of an answer whose fields are inputs of the step.
pub const INTO_EACH: &str = "*";

impl Question {
    /// Whether the answer gives this input of the step.
    pub fn gives(&self, input: &str) -> bool {
        match self.into.as_deref() {
            Some(INTO_EACH) => {
                let schema = self.schema.as_ref().map(Json::value);
                schema
                    .is_some_and(|schema| schema.pointer("/properties").is_some_and(|given| given.get(input).is_some()))
            }
            into => into == Some(input),
        }
    }
}

fn day_ms() -> u64 {
    24 * 3_600_000
}
