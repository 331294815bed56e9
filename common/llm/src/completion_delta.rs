//! The parts of a completion while it is streamed.

use serde_json::{Map, Value};

use crate::completion::{Completion, FinishReason};
use crate::error::ModelError;
use crate::response_mode::ResponseMode;
use crate::usage::ReportedUsage;

/// A part of a streamed completion.
#[derive(Clone, Debug, PartialEq)]
pub enum CompletionDelta {
    /// A call was started. Occurs again for each retry and fallback, but never after content.
    Started {
        model: String,
        mode: ResponseMode,
    },
    Text(String),
    Thinking(String),
    Refusal(String),
    ToolCall(ToolCallFragment),
    /// A field that the server wants back; merged with what was received of it.
    ProviderField(&'static str, Value),
    Usage(ReportedUsage),
    /// Model name that the server reported.
    ServedBy(String),
    Finish(FinishReason),
    /// The server reported an error within the response.
    Error(ServerError),
    /// The last delta: the whole completion or the error.
    Ended(Box<Result<Completion, ModelError>>),
}

impl CompletionDelta {
    /// The content that this delta adds: text, or arguments of a tool call.
    pub fn content(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::ToolCall(fragment) => &fragment.arguments,
            Self::Started { .. }
            | Self::Thinking(_)
            | Self::Refusal(_)
            | Self::ProviderField(..)
            | Self::Usage(_)
            | Self::ServedBy(_)
            | Self::Finish(_)
            | Self::Error(_)
            | Self::Ended(_) => "",
        }
    }

    /// Whether it is a part of the completion, after which no retry is allowed.
    pub fn is_content(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Thinking(_) | Self::Refusal(_) | Self::ToolCall(_))
    }
}

/// A part of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCallFragment {
    /// The server's index of the call, if it sends one.
    pub index: Option<u64>,
    /// Usually in the first fragment only; otherwise empty.
    pub id: String,
    pub name: String,
    /// Appended to the arguments of earlier fragments.
    pub arguments: String,
    /// What the server wants back with the call.
    pub provider_fields: Map<String, Value>,
}

/// An error as the server reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError {
    /// HTTP status, if the body contains one.
    pub status: Option<u16>,
    /// The server's error code.
    pub code: String,
    pub message: String,
}
