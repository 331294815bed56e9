//! Words outside quotes: constants, numbers, names of calls, keys and arguments.

use serde_json::Number;

use super::{Parser, Step, Stop};
use crate::edit::EditKind;
use crate::node::{Node, NodeKind, Text};
use crate::number;
use crate::span::TextSpan;

/// Numbers up to here are read at a glance. Bytes.
const EASY_MAX: usize = 18;
/// What each byte of a longer one costs, in units of work.
const HARD: usize = 8;

impl Parser<'_> {
    /// Where the name that starts at `at` ends: letters, digits, `_`, `.`, and `\_` as Markdown escapes it.
    pub(super) fn name_end(&self, at: usize) -> usize {
        name_end(self.bytes, at)
    }

    /// A name as it was meant: without Markdown's backslashes.
    pub(super) fn name(&mut self, start: usize, end: usize) -> Text {
        let word = &self.src[start..end];
        if word.contains('\\') {
            let plain = word.replace('\\', "");
            self.s.edits.respelled(EditKind::EscapeRespelled, TextSpan::new(start, end), word, &plain);
            return Text::Own(plain);
        }
        Text::Slice(TextSpan::new(start, end))
    }

    pub(super) fn number(&mut self) -> Step {
        let start = self.s.pos;
        let mut end = start;
        while let Some(c) = self.bytes.get(end) {
            let sign = matches!(c, b'+' | b'-') && matches!(self.bytes[end - usize::from(end > start)], b'e' | b'E');
            if !(c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_') || end == start || sign) {
                break;
            }
            end += 1;
        }
        if end == self.bytes.len() {
            // There may be more digits.
            return Err(Stop::End);
        }
        if end - start > EASY_MAX {
            self.s.work += HARD * (end - start);
        }
        let delimited =
            matches!(self.bytes[end], b',' | b']' | b'}' | b')' | b':' | b' ' | b'\n' | b'\r' | b'\t' | b'#' | b'/');
        match number::parse_number(&self.src[start..end]).filter(|_| delimited) {
            Some(spelled) => self.put_number(spelled.number, spelled.json, spelled.exact, TextSpan::new(start, end)),
            None if self.s.repair => self.bare(),
            None => Err(Stop::Wrong(start)),
        }
    }

    fn put_number(&mut self, number: Number, json: bool, exact: bool, at: TextSpan) -> Step {
        if !exact {
            self.s.edits.guessed(EditKind::NumberRounded, at, at.slice(self.src), &number.to_string());
        } else if !json {
            self.s.edits.respelled(EditKind::NumberRespelled, at, at.slice(self.src), &number.to_string());
        }
        self.push_node(Node::new(NodeKind::Number(number), at.start, at.end))
    }

    /// A constant, a call, or a string with a prefix; anything else only when repairing.
    pub(super) fn word(&mut self) -> Step {
        let start = self.s.pos;
        let end = self.name_end(start);
        if end == start {
            if matches!(self.bytes[start], b'.' | b'+')
                && !self.s.stack.is_empty()
                && self.bytes.get(start + 1).is_some_and(u8::is_ascii_digit)
            {
                return self.number();
            }
            return if self.s.repair { self.bare() } else { Err(Stop::Wrong(start)) };
        }
        if end == self.bytes.len() {
            return Err(Stop::End);
        }
        let word = &self.src[start..end];
        if end - start <= 2
            && word.bytes().all(|b| matches!(b, b'r' | b'b' | b'f' | b'u' | b'R' | b'B' | b'F' | b'U'))
            && let Some(quote) = self.quote_at(end)
        {
            self.s.pos = end;
            let raw = word.contains(['r', 'R']);
            let place = self.place_of_value();
            let read = self.string_with(quote, place, raw);
            self.s.pos = start;
            let (text, after) = read?;
            self.python(EditKind::QuotesChanged, TextSpan::new(start, end + 1), "\"");
            return self.push_node(Node::new(NodeKind::Text(text), start, after));
        }
        let mut paren = end;
        while matches!(self.bytes.get(paren), Some(b' ' | b'\t')) {
            paren += 1;
        }
        match self.bytes.get(paren) {
            None => return Err(Stop::End),
            Some(b'(') => {
                let name = self.name(start, end);
                return self.open_call(name, start, paren);
            }
            Some(_) => {}
        }
        let (kind, json) = match word {
            "true" | "True" => (NodeKind::Bool(true), "true"),
            "false" | "False" => (NodeKind::Bool(false), "false"),
            "null" | "None" => (NodeKind::Null, "null"),
            _ if self.s.repair => return self.bare(),
            _ => return Err(Stop::Wrong(start)),
        };
        if word != json {
            self.python(EditKind::ConstantRespelled, TextSpan::new(start, end), json);
        }
        self.push_node(Node::new(kind, start, end))
    }

    /// A key without quotes: a name or a whole number, with its colon behind it.
    pub(super) fn bare_key(&mut self) -> Result<Option<(Text, usize)>, Stop> {
        let start = self.s.pos;
        let mut end = start;
        while self
            .bytes
            .get(end)
            .is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'$' | b'.') || *c >= 0x80)
        {
            end += 1;
        }
        if end == self.bytes.len() {
            return Err(Stop::End);
        }
        if end == start {
            return Ok(None);
        }
        let mut colon = end;
        while matches!(self.bytes.get(colon), Some(b' ' | b'\t')) {
            colon += 1;
        }
        match self.bytes.get(colon) {
            None => Err(Stop::End),
            Some(b':') => Ok(Some((Text::Slice(TextSpan::new(start, end)), end))),
            Some(b'=') if self.s.repair => Ok(Some((Text::Slice(TextSpan::new(start, end)), end))),
            Some(_) => Ok(None),
        }
    }

    /// `name=` in a call, which is left behind when it is there.
    pub(super) fn argument_name(&mut self) -> Result<Option<(Text, usize)>, Stop> {
        let start = self.s.pos;
        let end = self.name_end(start);
        if end == self.bytes.len() {
            return Err(Stop::End);
        }
        if end == start {
            return Ok(None);
        }
        let mut sign = end;
        while self.bytes.get(sign).is_some_and(|c| c.is_ascii_whitespace()) {
            sign += 1;
        }
        match (self.bytes.get(sign), self.bytes.get(sign + 1)) {
            (None, _) | (Some(b'='), None) => Err(Stop::End),
            (Some(b'='), Some(next)) if *next != b'=' => {
                let name = self.name(start, end);
                self.s.pos = sign + 1;
                Ok(Some((name, end)))
            }
            _ => Ok(None),
        }
    }
}

