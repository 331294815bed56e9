//! What a model is asked.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::message::Message;
use crate::purse::Purse;

/// One question to a model.
#[derive(Clone, Debug)]
pub struct Ask {
    pub messages: Vec<Message>,
    pub want: Want,
    pub stage: Stage,
    pub purpose: Purpose,
    /// Only this model, by the name in the settings.
    pub model: Option<String>,
    /// This model before all others, by the name in the settings.
    pub first: Option<String>,
    /// Not these models: those that failed before, say.
    pub without: BTreeSet<String>,
    /// The server's own when not given.
    pub temperature: Option<f64>,
    /// Tokens of the answer; the model's setting when not given.
    pub output_tokens_max: Option<u64>,
    /// Lets the server write piece by piece, so that a silent one is noticed soon. [`crate::Models::stream`] always does.
    pub stream: bool,
    /// Milliseconds for everything, other models included; every call has its model's limit besides.
    pub timeout_ms: Option<u64>,
    /// When whoever asks stops waiting. Ends nothing by itself: models share the time until then.
    pub until: Option<Instant>,
    /// Pays for it.
    pub purse: Purse,
    /// Ends it at once.
    pub cancel: CancellationToken,
}

impl Ask {
    /// A question of the first stage, not streamed, paid from a purse without limit.
    pub fn new(messages: Vec<Message>, want: Want) -> Self {
        Self {
            messages,
            want,
            stage: Stage::Cheap,
            purpose: Purpose::Plan,
            model: None,
            first: None,
            without: BTreeSet::new(),
            temperature: None,
            output_tokens_max: None,
            stream: false,
            timeout_ms: None,
            until: None,
            purse: Purse::unlimited(),
            cancel: CancellationToken::new(),
        }
    }
}

/// The form of the answer that is wanted. Either tools or a schema, never both: a schema keeps models from calling tools.
#[derive(Clone, Debug, PartialEq)]
pub enum Want {
    Text,
    /// One JSON value. The caller reads and validates it: servers take schemas and ignore them.
    Json {
        /// Letters, digits, `_` and `-`: the name of the schema, and of the tool that stands in for it.
        name: String,
        /// JSON Schema of an object.
        schema: Value,
    },
    /// Calls of tools. From a server that takes none the calls come as text, between `<tool_call>` tags; the answer's
    /// rung is [`crate::Rung::Text`] then.
    Tools {
        tools: Vec<Tool>,
        choice: ToolChoice,
    },
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
}

/// Whether a tool must be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model may answer with text.
    #[default]
    Auto,
    /// This tool, by name: `required` is refused by servers that take a name.
    Named(String),
}

/// Which models are asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Those tagged `cheap`, the cheapest for a usable answer first.
    Cheap,
    /// Those tagged `strong`, the most reliable first.
    Strong,
}

impl Stage {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cheap => "cheap",
            Self::Strong => "strong",
        }
    }
}

/// What the answer is for; a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    Plan,
    Repair,
    Replan,
    Review,
    Embed,
    Step,
}

impl Purpose {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Repair => "repair",
            Self::Replan => "replan",
            Self::Review => "review",
            Self::Embed => "embed",
            Self::Step => "step",
        }
    }
}
