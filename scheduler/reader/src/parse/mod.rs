//! The parser: one pass over the bytes with an explicit stack, for JSON, Python literals and calls.
//!
//! It runs in two ways. Plain, it accepts what the notations allow and stops at the first byte they don't; it can be
//! resumed when more text arrives. Mending, it goes on where the text is broken, and notes each guess.

mod bare;
mod mend;
mod quote;
mod string;
mod word;

pub(crate) use word::name_end;

use crate::edit::{EditKind, Edits};
use crate::escape::{Dialect, Met};
use crate::limits::{Limits, TOKEN};
use crate::node::{CallNode, Kind, Node, Text};
use crate::shape;
use crate::span::Span;

/// Why the parser stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The value is closed; the node is in [`State::root`].
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

/// What the parser is doing; it outlives the text it was given, so that a longer one can be handed in.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) pos: usize,
    pub(crate) stack: Vec<Frame>,
    pub(crate) root: Option<Node>,
    pub(crate) edits: Edits,
    pub(crate) met: Met,
    pub(crate) dialect: Dialect,
    /// Up to where the string at `pos` is known to have no end.
    pub(crate) scanned: usize,
    mend: bool,
    depth_max: usize,
    guesses_max: usize,
    /// Bytes of text that fitted nowhere.
    dropped: usize,
    /// Bytes of lookahead left before the text counts as broken; keeps the time linear.
    fuel: usize,
    filled: usize,
    /// Tokens read so far, and units of lookahead.
    work: usize,
    work_max: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) open: Open,
    pub(crate) start: usize,
    pub(crate) want: Want,
    pub(crate) items: Vec<Node>,
    pub(crate) pairs: Vec<(Text, Node)>,
    key: Option<(Text, Span)>,
    name: Option<Text>,
    commas: usize,
    /// Whether the item being read began with a quote that was left out.
    quoted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// Opened by this byte: `[`, `(`, or `{` for a set.
    List(u8),
    Map,
    Call,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Something, or the end.
    First,
    /// Something; the end after a comma.
    Item,
    Colon,
    Value,
    /// A comma or the end.
    After,
}

pub(crate) struct Parser<'a> {
    src: &'a str,
    bytes: &'a [u8],
    s: State,
}

type Step = Result<(), Stop>;

impl State {
    /// To read the value that starts at `pos`.
    pub(crate) fn new(pos: usize, mend: bool, limits: &Limits) -> Self {
        Self {
            pos,
            stack: Vec::new(),
            root: None,
            edits: Edits::default(),
            met: Met::default(),
            dialect: Dialect::Json,
            scanned: 0,
            mend,
            depth_max: limits.depth(),
            guesses_max: limits.guesses_max,
            dropped: 0,
            fuel: usize::MAX,
            filled: usize::MAX,
            work: 0,
            work_max: usize::MAX,
        }
    }

    /// To go on with, its work so far set aside.
    pub(crate) fn renewed(mut self) -> Self {
        self.work = 0;
        self
    }

    /// Gives up after this much work.
    pub(crate) fn within(mut self, work_max: usize) -> Self {
        self.work_max = work_max;
        self
    }

    /// What reading from `start` on has cost.
    pub(crate) fn spent(&self, start: usize) -> usize {
        self.work + (self.pos.max(self.scanned)).saturating_sub(start) + (self.filled - self.fuel)
    }

    pub(crate) fn python(mut self) -> Self {
        self.dialect = Dialect::Python;
        self
    }

    /// What was read of a value whose text ended, as a tree whose open branches are not whole.
    pub(crate) fn partial(mut self, end: usize) -> Option<Node> {
        let mut inner: Option<Node> = None;
        while let Some(mut frame) = self.stack.pop() {
            if let Some(child) = inner.take() {
                match frame.open {
                    Open::List(_) => frame.items.push(child),
                    Open::Map | Open::Call => match frame.key.take() {
                        Some((key, _)) => frame.pairs.push((key, child)),
                        None => frame.items.push(child),
                    },
                }
            }
            let start = frame.start;
            let mut node = Node::new(frame.into_kind(), start, end);
            node.whole = false;
            inner = Some(node);
        }
        inner
    }
}

