//! What a model answers: whole, or piece by piece.

use serde::{Deserialize, Serialize};

use crate::error::{ModelError, TIMEOUT};
use crate::ladder::Rung;
use crate::message::ToolCall;
use crate::usage::{SaidUsage, Usage, Usd};

/// A whole answer. Its written form has neither the thoughts nor the raw bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What was written besides tool calls, thoughts and refusals.
    pub text: String,
    pub tool_calls: Vec<ToolCall>,
    /// What a reasoning model thought aloud.
    #[serde(skip)]
    pub thinking: String,
    /// Why the model declined, if it did so by the book.
    pub refusal: String,
    pub finish: Finish,
    pub usage: Usage,
    /// By the price table.
    pub cost: Usd,
    /// The name in the settings.
    pub model: String,
    /// The model that the server says it used, in the server's words.
    pub served_by: String,
    /// How the form of the answer was asked for.
    pub rung: Rung,
    #[serde(skip)]
    pub raw: Raw,
    /// From the first request to the last byte, retries and other models included, in milliseconds.
    pub latency_ms: u64,
    /// Every call that was made for it, the last one included.
    pub tries: Vec<Try>,
}

impl Answer {
    /// What was asked for, wherever the model put it: the arguments of the tool that stands in for a schema, else the text.
    pub fn written(&self) -> &str {
        match (self.rung, self.tool_calls.first()) {
            (Rung::ForcedTool, Some(call)) => &call.arguments,
            (Rung::ForcedTool, None) | (Rung::JsonSchema | Rung::Tools | Rung::JsonObject | Rung::Text, _) => {
                &self.text
            }
        }
    }

    /// Whether the model had to stop before it was done. A cut answer is never made whole.
    pub fn is_truncated(&self) -> bool {
        matches!(self.finish, Finish::Length | Finish::BrokenOff)
    }

    /// Models that were asked before this one answered, and ran out of time.
    pub fn too_slow(&self) -> impl Iterator<Item = &str> {
        let is_late = |made: &&Try| made.error.as_deref() == Some(TIMEOUT) && made.model != self.model;
        self.tries.iter().filter(is_late).map(|made| made.model.as_str())
    }
}

/// Why the model stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    Stop,
    /// The limit of tokens: the answer is cut.
    Length,
    ToolCalls,
    ContentFilter,
    /// A reason that is not known here, in the server's words.
    Other(String),
    /// The server did not end the answer: it is cut.
    BrokenOff,
    /// The server ended the answer properly and gave no reason.
    #[default]
    Unsaid,
}

impl Finish {
    /// Reads a server's word; an empty one is no reason.
    pub fn read(word: &str) -> Option<Self> {
        let known = match word.trim().to_ascii_lowercase().as_str() {
            "" => return None,
            "stop" | "eos" | "eos_token" | "end_turn" | "stop_sequence" | "end" | "complete" | "completed" => {
                Self::Stop
            }
            "length" | "max_tokens" | "max_output_tokens" | "model_length" | "model_context_window_exceeded" => {
                Self::Length
            }
            "tool_calls" | "tool_use" | "function_call" | "tool_call" => Self::ToolCalls,
            "content_filter" | "refusal" | "safety" => Self::ContentFilter,
            _ => Self::Other(word.trim().into()),
        };
        Some(known)
    }
}

/// The bytes of an answer as they came, up to a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raw {
    pub bytes: Vec<u8>,
    /// How many there were.
    pub total: u64,
}

/// Bytes that are kept of one answer.
pub const RAW_BYTES_MAX: usize = 256 << 10;

impl Raw {
    /// Keeps what has room.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = RAW_BYTES_MAX.saturating_sub(self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..room]);
        self.total = self.total.saturating_add(bytes.len() as u64);
    }

    /// As text; what is not UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// One call to one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Try {
    pub model: String,
    pub rung: Rung,
    /// `None`, or the code of what went wrong.
    pub error: Option<String>,
    pub latency_ms: u64,
    pub usage: Usage,
    pub cost: Usd,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// A model begins to answer. Comes again when another call takes over; only before anything was written.
    Begun {
        model: String,
        rung: Rung,
    },
    Text(String),
    Thinking(String),
    Refusal(String),
    Call(CallFragment),
    Usage(SaidUsage),
    /// What the server calls its model.
    ServedBy(String),
    Finish(Finish),
    /// The server said that something went wrong, in the middle of its answer.
    Error(ServerError),
    /// The last piece: everything, or why there is no more.
    Ended(Box<Result<Answer, ModelError>>),
}

impl Delta {
    /// The part of the wanted text that this piece adds: text, or arguments of a call.
    pub fn written(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Call(fragment) => &fragment.arguments,
            Self::Begun { .. }
            | Self::Thinking(_)
            | Self::Refusal(_)
            | Self::Usage(_)
            | Self::ServedBy(_)
            | Self::Finish(_)
            | Self::Error(_)
            | Self::Ended(_) => "",
        }
    }

    /// Whether it is a part of the answer itself, after which no other call may take over.
    pub fn is_content(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Thinking(_) | Self::Refusal(_) | Self::Call(_))
    }
}

/// A part of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFragment {
    /// Which call, in the server's counting; `None` when it does not say.
    pub index: Option<u64>,
    /// Often in the first fragment only; empty when not there.
    pub id: String,
    pub name: String,
    /// To be appended to what came before.
    pub arguments: String,
}

/// What a server says about its own failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError {
    /// HTTP status, when the message holds one.
    pub status: Option<u16>,
    /// The server's word for it.
    pub code: String,
    pub message: String,
}
