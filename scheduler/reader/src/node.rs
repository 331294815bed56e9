//! The syntax tree: spans into the text, without copies.

use std::fmt::{self, Write};

use serde_json::{Map, Number, Value};

use crate::edit::{EditKind, Edits, SHOWN_MAX};
use crate::span::TextSpan;

/// A value as written.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(crate) span: TextSpan,
    /// Whether the text held all of it. The parts of a part that are not whole are never acted on.
    pub(crate) whole: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum NodeKind {
    Null,
    Bool(bool),
    Number(Number),
    Text(Text),
    List(Vec<Node>),
    Map(Vec<(Text, Node)>),
    Call(Box<CallNode>),
}

/// `name(positional, …, key=value, …)`.
#[derive(Clone, Debug)]
pub(crate) struct CallNode {
    pub(crate) name: Text,
    pub(crate) positional: Vec<Node>,
    pub(crate) named: Vec<(Text, Node)>,
}

/// Text of a string: a stretch of the source when nothing in it was escaped.
#[derive(Clone, Debug)]
pub(crate) enum Text {
    Slice(TextSpan),
    Own(String),
    /// Without quotes: text only for want of a better reading.
    Word(TextSpan),
}

impl Text {
    pub(crate) fn slice<'a>(&'a self, source: &'a str) -> &'a str {
        match self {
            Self::Slice(span) | Self::Word(span) => span.slice(source),
            Self::Own(text) => text,
        }
    }
}

impl Node {
    pub(crate) fn new(kind: NodeKind, start: usize, end: usize) -> Self {
        Self { kind, span: TextSpan::new(start, end), whole: true }
    }

    pub(crate) fn text<'a>(&'a self, source: &'a str) -> Option<&'a str> {
        match &self.kind {
            NodeKind::Text(text) => Some(text.slice(source)),
            NodeKind::Null
            | NodeKind::Bool(_)
            | NodeKind::Number(_)
            | NodeKind::List(_)
            | NodeKind::Map(_)
            | NodeKind::Call(_) => None,
        }
    }

    pub(crate) fn list(&self) -> Option<&[Self]> {
        match &self.kind {
            NodeKind::List(items) => Some(items),
            NodeKind::Null
            | NodeKind::Bool(_)
            | NodeKind::Number(_)
            | NodeKind::Text(_)
            | NodeKind::Map(_)
            | NodeKind::Call(_) => None,
        }
    }

    pub(crate) fn map(&self) -> Option<&[(Text, Self)]> {
        match &self.kind {
            NodeKind::Map(pairs) => Some(pairs),
            NodeKind::Null
            | NodeKind::Bool(_)
            | NodeKind::Number(_)
            | NodeKind::Text(_)
            | NodeKind::List(_)
            | NodeKind::Call(_) => None,
        }
    }

    pub(crate) fn call(&self) -> Option<&CallNode> {
        match &self.kind {
            NodeKind::Call(call) => Some(call),
            NodeKind::Null
            | NodeKind::Bool(_)
            | NodeKind::Number(_)
            | NodeKind::Text(_)
            | NodeKind::List(_)
            | NodeKind::Map(_) => None,
        }
    }

    pub(crate) fn is_container(&self) -> bool {
        matches!(self.kind, NodeKind::List(_) | NodeKind::Map(_) | NodeKind::Call(_))
    }

    /// The value of this key; of a key that stands twice, the last.
    pub(crate) fn get<'a>(&'a self, key: &str, source: &str) -> Option<&'a Self> {
        self.map()?.iter().rev().find(|(k, _)| k.slice(source) == key).map(|(_, v)| v)
    }

    /// The complete part as a JSON value. A tree is never deeper than [`crate::ReaderLimits::depth_max`], so this recursion
    /// is bounded.
    pub(crate) fn value(&self, source: &str, edits: &mut Edits) -> Value {
        match &self.kind {
            NodeKind::Null => Value::Null,
            NodeKind::Bool(b) => Value::Bool(*b),
            NodeKind::Number(n) => Value::Number(n.clone()),
            NodeKind::Text(text) => Value::String(text.slice(source).to_owned()),
            NodeKind::List(items) => {
                Value::Array(items.iter().filter(|i| i.is_kept()).map(|i| i.value(source, edits)).collect())
            }
            NodeKind::Map(pairs) => Value::Object(table(pairs, source, edits)),
            NodeKind::Call(call) => {
                let mut map = Map::new();
                map.insert("name".to_owned(), Value::String(call.name.slice(source).to_owned()));
                if !call.positional.is_empty() {
                    let values = call.positional.iter().filter(|i| i.is_kept()).map(|i| i.value(source, edits));
                    map.insert("positional".to_owned(), Value::Array(values.collect()));
                }
                map.insert("arguments".to_owned(), Value::Object(table(&call.named, source, edits)));
                Value::Object(map)
            }
        }
    }

    /// Whether this, as a part of something cut, is shown: whole values, and lists and tables on the way to them.
    fn is_kept(&self) -> bool {
        self.whole
            || match &self.kind {
                NodeKind::List(items) => !items.is_empty(),
                NodeKind::Map(pairs) => pairs.last().is_some_and(|(_, v)| !v.whole && v.is_kept()),
                NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) | NodeKind::Call(_) => {
                    false
                }
            }
    }
}

/// Named values as a JSON object.
pub(crate) fn table(pairs: &[(Text, Node)], source: &str, edits: &mut Edits) -> Map<String, Value> {
    let mut map = Map::with_capacity(pairs.len());
    for (key, node) in pairs.iter().filter(|(_, v)| v.is_kept()) {
        let key = key.slice(source);
        let value = node.value(source, edits);
        if let Some(former) = map.insert(key.to_owned(), value) {
            edits.guessed(EditKind::DuplicateDropped, node.span, &beginning(key, &former), "");
        }
    }
    map
}

/// A key and its value, as much of them as an edit shows: values in values would be written out again and again.
fn beginning(key: &str, value: &Value) -> String {
    let mut text = TextPrefix(String::new());
    // An error says that there is enough.
    if write!(text, "`{key}`: {value}").is_err() {
        text.0.push('…');
    }
    text.0
}

struct TextPrefix(String);

impl Write for TextPrefix {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        if self.0.len() > SHOWN_MAX { Err(fmt::Error) } else { Ok(()) }
    }
}
