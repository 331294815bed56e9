//! Keys, colons, and the names of arguments.

use super::{ExpectedToken, Open, Parser, Step, Stop, quote};
use crate::edit::EditKind;
use crate::node::{Node, NodeKind, Text};
use crate::span::TextSpan;

impl Parser<'_> {
    pub(super) fn key(&mut self, c: u8) -> Step {
        let start = self.s.pos;
        if matches!(c, b'"' | b'\'')
            && self.s.stack.last().is_some_and(|f| f.want == ExpectedToken::First)
            && self.call_in_quotes()
        {
            return Ok(());
        }
        if let Some(quote) = self.quote_at(start) {
            let (text, end) = self.string(quote, quote::QuotePosition::Key)?;
            return self.keyed(text, TextSpan::new(start, end));
        }
        if self.s.repair && (c == b'{' || c == b'[') {
            return self.opener_for_key(c);
        }
        if let Some((text, end)) = self.bare_key()? {
            self.s.edits.respelled(
                EditKind::KeyQuoted,
                TextSpan::new(start, end),
                &self.src[start..end],
                text.slice(self.src),
            );
            return self.keyed(text, TextSpan::new(start, end));
        }
        self.unexpected(c)
    }

    fn keyed(&mut self, key: Text, at: TextSpan) -> Step {
        self.s.pos = at.end;
        if let Some(top) = self.s.stack.last_mut() {
            top.key = Some((key, at));
            top.want = ExpectedToken::Colon;
        }
        Ok(())
    }

    pub(super) fn colon(&mut self, c: u8) -> Step {
        if c == b':' {
            self.s.pos += 1;
            if let Some(top) = self.s.stack.last_mut() {
                top.want = ExpectedToken::Value;
            }
            return Ok(());
        }
        if c == b',' || c == b'}' {
            return self.set_or_key_alone();
        }
        self.no_colon(c)
    }

    /// `{'a', 'b'}`: what looked like a key is the first item of a set.
    fn set_or_key_alone(&mut self) -> Step {
        let at = self.s.pos;
        let Some(top) = self.s.stack.last_mut() else { return Err(Stop::Wrong(at)) };
        if top.pairs.is_empty()
            && top.items.is_empty()
            && let Some((key, span)) = top.key.take()
        {
            top.open = Open::List(b'{');
            top.want = ExpectedToken::After;
            top.items.push(Node::new(NodeKind::Text(key), span.start, span.end));
            let start = top.start;
            self.python(EditKind::ListRespelled, TextSpan::new(start, start + 1), "[");
            return Ok(());
        }
        self.value_missing()
    }

    pub(super) fn argument(&mut self, c: u8) -> Step {
        let start = self.s.pos;
        if let Some((text, end)) = self.argument_name()? {
            if let Some(top) = self.s.stack.last_mut() {
                top.key = Some((text, TextSpan::new(start, end)));
                top.want = ExpectedToken::Value;
            }
            return Ok(());
        }
        self.value(c)
    }
}
