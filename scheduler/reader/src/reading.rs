//! What a reading says.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::edit::Edit;
use crate::span::Span;

/// How sure a reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The text is strict JSON and nothing else.
    Exact,
    /// The value is all there; the edits say what else the text held, or how it was spelled.
    Repaired,
    /// The text ends inside the value, at this byte. Only what was complete before it was read.
    Truncated { at: usize },
    /// There is nothing to act on.
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

/// How a text ended, as the model's server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextEnd {
    /// The model had no more to say.
    Stopped,
    /// The answer was cut: a limit of length, or a lost connection.
    Cut,
}

/// A value, and where it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    pub value: Value,
    pub span: Span,
}

/// What was read from a text as a value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    pub verdict: Verdict,
    /// The whole value; of a truncated one, what is complete.
    pub value: Option<Value>,
    pub span: Span,
    /// The steps, or the elements, of the value: each complete, in order.
    pub items: Vec<Item>,
    /// Every difference between the text and the value, in the order of the text.
    pub edits: Vec<Edit>,
    /// What else the text could have meant, best first.
    pub others: Vec<Other>,
}

/// A reading that was not chosen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Other {
    pub span: Span,
    pub score: i64,
    pub items: usize,
    pub guesses: usize,
}

/// A call that a model wrote.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// As the catalogue spells it; as written when it is not of the catalogue.
    pub name: String,
    pub arguments: Map<String, Value>,
    pub span: Span,
    /// Whether the catalogue has it. Always true for an empty catalogue.
    pub known: bool,
}

/// What was read from a text as calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallReading {
    pub verdict: Verdict,
    /// The calls, each complete, in the order of the text. A cut call is not among them.
    pub calls: Vec<Call>,
    pub edits: Vec<Edit>,
    pub others: Vec<Other>,
}
