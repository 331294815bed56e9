//! Parser state: the open brackets and the parsed content of each.

use crate::edit::Edits;
use crate::escape::{DecodedEscape, EscapeDialect};
use crate::limits::ReaderLimits;
use crate::node::{CallNode, Node, NodeKind, Text};
use crate::shape;
use crate::span::TextSpan;

/// What the parser is doing; it outlives the text it was given, so that a longer one can be handed in.
#[derive(Clone, Debug)]
pub(crate) struct ParserState {
    pub(crate) pos: usize,
    pub(crate) stack: Vec<ParserFrame>,
    pub(crate) root: Option<Node>,
    pub(crate) edits: Edits,
    pub(crate) met: DecodedEscape,
    pub(crate) dialect: EscapeDialect,
    /// Up to where the string at `pos` is known to have no end.
    pub(crate) scanned: usize,
    pub(super) repair: bool,
    pub(super) depth_max: usize,
    pub(super) guesses_max: usize,
    /// Bytes of text that fitted nowhere.
    pub(super) dropped: usize,
    /// Bytes of lookahead left before the text counts as broken; keeps the time linear.
    pub(super) fuel: usize,
    pub(super) filled: usize,
    /// Tokens read so far, and units of lookahead.
    pub(super) work: usize,
    pub(super) work_max: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct ParserFrame {
    pub(crate) open: Open,
    pub(crate) start: usize,
    pub(crate) want: ExpectedToken,
    pub(crate) items: Vec<Node>,
    pub(crate) pairs: Vec<(Text, Node)>,
    pub(super) key: Option<(Text, TextSpan)>,
    pub(super) name: Option<Text>,
    pub(super) commas: usize,
    /// Whether the item being read began with a quote that was left out.
    pub(super) quoted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// Opened by this byte: `[`, `(`, or `{` for a set.
    List(u8),
    Map,
    Call,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedToken {
    /// Something, or the end.
    First,
    /// Something; the end after a comma.
    Item,
    Colon,
    Value,
    /// A comma or the end.
    After,
}

impl ParserState {
    /// To read the value that starts at `pos`.
    pub(crate) fn new(pos: usize, repair: bool, limits: &ReaderLimits) -> Self {
        Self {
            pos,
            stack: Vec::new(),
            root: None,
            edits: Edits::default(),
            met: DecodedEscape::default(),
            dialect: EscapeDialect::Json,
            scanned: 0,
            repair,
            depth_max: limits.depth(),
            guesses_max: limits.guesses_max,
            dropped: 0,
            fuel: usize::MAX,
            filled: usize::MAX,
            work: 0,
            work_max: usize::MAX,
        }
    }

    /// To continue with, its work so far set aside.
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
        self.dialect = EscapeDialect::Python;
        self
    }

    /// What was read of a value whose text ended, as a tree whose open branches are not whole.
    pub(crate) fn partial(mut self, text: &str) -> Option<Node> {
        let end = text.len();
        if let Some(top) = self.stack.last_mut()
            && top.want == ExpectedToken::After
            && matches!(text.as_bytes().get(self.pos), Some(b'"' | b'\''))
        {
            // `'a' 'b` in Python: the text continues in another one, which is cut.
            drop(top.pop());
        }
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

impl ParserFrame {
    pub(super) fn new(open: Open, start: usize) -> Self {
        Self {
            open,
            start,
            want: ExpectedToken::First,
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
        self.key.as_ref().is_some_and(|(key, _)| shape::is_list_key(key.slice(source)))
    }

    /// Whether what was read last has a key; a call has values with and without.
    fn last_has_key(&self) -> bool {
        let pairs_last = self.pairs.last().map_or(0, |(_, v)| v.span.start);
        let items_last = self.items.last().map_or(0, |v| v.span.start);
        self.open == Open::Map || self.open == Open::Call && pairs_last > items_last
    }

    /// What was read last.
    pub(super) fn last(&mut self) -> Option<&mut Node> {
        if self.last_has_key() { self.pairs.last_mut().map(|(_, value)| value) } else { self.items.last_mut() }
    }

    /// Takes out what was read last, with its key.
    pub(super) fn pop(&mut self) -> Option<(Option<Text>, Node)> {
        if self.last_has_key() {
            self.pairs.pop().map(|(key, node)| (Some(key), node))
        } else {
            self.items.pop().map(|node| (None, node))
        }
    }

    pub(super) fn into_kind(self) -> NodeKind {
        match self.open {
            Open::List(_) => NodeKind::List(self.items),
            Open::Map => NodeKind::Map(self.pairs),
            Open::Call => NodeKind::Call(Box::new(CallNode {
                name: self.name.unwrap_or(Text::Own(String::new())),
                positional: self.items,
                named: self.pairs,
            })),
        }
    }

    pub(super) fn closer(&self) -> u8 {
        match self.open {
            Open::List(b'[') => b']',
            Open::List(b'{') | Open::Map => b'}',
            Open::List(_) | Open::Call => b')',
        }
    }
}
