//! Results of parsing.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::edit::Edit;
use crate::span::TextSpan;

/// Quality of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The text is strict JSON and nothing else.
    Exact,
    /// The value is complete; the edits list the differences to the text.
    Repaired,
    /// The text ends inside the value, at this byte. The result has only complete parts.
    Truncated { at: usize },
    /// There is no result.
    Unreadable { reason: UnreadableReason },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum UnreadableReason {
    #[error("the text is empty")]
    Empty,
    #[error("the text is longer than `bytes_max`")]
    TooLong,
    #[error("the text is nested deeper than `depth_max`")]
    TooDeep,
    #[error("the text needs more guesses than `guesses_max`")]
    TooBroken,
    #[error("the text takes more work than its length allows")]
    TooCostly,
    #[error("no value was found in the text")]
    NothingFound,
}

/// How the server ended the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextEnd {
    /// The model finished.
    Stopped,
    /// The text was truncated by a token limit or a lost connection.
    Cut,
}

/// A value and its position.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    pub value: Value,
    pub span: TextSpan,
}

/// The result of parsing a text as a value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    pub verdict: Verdict,
    /// The value; if truncated, its complete parts.
    pub value: Option<Value>,
    pub span: TextSpan,
    /// The steps, or the elements, of the value: each complete, in order.
    pub items: Vec<Item>,
    /// Every difference between the text and the value, in the order of the text.
    pub edits: Vec<Edit>,
    /// Other interpretations, best first.
    pub others: Vec<Other>,
}

/// An interpretation that was not selected.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Other {
    pub span: TextSpan,
    pub score: i64,
    pub items: usize,
    pub guesses: usize,
}

/// A call that a model wrote.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParsedCall {
    /// The catalogue's spelling; as written if the name is unknown.
    pub name: String,
    pub arguments: Map<String, Value>,
    pub span: TextSpan,
    /// Whether the catalogue contains the name. Always true for an empty catalogue.
    pub known: bool,
    /// Whether the span holds nothing but the call: no string around it, no other field beside its name and arguments.
    #[serde(skip)]
    pub is_alone: bool,
}

/// The result of parsing a text as calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallReading {
    pub verdict: Verdict,
    /// The complete calls, in the order of the text. Truncated calls are omitted.
    pub calls: Vec<ParsedCall>,
    pub edits: Vec<Edit>,
    pub others: Vec<Other>,
}
