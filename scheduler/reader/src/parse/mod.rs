//! The parser: one pass over the bytes with an explicit stack, for JSON, Python literals and calls.
//!
//! It runs in two ways. Plain, it accepts what the notations allow and stops at the first byte they don't; it can be
//! resumed when more text arrives. Repairing, it continues where the text is broken, and notes each guess.

mod bare;
mod blank;
mod bracket;
mod ending;
mod entry;
mod quote;
mod repair;
mod state;
mod string;
mod word;

pub(crate) use state::{Open, ParserState};
pub(crate) use word::name_end;

use state::{ExpectedToken, ParserFrame};

use crate::edit::EditKind;
use crate::escape::EscapeDialect;
use crate::limits::{ARGUMENT, CALL, CONTAINER, TOKEN};
use crate::node::{Node, NodeKind, Text};
use crate::span::TextSpan;

/// Why the parser stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The value is closed; the node is in [`ParserState::root`].
    Done,
    /// The text ended inside the value.
    End,
    /// Neither notation allows the byte at this place.
    Wrong(usize),
    /// Nested too deep.
    Deep,
    /// Too many guesses.
    Broken,
    /// Too much work.
    Costly,
}

pub(crate) struct Parser<'a> {
    src: &'a str,
    bytes: &'a [u8],
    s: ParserState,
}

type Step = Result<(), Stop>;

impl<'a> Parser<'a> {
    pub(crate) fn new(src: &'a str, state: ParserState) -> Self {
        let mut parser = Self { src, bytes: src.as_bytes(), s: state };
        if parser.s.repair && parser.s.fuel == usize::MAX {
            parser.s.fuel = 4 * (src.len() - parser.s.pos.min(src.len())) + 4096;
            parser.s.filled = parser.s.fuel;
        }
        parser
    }

    pub(crate) fn into_state(self) -> ParserState {
        self.s
    }

    /// Reads until the value is closed, the text ends, or something is wrong.
    pub(crate) fn parse_to_end(&mut self) -> Stop {
        loop {
            match self.step() {
                Ok(()) => {}
                Err(stop) => {
                    if stop == Stop::End {
                        // The parser has scanned up to there.
                        self.s.work += self.src.len().saturating_sub(self.s.pos.max(self.s.scanned));
                    }
                    return stop;
                }
            }
            if self.s.repair && self.s.edits.guesses > self.s.guesses_max {
                return Stop::Broken;
            }
            self.s.work += if self.s.repair { 6 * TOKEN } else { TOKEN };
            if self.s.work + (self.s.filled - self.s.fuel) > self.s.work_max {
                return Stop::Costly;
            }
        }
    }

    /// One token. A plain step that meets the end of the text changes nothing but blanks, so that it can be taken again.
    fn step(&mut self) -> Step {
        self.skip_blank()?;
        let c = self.peek().ok_or(Stop::End)?;
        let Some(top) = self.s.stack.last() else {
            return self.value(c);
        };
        match (top.open, top.want) {
            (_, ExpectedToken::First | ExpectedToken::Item) if is_closer(c) => self.close(c),
            (_, ExpectedToken::First | ExpectedToken::Item) if c == b',' => self.stray_comma(),
            (
                Open::List(_),
                ExpectedToken::First | ExpectedToken::Item | ExpectedToken::Value | ExpectedToken::Colon,
            ) => self.value(c),
            (Open::Map, ExpectedToken::First | ExpectedToken::Item) => self.key(c),
            (Open::Map, ExpectedToken::Colon) => self.colon(c),
            (Open::Call, ExpectedToken::First | ExpectedToken::Item) => self.argument(c),
            (Open::Map | Open::Call, ExpectedToken::Value) if is_closer(c) || c == b',' => self.value_missing(),
            (Open::Map | Open::Call, ExpectedToken::Value) => self.value(c),
            (Open::Call, ExpectedToken::Colon) => self.value(c),
            (_, ExpectedToken::After) => self.after(c),
        }
    }

    fn after(&mut self, c: u8) -> Step {
        if c == b',' {
            self.s.pos += 1;
            self.expect_item();
            return Ok(());
        }
        if is_closer(c) {
            return self.close(c);
        }
        if let Some(quote) = self.quote_at(self.s.pos)
            && !self.s.repair
            && self.joins(quote)
        {
            return self.join(quote);
        }
        self.unexpected(c)
    }

    /// Whether a text with this quote continues what was read last: Python knows no curly quotes.
    fn joins(&mut self, quote: quote::Quote) -> bool {
        let bytes = self.bytes;
        let is_typed = matches!(quote, quote::Quote::Plain(_) | quote::Quote::Triple(_));
        let former = self.last_value().filter(|v| matches!(v.kind, NodeKind::Text(_)));
        is_typed && former.is_some_and(|v| bytes[v.span.start].is_ascii())
    }

