//! What to do where neither notation knows how to go on. Each decision is a guess, and an edit.

use super::{Open, Parser, Step, Stop, Want, is_closer};
use crate::edit::EditKind;
use crate::node::Kind;
use crate::span::Span;

/// Stretches of text that fit nowhere, in one value. Bytes.
const DROPPED_MAX: usize = 80;

impl Parser<'_> {
    fn mending(&self) -> Step {
        if self.s.mend { Ok(()) } else { Err(Stop::Wrong(self.s.pos)) }
    }

    /// A comma where a value should be.
    pub(super) fn stray_comma(&mut self) -> Step {
        self.mending()?;
        let at = self.s.pos;
        self.s.edits.guessed(EditKind::TextDropped, Span::new(at, at + 1), ",", "");
        self.s.pos += 1;
        Ok(())
    }

    /// A key, and no value: the key is left out.
    pub(super) fn value_missing(&mut self) -> Step {
        self.mending()?;
        let pos = self.s.pos;
        let Some(top) = self.s.stack.last_mut() else { return Err(Stop::Wrong(pos)) };
        top.want = Want::After;
        if let Some((_, at)) = top.key.take() {
            let was = &self.src[at.start..pos];
            self.s.edits.guessed(EditKind::KeyDropped, Span::new(at.start, pos), was, "");
        }
        Ok(())
    }

    /// After a key, something else than a colon.
    pub(super) fn no_colon(&mut self, c: u8) -> Step {
        self.mending()?;
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
        self.s.edits.guessed(EditKind::ColonAdded, Span::new(at, end), &self.src[at..end], ":");
        self.s.pos = end;
        if let Some(top) = self.s.stack.last_mut() {
            top.want = Want::Value;
        }
        Ok(())
    }

    /// An object or a list where a key should be: the table around it was not closed, if it stands in a list.
    pub(super) fn opener_for_key(&mut self, c: u8) -> Step {
        self.mending()?;
        let n = self.s.stack.len();
        let first = self.s.stack.last().is_some_and(|f| f.want == Want::First);
        let listed = self.s.stack[..n - 1].iter().any(|f| matches!(f.open, Open::List(_)));
        if first && c == b'{' {
            // `{{"a": 1}}`, as templates escape braces.
            let Some(frame) = self.s.stack.pop() else { return Err(Stop::Wrong(self.s.pos)) };
            self.s.edits.guessed(EditKind::BracketDropped, Span::new(frame.start, frame.start + 1), "{", "");
            return Ok(());
        }
        if first || !listed {
            return self.drop_junk();
        }
        while let Some(top) = self.s.stack.last() {
            if matches!(top.open, Open::List(_)) {
                break;
            }
            self.close_unclosed(top.closer())?;
        }
        if let Some(top) = self.s.stack.last_mut() {
            top.want = Want::Item;
            top.commas += 1;
        }
        Ok(())
    }

    /// Closes the innermost frame, whose bracket is missing.
    fn close_unclosed(&mut self, closer: u8) -> Step {
        // Before the comma, if the last thing read was one.
        let at = self.s.pos;
        let became = char::from(closer).to_string();
        self.s.edits.guessed(EditKind::BracketAdded, Span::new(at, at), "", &became);
        if let Some(top) = self.s.stack.last_mut() {
            if top.key.is_some() {
                self.value_missing()?;
            } else if top.want == Want::Item {
                top.want = Want::After;
            }
        }
        let end = self.end_of_last().unwrap_or(at);
        self.s.pos = end;
        let closed = self.pop();
        self.s.pos = at;
        closed
    }

    fn end_of_last(&mut self) -> Option<usize> {
        self.last_value().map(|v| v.span.end)
    }

    /// A closing bracket that does not fit the innermost open one.
    pub(super) fn close_other(&mut self, c: u8) -> Step {
        self.mending()?;
        let at = self.s.pos;
        let n = self.s.stack.len();
        let Some(target) = self.s.stack.iter().rposition(|f| f.closer() == c) else {
            return if self.is_other_bracket(c) { self.change_bracket(c) } else { self.drop_bracket(c) };
        };
        if c == b'}' && matches!(self.s.stack[n - 1].open, Open::List(_)) && !self.list_ends_here(target) {
            return self.drop_bracket(c);
        }
        if let Some(top) = self.s.stack.last() {
            self.close_unclosed(top.closer())?;
            self.s.pos = at;
        }
        Ok(())
    }

    /// Whether, at a `}` inside a list, the table around the list ends, and not a `}` too many stands here.
    fn list_ends_here(&self, target: usize) -> bool {
        let next = self.blank_end(self.s.pos + 1);
        match self.bytes.get(next) {
            None => true,
            Some(b',') => {
                let after = self.blank_end(next + 1);
                // What follows is another entry of the table, or another item of the list.
                self.is_key_at(after)
            }
            // Another bracket for the list itself: this one was too many.
            Some(b']') => target > 0 && self.s.stack[..target].iter().any(|f| f.closer() == b']'),
            Some(_) => true,
        }
    }

    /// Whether `]` closes what `(` opened, or the other way round.
    fn is_other_bracket(&self, c: u8) -> bool {
        let closer = self.s.stack.last().map(super::Frame::closer);
        matches!((c, closer), (b']', Some(b')')) | (b')', Some(b']')))
    }

    fn change_bracket(&mut self, c: u8) -> Step {
        let at = self.s.pos;
        let became = self.s.stack.last().map(|f| char::from(f.closer()).to_string()).unwrap_or_default();
        let was = char::from(c).to_string();
        self.s.edits.guessed(EditKind::BracketChanged, Span::new(at, at + 1), &was, &became);
        self.s.pos += 1;
        self.pop()
    }

    fn drop_bracket(&mut self, c: u8) -> Step {
        let at = self.s.pos;
        let was = char::from(c).to_string();
        self.s.edits.guessed(EditKind::BracketDropped, Span::new(at, at + 1), &was, "");
        self.s.pos += 1;
        Ok(())
    }

    /// After a value, neither a comma nor a bracket.
    pub(super) fn unexpected(&mut self, c: u8) -> Step {
        self.mending()?;
        let at = self.s.pos;
        let rest = &self.bytes[at..];
        if rest.starts_with(b"```") || rest.starts_with(b"</") || rest.starts_with(b"<|") || self.prose_begins() {
            return self.end_here();
        }
        if rest.starts_with(b"...") || rest.starts_with("…".as_bytes()) {
            self.s.pos += 3;
            return self.dropped(Span::new(at, at + 3));
        }
        let Some(open) = self.s.stack.last().map(|f| f.open) else { return Err(Stop::Wrong(at)) };
        let quote = self.quote_at(at).is_some();
        let name = self.name_end(at);
        let sign = self.bytes.get(self.blank_end(name)).copied();
        let quoted = self.s.stack.last_mut().is_some_and(|f| std::mem::take(&mut f.quoted));
        if quoted && quote && !self.last_is_text() {
            self.s.edits.guessed(EditKind::TextDropped, Span::new(at, at + 1), &self.src[at..=at], "");
            self.s.pos += 1;
            return Ok(());
        }
        let begins = match open {
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
        };
        if begins {
            self.s.edits.guessed(EditKind::CommaAdded, Span::new(at, at), "", ",");
            if let Some(top) = self.s.stack.last_mut() {
                top.want = Want::Item;
                top.commas += 1;
            }
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
                self.s.edits.guessed(EditKind::BracketChanged, Span::new(at, at + 1), ";", ",");
                self.s.pos += 1;
                if let Some(top) = self.s.stack.last_mut() {
                    top.want = Want::Item;
                    top.commas += 1;
                }
                Ok(())
            }
            b'*' | b'/' | b'+' | b'-' | b'%' | b'^' | b'.' | b'[' | b'|' | b'&' | b'<' | b'>' | b'=' | b'!' | b'?'
            | b'(' => {
                let call = self.last_value().is_some_and(|v| v.call().is_some());
                let behind = self.blank_end(at + 1);
                let next = self.name_end(behind);
                if !call || !matches!(open, Open::List(_)) {
                    self.formula()
                } else if matches!(c, b'+' | b'-' | b'*' | b'/') && next > behind && self.bytes.get(next) == Some(&b'(')
                {
                    self.operator_as_comma()
                } else {
                    self.drop_junk()
                }
            }
            _ if name > at && !self.last_value().is_some_and(|v| v.is_container()) => self.formula(),
            _ => self.drop_junk(),
        }
    }

    /// `f(a=1) + g(b=2)` in a list: two calls. Nothing here computes the sum.
    fn operator_as_comma(&mut self) -> Step {
        let at = self.s.pos;
        self.s.edits.guessed(EditKind::TextDropped, Span::new(at, at + 1), &self.src[at..=at], ",");
        self.s.pos += 1;
        if let Some(top) = self.s.stack.last_mut() {
            top.want = Want::Item;
            top.commas += 1;
        }
        Ok(())
    }

    /// A quote before the name of a call, `'f(a='x')'`: the call counts, and the quotes around it are left out.
    pub(super) fn call_in_quotes(&mut self) -> bool {
        let at = self.s.pos;
        let name = self.name_end(at + 1);
        if !self.s.mend || name < at + 3 || self.bytes.get(name) != Some(&b'(') {
            return false;
        }
        let inside = &self.bytes[name..(name + 200).min(self.bytes.len())];
        let q = self.bytes[at];
        // Only when the quote also stands inside the brackets; else it is a string like any other.
        let close = inside.iter().position(|b| *b == b')').unwrap_or(inside.len());
        if !inside[..close].contains(&q) && self.blank_end(name + close + 2) < self.bytes.len() {
            return false;
        }
        self.s.edits.guessed(EditKind::TextDropped, Span::new(at, at + 1), &self.src[at..=at], "");
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
        let Kind::Text(key) = node.kind else { return Err(Stop::Broken) };
        let start = top.start;
        top.open = Open::Map;
        top.key = Some((key, node.span));
        top.want = Want::Colon;
        self.s.edits.guessed(EditKind::BracketChanged, Span::new(start, start + 1), "[", "{");
        Ok(())
    }

    /// `'f'(a=1)`.
    fn call_of_quoted_name(&mut self) -> Step {
        let at = self.s.pos;
        let Some(top) = self.s.stack.last_mut() else { return Err(Stop::Wrong(at)) };
        let Some(node) = (if matches!(top.open, Open::List(_)) { top.items.pop() } else { None }) else {
            return self.formula();
        };
        let Kind::Text(name) = node.kind else { return Err(Stop::Wrong(at)) };
        self.open_call(name, node.span.start, at)
    }

    /// The text around the value ends here although brackets are open: they are taken as missing.
    fn end_here(&mut self) -> Step {
        loop {
            let Some(top) = self.s.stack.last() else { return Err(Stop::Done) };
            self.close_unclosed(top.closer())?;
        }
    }

    /// Leaves out what fits nowhere, up to the next byte of structure.
    pub(super) fn drop_junk(&mut self) -> Step {
        self.mending()?;
        let start = self.s.pos;
        let rest = &self.bytes[start..];
        let first = rest.first().map_or(1, |b| if *b < 0x80 { 1 } else { 0 });
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
        self.dropped(Span::new(start, end))
    }

    pub(super) fn dropped(&mut self, at: Span) -> Step {
        self.s.dropped += at.len();
        self.s.edits.guessed(EditKind::TextDropped, at, at.of(self.src), "");
        if self.s.dropped > DROPPED_MAX { Err(Stop::Broken) } else { Ok(()) }
    }
}
