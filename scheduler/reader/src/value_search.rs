//! Finds the values in a text: tries every position where a list, a table or a call may begin.

use crate::catalogue::ToolCatalogue;
use crate::edit::Edits;
use crate::escape::EscapeDialect;
use crate::limits::{ReaderLimits, WorkBudget};
use crate::node::{Node, NodeKind};
use crate::parse::{Parser, ParserState, Stop, name_end};
use crate::span::TextSpan;
use crate::variable::Variables;

/// A value that was found.
#[derive(Clone, Debug)]
pub(crate) struct FoundValue {
    pub(crate) node: Node,
    pub(crate) edits: Edits,
    /// Which fenced block it stands in, counted from 1; 0 outside of all.
    pub(crate) block: usize,
}

/// All that was found in a text.
#[derive(Debug, Default)]
pub(crate) struct SearchResult {
    pub(crate) values: Vec<FoundValue>,
    /// Where the fences stand.
    pub(crate) fences: Vec<TextSpan>,
    pub(crate) too_deep: bool,
    pub(crate) too_broken: bool,
    pub(crate) too_costly: bool,
    /// Where the search was given up.
    pub(crate) unread: Option<usize>,
}

/// What beginning to read costs, in units of work.
pub(crate) const START: usize = 64;

pub(crate) struct ValueSearch<'a> {
    pub(crate) text: &'a str,
    pub(crate) bytes: &'a [u8],
    pub(crate) catalogue: &'a ToolCatalogue,
    pub(crate) limits: &'a ReaderLimits,
    pub(crate) finds: SearchResult,
    pub(crate) block: usize,
    pub(crate) in_fence: bool,
    /// Whether the text ended in a string when a value was read last.
    pub(crate) in_string: bool,
    /// The first byte that is not blank.
    pub(crate) first: usize,
    /// The work that is left for it.
    pub(crate) budget: &'a WorkBudget,
    /// What was assigned so far.
    pub(crate) variables: Variables<'a>,
    /// What was read already, and from where.
    pub(crate) begun: Option<(usize, Stop, ParserState)>,
}

/// Finds every value.
pub(crate) fn find(text: &str, catalogue: &ToolCatalogue, limits: &ReaderLimits, budget: &WorkBudget) -> SearchResult {
    find_from(text, None, catalogue, limits, budget)
}

/// As [`find`], where one place was read plainly before.
pub(crate) fn find_from(
    text: &str,
    begun: Option<(usize, Stop, ParserState)>,
    catalogue: &ToolCatalogue,
    limits: &ReaderLimits,
    budget: &WorkBudget,
) -> SearchResult {
    let bytes = text.as_bytes();
    let first = text.len() - text.trim_start().len();
    let finds = SearchResult::default();
    let mut search = ValueSearch {
        text,
        bytes,
        catalogue,
        limits,
        finds,
        block: 0,
        in_fence: false,
        in_string: false,
        variables: Variables::default(),
        first,
        budget,
        begun,
    };
    let mut at = 0;
    while at < bytes.len() {
        if budget.left() == 0 || search.finds.values.len() >= limits.values_max {
            search.finds.too_costly |= budget.left() == 0;
            search.finds.unread = Some(at);
            break;
        }
        at = search.scan(at);
    }
    search.finds
}