/// Where the name that starts at `at` ends; `at` itself when none does.
pub(crate) fn name_end(bytes: &[u8], at: usize) -> usize {
    if !bytes.get(at).is_some_and(|c| is_name_start(bytes, at, *c)) {
        return at;
    }
    let mut end = at;
    while let Some(c) = bytes.get(end) {
        let more = c.is_ascii_alphanumeric()
            || *c == b'_'
            || *c >= 0x80 && !is_punctuation(bytes, end)
            || *c == b'.' && bytes.get(end + 1).is_some_and(|n| n.is_ascii_alphanumeric() || *n == b'_')
            || *c == b'\\' && bytes.get(end + 1) == Some(&b'_');
        if !more {
            break;
        }
        end += 1;
    }
    end
}

fn is_name_start(bytes: &[u8], at: usize, c: u8) -> bool {
    c.is_ascii_alphabetic()
        || c == b'_'
        || c == b'\\' && bytes.get(at + 1) == Some(&b'_')
        || c >= 0x80 && !is_punctuation(bytes, at)
}

/// Whether a character of general or of East Asian punctuation stands at `at`: quotes, dashes, `…`, `，`, `。`.
fn is_punctuation(bytes: &[u8], at: usize) -> bool {
    match bytes.get(at..at + 3) {
        Some([0xe2, 0x80..=0x81, _] | [0xe3, 0x80, _] | [0xef, 0xbc..=0xbd, _]) => true,
        Some(_) | None => bytes.get(at) == Some(&0xc2),
    }
}