impl Frame {
    fn new(open: Open, start: usize) -> Self {
        Self {
            open,
            start,
            want: Want::First,
            items: Vec::new(),
            pairs: Vec::new(),
            key: None,
            name: None,
            commas: 0,
            quoted: false,
        }
    }

    /// Whether the value being read stands under a key where plans keep their steps.
    pub(crate) fn is_at_list(&self, source: &str) -> bool {
        self.key.as_ref().is_some_and(|(key, _)| shape::is_list_key(key.of(source)))
    }

    fn into_kind(self) -> Kind {
        match self.open {
            Open::List(_) => Kind::List(self.items),
            Open::Map => Kind::Map(self.pairs),
            Open::Call => Kind::Call(Box::new(CallNode {
                name: self.name.unwrap_or(Text::Own(String::new())),
                positional: self.items,
                named: self.pairs,
            })),
        }
    }

    fn closer(&self) -> u8 {
        match self.open {
            Open::List(b'[') => b']',
            Open::List(b'{') | Open::Map => b'}',
            Open::List(_) | Open::Call => b')',
        }
    }
}

impl<'a> Parser<'a> {
    pub(crate) fn new(src: &'a str, state: State) -> Self {
        let mut parser = Self { src, bytes: src.as_bytes(), s: state };
        if parser.s.mend && parser.s.fuel == usize::MAX {
            parser.s.fuel = 4 * (src.len() - parser.s.pos.min(src.len())) + 4096;
            parser.s.filled = parser.s.fuel;
        }
        parser
    }

    pub(crate) fn into_state(self) -> State {
        self.s
    }