impl ValueSearch<'_> {
    /// Tries the position `at`; returns the next position.
    fn scan(&mut self, at: usize) -> usize {
        match self.bytes[at] {
            b'{' | b'[' => self.value(at).unwrap_or(at + 1),
            b'`' if self.bytes[at..].starts_with(b"```") => self.fence(at),
            b'<' => self.tag(at).unwrap_or(at + 1),
            _ => {
                let end = name_end(self.bytes, at);
                if end == at {
                    return at + self.text[at..].chars().next().map_or(1, char::len_utf8);
                }
                self.name(at, end).unwrap_or(end)
            }
        }
    }

    fn fence(&mut self, at: usize) -> usize {
        let ticks = self.bytes[at..].iter().take_while(|b| **b == b'`').count();
        let mut end = at + ticks;
        self.in_fence = !self.in_fence;
        if self.in_fence {
            self.block += 1;
            let label = self.bytes[end..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
            // A label stands alone on its line; a call right behind the fence is none.
            if matches!(self.bytes.get(end + label), None | Some(b'\n' | b'\r' | b' ' | b'{' | b'[')) {
                let name = &self.text[end..end + label];
                if self.catalogue.is_empty() || self.catalogue.find(name).is_none() {
                    end += label;
                }
            }
        }
        self.finds.fences.push(TextSpan::new(at, end));
        end
    }

    /// Tries to read a value at `at`; where it ends.
    pub(crate) fn value(&mut self, at: usize) -> Option<usize> {
        let (node, edits) = self.parse(at)?;
        let end = node.span.end;
        // A bracket with nothing complete behind it may have been a word's; what follows is looked at all the same, but
        // not what a string holds that the text ends in.
        let bare = !node.whole && !self.in_string && !has_substance(&node) && self.text[at..].len() > 2;
        self.push_value(node, edits);
        (!bare).then_some(end)
    }

    pub(crate) fn push_value(&mut self, mut node: Node, mut edits: Edits) {
        self.variables.resolve(&mut node, self.text, &mut edits, self.budget);
        let block = if self.in_fence { self.block } else { 0 };
        self.finds.values.push(FoundValue { node, edits, block });
    }

    /// Reads the value at `at` plainly, else repairing.
    pub(crate) fn parse(&mut self, at: usize) -> Option<(Node, Edits)> {
        let (stop, state) = match self.begun.take() {
            Some((place, stop, state)) if place == at => (stop, state),
            begun => {
                self.begun = begun;
                plain(self.text, at, self.limits, self.budget)
            }
        };
        let plainly = stop == Stop::End;
        self.in_string = plainly && state.scanned > 0 && self.bytes.get(state.pos) == Some(&b'"');
        let (stop, state) = match stop {
            Stop::Wrong(_) => {
                let left = self.budget.left();
                let mut parser = Parser::new(self.text, ParserState::new(at, true, self.limits).within(left));
                let stop = parser.parse_to_end();
                let state = parser.into_state();
                self.budget.spend(state.spent(at) + START);
                (stop, state)
            }
            Stop::Done | Stop::End | Stop::Deep | Stop::Broken | Stop::Costly => (stop, state),
        };
        match stop {
            Stop::Done => {
                let edits = state.edits;
                let node = state.root?;
                (edits.guesses == 0 || has_substance(&node)).then_some((node, edits))
            }
            Stop::End => {
                let edits = state.edits.clone();
                let node = state.partial(self.text)?;
                (plainly || self.first == at || has_substance(&node)).then_some((node, edits))
            }
            Stop::Deep => {
                self.finds.too_deep = true;
                None
            }
            Stop::Broken => {
                self.finds.too_broken = true;
                None
            }
            Stop::Costly => {
                self.finds.too_costly = true;
                None
            }
            Stop::Wrong(_) => None,
        }
    }
}

/// Reads plainly; when the text turns out to be Python, with Python's escapes.
pub(crate) fn plain(text: &str, at: usize, limits: &ReaderLimits, budget: &WorkBudget) -> (Stop, ParserState) {
    let mut parser = Parser::new(text, ParserState::new(at, false, limits).within(budget.left()));
    let stop = parser.parse_to_end();
    let state = parser.into_state();
    budget.spend(state.spent(at) + START);
    if stop == Stop::Done && state.met.solidus && state.dialect == EscapeDialect::Python {
        let mut parser = Parser::new(text, ParserState::new(at, false, limits).within(budget.left()).python());
        let stop = parser.parse_to_end();
        let state = parser.into_state();
        budget.spend(state.spent(at) + START);
        return (stop, state);
    }
    (stop, state)
}

/// Whether a repaired value is more than some words between brackets.
fn has_substance(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) => false,
        NodeKind::Map(pairs) => !pairs.is_empty(),
        NodeKind::Call(_) => true,
        NodeKind::List(items) => {
            items.iter().any(Node::is_container) || items.iter().any(|i| matches!(&i.kind, NodeKind::Text(_)))
        }
    }
}
