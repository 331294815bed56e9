//! Messages of a conversation with a model, and the tool calls in them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    },
    /// What a tool gave; `call_id` and `name` are those of the call.
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
        Self::Assistant { text: text.into(), tool_calls: Vec::new() }
    }

    /// What the message says, without tool calls.
    pub fn text(&self) -> &str {
        match self {
            Self::System { text } | Self::User { text } | Self::Assistant { text, .. } | Self::Tool { text, .. } => {
                text
            }
        }
    }
}

/// A call of a tool, as the model wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The server's; made from the place in the answer when the server gave none.
    pub id: String,
    pub name: String,
    /// Unread, as it was written; may be empty when the tool takes nothing.
    pub arguments: String,
}

impl ToolCall {
    /// The arguments as JSON; nothing written is no arguments.
    pub fn input(&self) -> Result<Value, serde_json::Error> {
        match self.arguments.trim() {
            "" => Ok(Value::Object(serde_json::Map::new())),
            text => serde_json::from_str(text),
        }
    }
}