    /// Reads until the value is closed, the text ends, or something is wrong.
    pub(crate) fn run(&mut self) -> Stop {
        loop {
            match self.step() {
                Ok(()) => {}
                Err(stop) => return stop,
            }
            if self.s.mend && self.s.edits.guesses > self.s.guesses_max {
                return Stop::Broken;
            }
            self.s.work += if self.s.mend { 4 * TOKEN } else { TOKEN };
            if self.s.work > self.s.work_max {
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
            (_, Want::First | Want::Item) if is_closer(c) => self.close(c),
            (_, Want::First | Want::Item) if c == b',' => self.stray_comma(),
            (Open::List(_), Want::First | Want::Item | Want::Value | Want::Colon) => self.value(c),
            (Open::Map, Want::First | Want::Item) => self.key(c),
            (Open::Map, Want::Colon) => self.colon(c),
            (Open::Call, Want::First | Want::Item) => self.argument(c),
            (Open::Map | Open::Call, Want::Value) if is_closer(c) || c == b',' => self.value_missing(),
            (Open::Map | Open::Call, Want::Value) => self.value(c),
            (Open::Call, Want::Colon) => self.value(c),
            (_, Want::After) => self.after(c),
        }
    }

    fn after(&mut self, c: u8) -> Step {
        if c == b',' {
            self.s.pos += 1;
            if let Some(top) = self.s.stack.last_mut() {
                top.want = Want::Item;
                top.commas += 1;
            }
            return Ok(());
        }
        if is_closer(c) {
            return self.close(c);
        }
        if let Some(quote) = self.quote_at(self.s.pos)
            && !self.s.mend
            && self.last_is_text()
        {
            return self.join(quote);
        }
        self.unexpected(c)
    }

    /// `'a' 'b'`, which Python reads as one string.
    fn join(&mut self, quote: quote::Quote) -> Step {
        let start = self.s.pos;
        let (text, end) = self.string(quote, quote::Place::Item)?;
        let src = self.src;
        let Some(node) = self.last_value() else { return Err(Stop::Wrong(start)) };
        let mut joined = match std::mem::replace(&mut node.kind, Kind::Null) {
            Kind::Text(Text::Own(own)) => own,
            Kind::Text(former) => former.of(src).to_owned(),
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::List(_) | Kind::Map(_) | Kind::Call(_) => {
                String::new()
            }
        };
        joined.push_str(text.of(src));
        let first = node.span;
        node.kind = Kind::Text(Text::Own(joined));
        node.span.end = end;
        self.s.pos = end;
        self.python(EditKind::StringsJoined, Span::new(first.start, end), "");
        Ok(())
    }

    fn key(&mut self, c: u8) -> Step {
        let start = self.s.pos;
        if matches!(c, b'"' | b'\'')
            && self.s.stack.last().is_some_and(|f| f.want == Want::First)
            && self.call_in_quotes()
        {
            return Ok(());
        }
        if let Some(quote) = self.quote_at(start) {
            let (text, end) = self.string(quote, quote::Place::Key)?;
            return self.keyed(text, Span::new(start, end));
        }
        if self.s.mend && (c == b'{' || c == b'[') {
            return self.opener_for_key(c);
        }
        if let Some((text, end)) = self.bare_key()? {
            self.s.edits.respelled(
                EditKind::KeyQuoted,
                Span::new(start, end),
                &self.src[start..end],
                text.of(self.src),
            );
            return self.keyed(text, Span::new(start, end));
        }
        self.unexpected(c)
    }

    fn keyed(&mut self, key: Text, at: Span) -> Step {
        self.s.pos = at.end;
        if let Some(top) = self.s.stack.last_mut() {
            top.key = Some((key, at));
            top.want = Want::Colon;
        }
        Ok(())
    }

    fn colon(&mut self, c: u8) -> Step {
        if c == b':' {
            self.s.pos += 1;
            if let Some(top) = self.s.stack.last_mut() {
                top.want = Want::Value;
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
            top.want = Want::After;
            top.items.push(Node::new(Kind::Text(key), span.start, span.end));
            let start = top.start;
            self.python(EditKind::ListRespelled, Span::new(start, start + 1), "[");
            return Ok(());
        }
        self.value_missing()
    }

    fn argument(&mut self, c: u8) -> Step {
        let start = self.s.pos;
        if let Some((text, end)) = self.argument_name()? {
            if let Some(top) = self.s.stack.last_mut() {
                top.key = Some((text, Span::new(start, end)));
                top.want = Want::Value;
            }
            return Ok(());
        }
        self.value(c)
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
                    self.put(Node::new(Kind::Text(text), start, end))
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
        self.s.stack.push(Frame::new(open, self.s.pos));
        self.s.pos += 1;
        Ok(())
    }

    /// Opens a call whose name ended before the `(` at `paren`.
    fn open_call(&mut self, name: Text, start: usize, paren: usize) -> Step {
        if self.s.stack.len() >= self.s.depth_max {
            return Err(Stop::Deep);
        }
        let mut frame = Frame::new(Open::Call, start);
        frame.name = Some(name);
        self.s.stack.push(frame);
        self.s.pos = paren + 1;
        self.s.edits.respelled(EditKind::CallRead, Span::new(start, paren + 1), &self.src[start..=paren], "");
        Ok(())
    }

    /// Puts a finished value where it belongs.
    fn put(&mut self, node: Node) -> Step {
        self.s.pos = node.span.end;
        let Some(top) = self.s.stack.last_mut() else {
            self.s.root = Some(node);
            return Err(Stop::Done);
        };
        match (top.open, top.key.take()) {
            (Open::Map | Open::Call, Some((key, _))) => top.pairs.push((key, node)),
            (Open::List(_) | Open::Map | Open::Call, _) => top.items.push(node),
        }
        top.want = Want::After;
        Ok(())
    }

    /// A closing bracket that fits the innermost open one; the others are for mending.
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
        let span = Span::new(frame.start, self.s.pos);
        if frame.want == Want::Item && frame.open != Open::List(b'(') {
            let at = Span::new(span.end.saturating_sub(1), span.end);
            self.s.edits.respelled(EditKind::TrailingCommaDropped, at, ",", "");
        }
        if frame.open == Open::List(b'(') {
            self.python(EditKind::ListRespelled, Span::new(span.start, span.start + 1), "[");
            if frame.items.len() == 1 && frame.commas == 0 {
                // `(x)` is `x` in brackets, not a list of one.
                let mut node = frame.items.remove(0);
                node.span = span;
                return self.put(node);
            }
        }
        self.put(Node::new(frame.into_kind(), span.start, span.end))
    }

    /// Notes a spelling that only Python has, and reads escapes as Python does from here on.
    fn python(&mut self, kind: EditKind, at: Span, became: &str) {
        self.s.dialect = Dialect::Python;
        let was = at.of(self.src);
        self.s.edits.respelled(kind, at, was, became);
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.s.pos).copied()
    }

