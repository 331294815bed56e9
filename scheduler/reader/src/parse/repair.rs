//! Repairs of syntax errors. Each repair is a guess and recorded as an edit.

use super::{ExpectedToken, Open, Parser, Step, Stop, is_closer};
use crate::edit::EditKind;
use crate::node::NodeKind;
use crate::span::TextSpan;

/// Stretches of text that fit nowhere, in one value. Bytes.
const DROPPED_MAX: usize = 80;

impl Parser<'_> {
    pub(super) fn repairing(&self) -> Step {
        if self.s.repair { Ok(()) } else { Err(Stop::Wrong(self.s.pos)) }
    }

    /// A comma where a value should be.
    pub(super) fn stray_comma(&mut self) -> Step {
        self.repairing()?;
        let at = self.s.pos;
        self.s.edits.guessed(EditKind::TextDropped, TextSpan::new(at, at + 1), ",", "");
        self.s.pos += 1;
        Ok(())
    }

    /// A key, and no value: the key is left out.
    pub(super) fn value_missing(&mut self) -> Step {
        self.repairing()?;
        let pos = self.s.pos;
        let Some(top) = self.s.stack.last_mut() else { return Err(Stop::Wrong(pos)) };
        top.want = ExpectedToken::After;
        if let Some((_, at)) = top.key.take() {
            let was = &self.src[at.start..pos];
            self.s.edits.guessed(EditKind::KeyDropped, TextSpan::new(at.start, pos), was, "");
        }
        Ok(())
    }

    /// After a key, something else than a colon.
    pub(super) fn no_colon(&mut self, c: u8) -> Step {
        self.repairing()?;
        let at = self.s.pos;
        let mut end = at;
        while matches!(self.bytes.get(end), Some(b'=' | b'>')) {
            end += 1;
        }
        let starts = self.quote_at(end).is_some() || matches!(c, b'{' | b'[' | b'-' | b'0'..=b'9');
        if end == at && !starts {
            if is_closer(c) {
                return self.value_missing();
            }
            return self.drop_junk();
        }
        self.s.edits.guessed(EditKind::ColonAdded, TextSpan::new(at, end), &self.src[at..end], ":");
        self.s.pos = end;
        if let Some(top) = self.s.stack.last_mut() {
            top.want = ExpectedToken::Value;
        }
        Ok(())
    }

    /// After a value, neither a comma nor a bracket.
    pub(super) fn unexpected(&mut self, c: u8) -> Step {
        self.repairing()?;
        let at = self.s.pos;
        let rest = &self.bytes[at..];
        if rest.starts_with(b"```") || rest.starts_with(b"</") || rest.starts_with(b"<|") || self.prose_begins() {
            return self.end_here();
        }
        if rest.starts_with(b"...") || rest.starts_with("…".as_bytes()) {
            self.s.pos += 3;
            return self.dropped(TextSpan::new(at, at + 3));
        }
        let Some(open) = self.s.stack.last().map(|f| f.open) else { return Err(Stop::Wrong(at)) };
        let quote = self.quote_at(at);
        let quoted = self.s.stack.last_mut().is_some_and(|f| std::mem::take(&mut f.quoted));
        if let Some(quote) = quote.filter(|_| quoted && !self.last_is_text()) {
            let end = at + quote.len();
            self.s.edits.guessed(EditKind::TextDropped, TextSpan::new(at, end), &self.src[at..end], "");
            self.s.pos = end;
            return Ok(());
        }
        if self.begins_item(open, c, quote.is_some()) {
            self.s.edits.guessed(EditKind::CommaAdded, TextSpan::new(at, at), "", ",");
            self.expect_item();
            return Ok(());
        }
        if open == Open::Map && c == b'{' && self.s.stack.iter().any(|f| matches!(f.open, Open::List(_))) {
            return self.opener_for_key(c);
        }
        match c {
            b'(' if self.last_is_text() => self.call_of_quoted_name(),
            b':' | b'='
                if self.last_is_text() && matches!(open, Open::List(_)) && self.bytes.get(at + 1) != Some(&b'=') =>
            {
                self.table_in_list_brackets(c)
            }
            b';' => {
                self.s.edits.guessed(EditKind::BracketChanged, TextSpan::new(at, at + 1), ";", ",");
                self.s.pos += 1;
                self.expect_item();
                Ok(())
            }
            b'*' | b'/' | b'+' | b'-' | b'%' | b'^' | b'.' | b'[' | b'|' | b'&' | b'<' | b'>' | b'=' | b'!' | b'?'
            | b'(' => self.operator(open, c),
            _ if self.name_end(at) > at && !self.last_value().is_some_and(|v| v.is_container()) => self.formula(),
            _ => self.drop_junk(),
        }
    }

    /// Whether the next item begins here, so that only the comma is missing.
    ///
    /// - `quote`: whether a quote stands here.
    fn begins_item(&mut self, open: Open, c: u8, quote: bool) -> bool {
        let at = self.s.pos;
        let name = self.name_end(at);
        let sign = self.bytes.get(self.blank_end(name)).copied();
        match open {
            Open::Map => self.is_key_at(at) || name > at && sign == Some(b':'),
            Open::List(_) => {
                let brace = self.last_value().is_some_and(|v| v.is_container());
                quote && !self.last_is_text_before_call(c)
                    || matches!(c, b'{')
                    || c == b'[' && !brace
                    || c == b'(' && !self.last_is_text()
                    || name > at && sign == Some(b'(')
            }
            Open::Call => name > at && sign == Some(b'=') || quote,
        }
    }

    /// A comma was read, or stands for what was read.
    pub(super) fn expect_item(&mut self) {
        if let Some(top) = self.s.stack.last_mut() {
            top.want = ExpectedToken::Item;
            top.commas += 1;
        }
    }

    /// An operator after a value.
    fn operator(&mut self, open: Open, c: u8) -> Step {
        let call = self.last_value().is_some_and(|v| v.call().is_some());
        let behind = self.blank_end(self.s.pos + 1);
        let next = self.name_end(behind);
        if !call || !matches!(open, Open::List(_)) {
            self.formula()
        } else if matches!(c, b'+' | b'-' | b'*' | b'/') && next > behind && self.bytes.get(next) == Some(&b'(') {
            self.operator_as_comma()
        } else {
            self.drop_junk()
        }
    }

    /// `f(a=1) + g(b=2)` in a list: two calls. Nothing here computes the sum.
    fn operator_as_comma(&mut self) -> Step {
        let at = self.s.pos;
        self.s.edits.guessed(EditKind::TextDropped, TextSpan::new(at, at + 1), &self.src[at..=at], ",");
        self.s.pos += 1;
        self.expect_item();
        Ok(())
    }

    /// A quote before the name of a call, `'f(a='x')'`: the call counts, and the quotes around it are left out.
    pub(super) fn call_in_quotes(&mut self) -> bool {
        if !self.s.repair {
            return false;
        }
        let at = self.s.pos;
        let name = self.name_end(at + 1);
        if name < at + 3 || self.bytes.get(name) != Some(&b'(') {
            return false;
        }
        let inside = &self.bytes[name..(name + 200).min(self.bytes.len())];
        let q = self.bytes[at];
        // Only when the quote also stands inside the brackets; else it is a string like any other.
        let close = inside.iter().position(|b| *b == b')').unwrap_or(inside.len());
        if !inside[..close].contains(&q) && self.blank_end(name + close + 2) < self.bytes.len() {
            return false;
        }
        self.s.edits.guessed(EditKind::TextDropped, TextSpan::new(at, at + 1), &self.src[at..=at], "");
        self.s.pos += 1;
        if let Some(top) = self.s.stack.last_mut() {
            top.quoted = true;
            if top.open == Open::Map {
                top.open = Open::List(b'{');
            }
        }
        true
    }

    fn last_is_text_before_call(&mut self, c: u8) -> bool {
        c == b'(' && self.last_is_text()
    }

    /// Whether a new paragraph of words begins, after a value of a list that was not closed.
    fn prose_begins(&self) -> bool {
        let at = self.s.pos;
        let before = &self.src[..at];
        let blank = before.len() - before.trim_end().len();
        let paragraph = before[at - blank..].matches('\n').count() > 1;
        let lists = self.s.stack.iter().all(|f| matches!(f.open, Open::List(_)));
        let name = self.name_end(at);
        paragraph && lists && name > at && self.bytes.get(name) != Some(&b'(')
    }

    /// `['name', 'arguments': {…}]`, and the like: a table in the brackets of a list. Too far from either to tell.
    fn table_in_list_brackets(&mut self, c: u8) -> Step {
        let at = self.s.pos;
        let Some(top) = self.s.stack.last_mut() else { return Err(Stop::Wrong(at)) };
        if c != b':' || top.items.len() != 1 || !top.pairs.is_empty() {
            return Err(Stop::Broken);
        }
        let Some(node) = top.items.pop() else { return Err(Stop::Wrong(at)) };
        let NodeKind::Text(key) = node.kind else { return Err(Stop::Broken) };
        let start = top.start;
        top.open = Open::Map;
        top.key = Some((key, node.span));
        top.want = ExpectedToken::Colon;
        self.s.edits.guessed(EditKind::BracketChanged, TextSpan::new(start, start + 1), "[", "{");
        Ok(())
    }

    /// `'f'(a=1)`.
    fn call_of_quoted_name(&mut self) -> Step {
        let at = self.s.pos;
        let Some(top) = self.s.stack.last_mut() else { return Err(Stop::Wrong(at)) };
        let Some(node) = (if matches!(top.open, Open::List(_)) { top.items.pop() } else { None }) else {
            return self.formula();
        };
        let NodeKind::Text(name) = node.kind else { return Err(Stop::Wrong(at)) };
        self.open_call(name, node.span.start, at)
    }

    /// Leaves out what fits nowhere, up to the next byte of structure.
    pub(super) fn drop_junk(&mut self) -> Step {
        self.repairing()?;
        let start = self.s.pos;
        let rest = &self.bytes[start..];
        let first = rest.first().map_or(1, |b| usize::from(*b < 0x80));
        let end = rest
            .iter()
            .skip(first)
            .position(|b| matches!(b, b',' | b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'"' | b'\'' | b'\n'))
            .map(|n| start + first + n)
            .ok_or(Stop::End)?;
        let mut end = end.max(start + 1);
        while !self.src.is_char_boundary(end) {
            end += 1;
        }
        self.s.pos = end;
        self.dropped(TextSpan::new(start, end))
    }

    pub(super) fn dropped(&mut self, at: TextSpan) -> Step {
        self.s.dropped += at.len();
        self.s.edits.guessed(EditKind::TextDropped, at, at.slice(self.src), "");
        if self.s.dropped > DROPPED_MAX { Err(Stop::Broken) } else { Ok(()) }
    }
}
