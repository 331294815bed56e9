//! Brackets that are missing, too many, or of another kind than the ones that are open.

use super::{ExpectedToken, Open, Parser, Step, Stop};
use crate::edit::EditKind;
use crate::span::TextSpan;

impl Parser<'_> {
    /// An object or a list where a key should be: the table around it was not closed, if it stands in a list.
    pub(super) fn opener_for_key(&mut self, c: u8) -> Step {
        self.repairing()?;
        let n = self.s.stack.len();
        let first = self.s.stack.last().is_some_and(|f| f.want == ExpectedToken::First);
        let listed = self.s.stack[..n - 1].iter().any(|f| matches!(f.open, Open::List(_)));
        if first && c == b'{' {
            // `{{"a": 1}}`, as templates escape braces.
            let Some(frame) = self.s.stack.pop() else { return Err(Stop::Wrong(self.s.pos)) };
            self.s.edits.guessed(EditKind::BracketDropped, TextSpan::new(frame.start, frame.start + 1), "{", "");
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
        self.expect_item();
        Ok(())
    }

    /// Closes the innermost frame, whose bracket is missing.
    fn close_unclosed(&mut self, closer: u8) -> Step {
        // Before the comma, if the last thing read was one.
        let at = self.s.pos;
        let became = char::from(closer).to_string();
        self.s.edits.guessed(EditKind::BracketAdded, TextSpan::new(at, at), "", &became);
        if let Some(top) = self.s.stack.last_mut() {
            if top.key.is_some() {
                self.value_missing()?;
            } else if top.want == ExpectedToken::Item {
                top.want = ExpectedToken::After;
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
        self.repairing()?;
        let at = self.s.pos;
        let n = self.s.stack.len();
        let Some(target) = self.s.stack.iter().rposition(|f| f.closer() == c) else {
            return if self.is_other_bracket(c) { self.change_bracket(c) } else { self.drop_bracket(c) };
        };
        if c == b'}' && matches!(self.s.stack[n - 1].open, Open::List(_)) && !self.list_ends_here(target) {
            return self.drop_bracket(c);
        }
        if c == b']' && self.list_goes_on(target) {
            return self.change_bracket(c);
        }
        if let Some(top) = self.s.stack.last() {
            self.close_unclosed(top.closer())?;
            self.s.pos = at;
        }
        Ok(())
    }

    /// Whether, at a `]` inside an item of a list, the item ends and the list continues: another table follows, which can
    /// stand nowhere but in this list.
    fn list_goes_on(&self, target: usize) -> bool {
        let n = self.s.stack.len();
        let is_item = target + 2 == n && self.s.stack[n - 1].open == Open::Map;
        let is_in_list = self.s.stack[..target].last().is_some_and(|f| matches!(f.open, Open::List(_)));
        let comma = self.blank_end(self.s.pos + 1);
        is_item
            && !is_in_list
            && self.bytes.get(comma) == Some(&b',')
            && self.bytes.get(self.blank_end(comma + 1)) == Some(&b'{')
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
        let closer = self.s.stack.last().map(super::ParserFrame::closer);
        matches!((c, closer), (b']', Some(b')')) | (b')', Some(b']')))
    }

    fn change_bracket(&mut self, c: u8) -> Step {
        let at = self.s.pos;
        let became = self.s.stack.last().map(|f| char::from(f.closer()).to_string()).unwrap_or_default();
        let was = char::from(c).to_string();
        self.s.edits.guessed(EditKind::BracketChanged, TextSpan::new(at, at + 1), &was, &became);
        self.s.pos += 1;
        self.pop()
    }

    fn drop_bracket(&mut self, c: u8) -> Step {
        let at = self.s.pos;
        let was = char::from(c).to_string();
        self.s.edits.guessed(EditKind::BracketDropped, TextSpan::new(at, at + 1), &was, "");
        self.s.pos += 1;
        Ok(())
    }

    /// The text around the value ends here although brackets are open: they are taken as missing.
    pub(super) fn end_here(&mut self) -> Step {
        loop {
            let Some(top) = self.s.stack.last() else { return Err(Stop::Done) };
            self.close_unclosed(top.closer())?;
        }
    }
}
