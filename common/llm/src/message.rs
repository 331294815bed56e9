//! Messages of a conversation with a model, and the tool calls in them.
//!
//! Some fields of an answer are wanted back by its server when the conversation continues after tool calls. Reasoning
//! models sign what they thought, and refuse the next turn without it: `thought_signature` of Gemini,
//! `reasoning_content` of DeepSeek, `reasoning_details` of OpenRouter, thinking blocks of Anthropic, reasoning items of
//! OpenAI. These are kept as received, and go back to the model that sent them only.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

/// The kept fields of one answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProviderFields {
    /// Name in the settings of the model that sent them, or fields of the tool calls; empty when there are none.
    pub model: String,
    /// Those of the message; the tool calls have their own.
    pub fields: Map<String, Value>,
}

impl ProviderFields {
    pub(crate) fn new(model: &str, fields: Map<String, Value>, tool_calls: &[ToolCall]) -> Self {
        let has_any = !fields.is_empty() || tool_calls.iter().any(|call| !call.provider_fields.is_empty());
        if has_any { Self { model: model.to_owned(), fields } } else { Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.model.is_empty()
    }

    /// The fields, if this model sent them.
    pub(crate) fn for_model(&self, model: &str) -> Option<&Map<String, Value>> {
        (self.model == model).then_some(&self.fields)
    }
}

/// Texts that arrive in pieces; all other texts replace what was received before.
const GROWING: [&str; 6] = ["reasoning_content", "text", "summary", "thinking", "signature", "data"];

/// Merges a piece of a streamed field: growing texts are joined, objects are merged, and items of lists by their
/// `index`.
pub(crate) fn merge_field(fields: &mut Map<String, Value>, name: &str, piece: &Value) {
    match (fields.get_mut(name), piece) {
        (_, Value::Null) => {}
        (Some(Value::String(text)), Value::String(more)) if GROWING.contains(&name) => text.push_str(more),
        (Some(Value::Object(known)), Value::Object(more)) => {
            for (inner, value) in more {
                merge_field(known, inner, value);
            }
        }
        (Some(Value::Array(items)), Value::Array(more)) => more.iter().for_each(|item| merge_item(items, item)),
        _ => drop(fields.insert(name.to_owned(), piece.clone())),
    }
}

fn merge_item(items: &mut Vec<Value>, item: &Value) {
    let index = item.get("index").filter(|index| index.is_number());
    let known = items.iter_mut().find(|known| index.is_some() && known.get("index") == index);
    match (known.and_then(Value::as_object_mut), item) {
        (Some(known), Value::Object(more)) => {
            for (name, value) in more {
                merge_field(known, name, value);
            }
        }
        _ => items.push(item.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_of_a_stream_become_the_fields_as_they_were_sent_whole() {
        let mut fields = Map::new();
        for piece in ["I ", "think"] {
            merge_field(&mut fields, "reasoning_content", &json!(piece));
        }
        for piece in [
            json!([{"index": 0, "type": "reasoning.text", "text": "a", "format": "x"}]),
            json!([{"index": 0, "type": "reasoning.text", "text": "b", "format": "x", "signature": null}]),
            json!([{"index": 1, "type": "reasoning.encrypted", "data": "d1"}]),
            json!([{"index": 0, "signature": "s"}]),
        ] {
            merge_field(&mut fields, "reasoning_details", &piece);
        }
        let whole = json!({
            "reasoning_content": "I think",
            "reasoning_details": [
                {"index": 0, "type": "reasoning.text", "text": "ab", "format": "x", "signature": "s"},
                {"index": 1, "type": "reasoning.encrypted", "data": "d1"},
            ],
        });
        assert_eq!(Value::Object(fields), whole);
    }
}