    fn last_value(&mut self) -> Option<&mut Node> {
        let top = self.s.stack.last_mut()?;
        match top.open {
            Open::List(_) => top.items.last_mut(),
            Open::Map => top.pairs.last_mut().map(|(_, v)| v),
            // The later of the two.
            Open::Call => match (top.items.last_mut(), top.pairs.last_mut()) {
                (Some(item), Some((_, value))) => Some(if item.span.start > value.span.start { item } else { value }),
                (item, pair) => item.or(pair.map(|(_, v)| v)),
            },
        }
    }

    fn in_list(&self) -> bool {
        self.s.stack.last().is_some_and(|f| matches!(f.open, Open::List(_)))
    }

    fn last_is_text(&mut self) -> bool {
        self.last_value().is_some_and(|v| matches!(v.kind, Kind::Text(_)))
    }

    /// Skips blanks and comments.
    fn skip_blank(&mut self) -> Step {
        loop {
            while self.peek().is_some_and(|c| matches!(c, b' ' | b'\n' | b'\t' | b'\r')) {
                self.s.pos += 1;
            }
            let rest = &self.bytes[self.s.pos.min(self.bytes.len())..];
            match rest.first() {
                Some(b'#') => self.skip_line()?,
                Some(b'/') => match rest.get(1) {
                    None => return Err(Stop::End),
                    Some(b'/') => self.skip_line()?,
                    Some(b'*') => {
                        let at = self.s.pos;
                        let end = self.src[at..].find("*/").ok_or(Stop::End)? + at + 2;
                        self.s.pos = end;
                        self.comment(at, end);
                    }
                    Some(_) => return Ok(()),
                },
                // Other blanks that models write: no-break and full-width spaces, byte order marks.
                Some(0x0c) => self.odd_blank(1),
                Some(0xc2) if rest.starts_with("\u{a0}".as_bytes()) => self.odd_blank(2),
                Some(0xe3) if rest.starts_with("\u{3000}".as_bytes()) => self.odd_blank(3),
                Some(0xef) if rest.starts_with("\u{feff}".as_bytes()) => self.odd_blank(3),
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) -> Step {
        // `#E1` and `#/path` are references, not comments; they are words of their own.
        let at = self.s.pos;
        if self.bytes[at] == b'#' && !matches!(self.bytes.get(at + 1), None | Some(b' ' | b'\t' | b'#' | b'\n')) {
            let before = self.s.stack.last().map(|f| f.want);
            if before != Some(Want::After) {
                return Err(Stop::Wrong(at));
            }
        }
        let end = self.src[at..].find('\n').ok_or(Stop::End)? + at;
        self.s.pos = end;
        self.comment(at, end);
        Ok(())
    }

    fn odd_blank(&mut self, len: usize) {
        let at = self.s.pos;
        self.s.pos += len;
        self.comment(at, at + len);
    }

    fn comment(&mut self, at: usize, end: usize) {
        self.s.edits.respelled(EditKind::CommentDropped, Span::new(at, end), &self.src[at..end], "");
    }
}

fn is_closer(c: u8) -> bool {
    matches!(c, b']' | b'}' | b')')
}
