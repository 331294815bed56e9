//! Messages of a conversation with a model, and the tool calls in them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::provider_fields::ProviderFields;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    System {
        text: String,
    },
    User {
        text: String,
    },
    Assistant {
        text: String,
        tool_calls: Vec<ToolCall>,
        /// What the server wants back with these calls.
        #[serde(default, skip_serializing_if = "ProviderFields::is_empty")]
        provider_fields: ProviderFields,
    },
    /// The result of a tool; `call_id` and `name` are those of its call.
    Tool {
        call_id: String,
        name: String,
        text: String,
    },
}

impl Message {
    pub fn system(text: impl Into<String>) -> Self {
        Self::System { text: text.into() }
    }

    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }

    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { text: text.into(), tool_calls: Vec::new(), provider_fields: ProviderFields::default() }
    }

    /// The text without tool calls.
    pub fn text(&self) -> &str {
        match self {
            Self::System { text } | Self::User { text } | Self::Assistant { text, .. } | Self::Tool { text, .. } => {
                text
            }
        }
    }
}

/// A tool call as the model wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The server's id, or one derived from the position in the completion.
    pub id: String,
    pub name: String,
    /// Unparsed JSON; may be empty when the tool has no parameters.
    pub arguments: String,
    /// What the server wants back with the call.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub provider_fields: Map<String, Value>,
}

impl ToolCall {
    /// Parses the arguments; an empty text is an empty object.
    pub fn parse_arguments(&self) -> Result<Value, serde_json::Error> {
        match self.arguments.trim() {
            "" => Ok(Value::Object(serde_json::Map::new())),
            text => serde_json::from_str(text),
        }
    }
}
