//! The ways to request a response format.

use serde::{Deserialize, Serialize};

/// How a response format is requested from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseMode {
    /// The server enforces the schema.
    JsonSchema,
    /// The schema is the parameters of a tool that must be called.
    ForcedTool,
    /// The server guarantees a JSON object; the prompt contains the schema.
    JsonObject,
    /// The server's tool calls.
    Tools,
    /// Instructions in the prompt only.
    Text,
}

impl ResponseMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::ForcedTool => "forced_tool",
            Self::JsonObject => "json_object",
            Self::Tools => "tools",
            Self::Text => "text",
        }
    }
}
