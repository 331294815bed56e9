//! The context of a goal for planners: data, never instructions.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Turns of a transcript at most.
pub const TURNS_MAX: usize = 1_000;
/// Documents of a goal at most.
pub const DOCUMENTS_MAX: usize = 100;

/// What a goal brings along: it reaches prompts as data, within a token limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GoalContext {
    /// What was said before, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transcript: Vec<TranscriptTurn>,
    /// What an agent remembers: an object, a list or a text.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub memory: Value,
    /// Texts that the plan may need.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<ContextDocument>,
    /// Values that the plan works with, by name.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
}

/// One turn of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TranscriptTurn {
    /// `user`, `agent`, `tool`, `system`.
    pub role: String,
    /// What was said.
    pub text: String,
}

/// A text with its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContextDocument {
    /// Where it comes from: a title, a path or an address. It is not opened.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The text.
    pub text: String,
}

impl GoalContext {
    /// Whether the goal brings nothing along.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