    /// `'a' 'b'`, which Python reads as one string.
    fn join(&mut self, quote: quote::Quote) -> Step {
        let start = self.s.pos;
        let (text, end) = self.string(quote, quote::QuotePosition::Item)?;
        let src = self.src;
        let Some(node) = self.last_value() else { return Err(Stop::Wrong(start)) };
        let mut joined = match std::mem::replace(&mut node.kind, NodeKind::Null) {
            NodeKind::Text(Text::Own(own)) => own,
            NodeKind::Text(former) => former.slice(src).to_owned(),
            NodeKind::Null
            | NodeKind::Bool(_)
            | NodeKind::Number(_)
            | NodeKind::List(_)
            | NodeKind::Map(_)
            | NodeKind::Call(_) => String::new(),
        };
        joined.push_str(text.slice(src));
        let first = node.span;
        node.kind = NodeKind::Text(Text::Own(joined));
        node.span.end = end;
        self.s.pos = end;
        self.python(EditKind::StringsJoined, TextSpan::new(first.start, end), "");
        Ok(())
    }

    fn value(&mut self, c: u8) -> Step {
        let start = self.s.pos;
        match c {
            b'{' => self.open(Open::Map),
            b'[' => self.open(Open::List(b'[')),
            b'(' if !self.s.stack.is_empty() => self.open(Open::List(b'(')),
            b'"' | b'\'' | b'`' | 0xe2 | 0xc2 => match self.quote_at(start) {
                Some(_) if matches!(c, b'"' | b'\'') && self.in_list() && self.call_in_quotes() => Ok(()),
                Some(quote) => {
                    let place = self.place_of_value();
                    let (text, end) = self.string(quote, place)?;
                    self.push_node(Node::new(NodeKind::Text(text), start, end))
                }
                None => self.word(),
            },
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.word(),
        }
    }

    fn open(&mut self, open: Open) -> Step {
        if self.s.stack.len() >= self.s.depth_max {
            return Err(Stop::Deep);
        }
        self.s.work += CONTAINER;
        self.s.stack.push(ParserFrame::new(open, self.s.pos));
        self.s.pos += 1;
        Ok(())
    }

    /// Opens a call whose name ended before the `(` at `paren`.
    fn open_call(&mut self, name: Text, start: usize, paren: usize) -> Step {
        if self.s.stack.len() >= self.s.depth_max {
            return Err(Stop::Deep);
        }
        self.s.work += CALL;
        let mut frame = ParserFrame::new(Open::Call, start);
        frame.name = Some(name);
        self.s.stack.push(frame);
        self.s.pos = paren + 1;
        self.s.edits.respelled(EditKind::CallRead, TextSpan::new(start, paren + 1), &self.src[start..=paren], "");
        Ok(())
    }

    /// Puts a finished value where it belongs.
    fn push_node(&mut self, node: Node) -> Step {
        self.s.pos = node.span.end;
        let Some(top) = self.s.stack.last_mut() else {
            self.s.root = Some(node);
            return Err(Stop::Done);
        };
        if top.open == Open::Call {
            self.s.work += ARGUMENT;
        }
        match (top.open, top.key.take()) {
            (Open::Map | Open::Call, Some((key, _))) => top.pairs.push((key, node)),
            (Open::List(_) | Open::Map | Open::Call, _) => top.items.push(node),
        }
        top.want = ExpectedToken::After;
        Ok(())
    }

    /// A closing bracket that fits the innermost open one; the others are for repairing.
    fn close(&mut self, c: u8) -> Step {
        match self.s.stack.last() {
            Some(top) if top.closer() == c => {}
            _ => return self.close_other(c),
        }
        self.s.pos += 1;
        self.pop()
    }

    /// Takes the innermost frame as finished before `pos`.
    fn pop(&mut self) -> Step {
        let Some(mut frame) = self.s.stack.pop() else { return Err(Stop::Wrong(self.s.pos)) };
        let span = TextSpan::new(frame.start, self.s.pos);
        if frame.want == ExpectedToken::Item && frame.open != Open::List(b'(') {
            let at = TextSpan::new(span.end.saturating_sub(1), span.end);
            self.s.edits.respelled(EditKind::TrailingCommaDropped, at, ",", "");
        }
        if frame.open == Open::List(b'(') {
            self.python(EditKind::ListRespelled, TextSpan::new(span.start, span.start + 1), "[");
            if frame.items.len() == 1 && frame.commas == 0 {
                // `(x)` is `x` in brackets, not a list of one.
                let mut node = frame.items.remove(0);
                node.span = span;
                return self.push_node(node);
            }
        }
        self.push_node(Node::new(frame.into_kind(), span.start, span.end))
    }

    /// Notes a spelling that only Python has, and reads escapes as Python does from here on.
    fn python(&mut self, kind: EditKind, at: TextSpan, became: &str) {
        self.s.dialect = EscapeDialect::Python;
        let was = at.slice(self.src);
        self.s.edits.respelled(kind, at, was, became);
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.s.pos).copied()
    }

    fn last_value(&mut self) -> Option<&mut Node> {
        self.s.stack.last_mut()?.last()
    }

    fn in_list(&self) -> bool {
        self.s.stack.last().is_some_and(|f| matches!(f.open, Open::List(_)))
    }

    fn last_is_text(&mut self) -> bool {
        self.last_value().is_some_and(|v| matches!(v.kind, NodeKind::Text(_)))
    }
}

fn is_closer(c: u8) -> bool {
    matches!(c, b']' | b'}' | b')')
}
