//! Values on one line of a block: words, numbers, constants, quoted text, and `[…]` and `{…}`.

use crate::block::key;
use crate::edit::{EditKind, Edits};
use crate::escape::{DecodedEscape, EscapeDialect, decode};
use crate::node::{Node, NodeKind, Text};
use crate::number;
use crate::span::TextSpan;

/// A value.
pub(crate) enum Scalar {
    Value(Node),
    /// Words without quotes, which may go on below.
    Plain(TextSpan),
    /// The text ends before the quote or the bracket that closes it.
    Cut,
}

/// The deepest nesting of brackets on a line.
const DEPTH_MAX: usize = 16;

/// Reads what stands at `at`, which ends with its line; `last` says that the text ends there too.
pub(crate) fn parse_scalar(text: &str, at: TextSpan, last: bool, edits: &mut Edits) -> Option<Scalar> {
    let words = at.slice(text);
    match words.as_bytes().first()? {
        b'"' | b'\'' | b'[' | b'{' => {
            let mut line = Flow { text, at: at.start, end: at.end, edits };
            let Some(node) = line.value(0) else {
                // What goes on below is not read; what ends with the text is cut.
                return (last && line.at >= line.end).then_some(Scalar::Cut);
            };
            let behind = text[line.at..at.end].trim_start();
            (behind.is_empty() || behind.starts_with('#')).then_some(Scalar::Value(node))
        }
        b'&' | b'*' | b'!' | b'%' | b'@' | b'`' | b'?' | b'|' | b'>' | b',' | b']' | b'}' => None,
        _ => {
            let words = words.find(" #").map_or(words, |n| words[..n].trim_end());
            let clear = !words.contains(": ") && !words.ends_with(':') && !words.contains('\t');
            clear.then_some(Scalar::Plain(TextSpan::new(at.start, at.start + words.len())))
        }
    }
}

/// Words without quotes: a constant, a number, or text.
pub(crate) fn plain(text: &str, at: TextSpan, edits: &mut Edits) -> Option<Node> {
    let words = at.slice(text);
    let kind = match words {
        "null" | "Null" | "NULL" | "~" => NodeKind::Null,
        "true" | "True" | "TRUE" => NodeKind::Bool(true),
        "false" | "False" | "FALSE" => NodeKind::Bool(false),
        _ => match number::parse_number(words) {
            Some(spelled) if spelled.json && spelled.exact => NodeKind::Number(spelled.number),
            Some(_) => return None,
            None => {
                let lower = words.to_ascii_lowercase();
                let digits = words.bytes().all(|b| b.is_ascii_digit());
                if digits || matches!(lower.as_str(), "yes" | "no" | "on" | "off" | "y" | "n") {
                    // Readers of YAML differ on these.
                    edits.guessed(EditKind::ValueQuoted, at, words, words);
                }
                NodeKind::Text(Text::Slice(at))
            }
        },
    };
    Some(Node::new(kind, at.start, at.end))
}

/// Values in brackets, on one line.
struct Flow<'a> {
    text: &'a str,
    at: usize,
    end: usize,
    edits: &'a mut Edits,
}

impl Flow<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..self.end]
    }

    fn skip(&mut self) -> Option<u8> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(' ').len();
        self.rest().bytes().next()
    }

    fn value(&mut self, depth: usize) -> Option<Node> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.skip()? {
            b'[' => self.list(depth),
            b'{' => self.table(depth),
            b'"' | b'\'' => self.quoted(),
            b'&' | b'*' | b'!' | b'%' | b'@' | b'`' | b'?' | b'|' | b'>' | b'#' | b'-' | b',' | b']' | b'}' => {
                let number =
                    self.rest().as_bytes().get(1).is_some_and(u8::is_ascii_digit) && self.rest().starts_with('-');
                if number { self.words() } else { None }
            }
            _ => self.words(),
        }
    }

    fn words(&mut self) -> Option<Node> {
        let rest = self.rest();
        let Some(length) = rest.find([',', ']', '}', '[', '{']) else {
            self.at = self.end;
            return None;
        };
        let words = rest[..length].trim_end();
        if words.is_empty() || words.contains([':', '#', '"']) {
            return None;
        }
        let at = TextSpan::new(self.at, self.at + words.len());
        self.at = at.end;
        plain(self.text, at, self.edits)
    }

    fn list(&mut self, depth: usize) -> Option<Node> {
        let start = self.at;
        let mut items = Vec::new();
        self.at += 1;
        loop {
            if self.skip()? == b']' && items.is_empty() {
                break;
            }
            items.push(self.value(depth + 1)?);
            if self.sign(b']')? {
                break;
            }
        }
        self.at += 1;
        Some(Node::new(NodeKind::List(items), start, self.at))
    }

    fn table(&mut self, depth: usize) -> Option<Node> {
        let start = self.at;
        let mut pairs = Vec::new();
        self.at += 1;
        loop {
            if self.skip()? == b'}' && pairs.is_empty() {
                break;
            }
            let Some((name, behind)) = key(self.rest()) else {
                if !self.rest().contains([':', ',', '}']) {
                    self.at = self.end;
                }
                return None;
            };
            let name = Text::Slice(TextSpan::new(self.at + name.start, self.at + name.end));
            self.at += behind;
            pairs.push((name, self.value(depth + 1)?));
            if self.sign(b'}')? {
                break;
            }
        }
        self.at += 1;
        Some(Node::new(NodeKind::Map(pairs), start, self.at))
    }

    /// Whether the bracket ends here; else behind the comma that must.
    fn sign(&mut self, closer: u8) -> Option<bool> {
        match self.skip()? {
            c if c == closer => Some(true),
            b',' => {
                self.at += 1;
                Some(false)
            }
            _ => None,
        }
    }

    fn quoted(&mut self) -> Option<Node> {
        let start = self.at;
        let quote = self.rest().chars().next()?;
        let body = start + 1;
        let bytes = self.text.as_bytes();
        let mut at = body;
        loop {
            if at >= self.end {
                self.at = self.end;
                return None;
            }
            match (quote, char::from(bytes[at])) {
                ('"', '\\') => at += 2,
                ('\'', '\'') if bytes.get(at + 1) == Some(&b'\'') => at += 2,
                (_, c) if c == quote => break,
                _ => at += 1,
            }
        }
        self.at = at + 1;
        let inside = &self.text[body..at];
        let text = if quote == '\'' && inside.contains('\'') {
            Text::Own(inside.replace("''", "'"))
        } else if quote == '"' && inside.contains('\\') {
            let mut met = DecodedEscape::default();
            let own = decode(inside, EscapeDialect::Json, &mut met);
            if met.foreign {
                return None;
            }
            Text::Own(own)
        } else {
            Text::Slice(TextSpan::new(body, at))
        };
        Some(Node::new(NodeKind::Text(text), start, self.at))
    }
}
