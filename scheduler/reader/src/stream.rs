//! Parses a plan from a stream and returns each step as soon as it is complete.

use std::collections::BTreeMap;

use crate::catalogue::ToolCatalogue;
use crate::edit::Edits;
use crate::limits::{ReaderLimits, TOKEN, WorkBudget};
use crate::node::Node;
use crate::parse::{Open, Parser, ParserState, Stop};
use crate::reading::{Item, Reading, TextEnd};
use crate::shape;
use crate::span::TextSpan;
use crate::value::parse_ended_value;

/// How far back from a bracket an open text is looked for.
const NEAR_CHARS: usize = 300;

/// An incremental reader, fed with the bytes of an answer as they arrive.
///
/// Steps returned before the end are provisional: those of the first list, or of the first lines, that look like a plan.
/// [`Stream::finish`] parses the whole text and reports which of them the plan contains. Every returned step is complete. A
/// text with syntax errors returns no more steps until the end.
#[derive(Clone, Debug)]
pub struct Stream {
    text: String,
    /// The first bytes of a character whose others have not arrived.
    rest: Vec<u8>,
    phase: StreamPhase,
    given: Vec<Item>,
    limits: ReaderLimits,
    /// Work done so far, in units.
    work: usize,
}

#[derive(Clone, Debug)]
enum StreamPhase {
    /// Looking for a value from this byte on.
    Seeking(usize),
    /// In a value; how many of its items were looked at.
    Inside { state: Box<ParserState>, start: usize, seen: usize },
    /// Nothing more is given before the end.
    Closed,
}

/// The result of a finished stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    pub reading: Reading,
    /// The whole text. Spans are of this one; bytes that were not UTF-8 stand in it as `?`.
    pub text: String,
    /// The steps given early, in the order they were given.
    pub given: Vec<Item>,
    /// Which of those, counted from 0, the reading does not have.
    pub withdrawn: Vec<usize>,
}

impl Stream {
    #[must_use]
    pub fn new(limits: ReaderLimits) -> Self {
        Self {
            text: String::new(),
            rest: Vec::new(),
            phase: StreamPhase::Seeking(0),
            given: Vec::new(),
            limits,
            work: 0,
        }
    }

    /// The text so far.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it has cost so far.
    #[cfg(test)]
    pub(crate) fn work(&self) -> usize {
        self.work
    }

    /// Parses the next bytes and returns the steps that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Item> {
        if self.text.len() + bytes.len() > self.limits.bytes_max {
            self.phase = StreamPhase::Closed;
        }
        self.append(bytes);
        let before = self.given.len();
        let budget = WorkBudget::half_for_text(&self.text);
        while self.work <= budget.left() && self.given.len() < self.limits.values_max && self.advance() {}
        if self.work > budget.left() || self.given.len() >= self.limits.values_max {
            self.phase = StreamPhase::Closed;
        }
        self.given[before..].to_vec()
    }

    /// Parses the whole text and compares it with the returned steps.
    #[must_use]
    pub fn finish(mut self, catalogue: &ToolCatalogue, ended: TextEnd) -> Ending {
        if !self.rest.is_empty() {
            self.rest.clear();
            self.text.push('?');
        }
        let reading = parse_ended_value(&self.text, ended, catalogue, &self.limits);
        let held: BTreeMap<TextSpan, &Item> = reading.items.iter().map(|i| (i.span, i)).collect();
        let has = |item: &Item| held.get(&item.span).is_some_and(|i| i.value == item.value);
        let withdrawn = (0..self.given.len()).filter(|n| !has(&self.given[*n])).collect();
        Ending { reading, text: self.text, given: self.given, withdrawn }
    }

    fn append(&mut self, bytes: &[u8]) {
        let joined;
        let mut bytes = if self.rest.is_empty() {
            bytes
        } else {
            joined = [self.rest.as_slice(), bytes].concat();
            joined.as_slice()
        };
        loop {
            match std::str::from_utf8(bytes) {
                Ok(text) => {
                    self.text.push_str(text);
                    self.rest.clear();
                    return;
                }
                Err(error) => {
                    let (good, bad) = bytes.split_at(error.valid_up_to());
                    self.text.push_str(&String::from_utf8_lossy(good));
                    let Some(len) = error.error_len() else {
                        self.rest = bad.to_vec();
                        return;
                    };
                    self.text.push('?');
                    bytes = &bad[len..];
                }
            }
        }
    }

    /// Takes one look at the text; whether another makes sense.
    fn advance(&mut self) -> bool {
        match std::mem::replace(&mut self.phase, StreamPhase::Closed) {
            StreamPhase::Closed => false,
            StreamPhase::Seeking(from) => match self.text[from..].find(['{', '[']) {
                // What a text holds that is an argument is no plan; where it ends, the whole will tell.
                Some(n) if is_in_argument(&self.text[..from + n]) => false,
                Some(n) => {
                    let start = from + n;
                    let state = Box::new(ParserState::new(start, false, &self.limits));
                    self.phase = StreamPhase::Inside { state, start, seen: 0 };
                    true
                }
                None => {
                    self.phase = StreamPhase::Seeking(self.text.len());
                    false
                }
            },
            StreamPhase::Inside { state, start, seen } => self.continue_inside(*state, start, seen),
        }
    }

    fn continue_inside(&mut self, state: ParserState, start: usize, seen: usize) -> bool {
        let (from, left) =
            (state.pos.max(state.scanned), WorkBudget::half_for_text(&self.text).left().saturating_sub(self.work));
        let mut parser = Parser::new(&self.text, state.renewed().within(left));
        let stop = parser.parse_to_end();
        let state = parser.into_state();
        self.work += state.spent(from) + TOKEN;
        match stop {
            Stop::End => {
                let fresh = open_steps(&state, &self.text, seen);
                let seen = seen + fresh.len();
                self.given.extend(fresh.into_iter().flatten());
                self.phase = StreamPhase::Inside { state: Box::new(state), start, seen };
                false
            }
            Stop::Done => match &state.root {
                Some(root) => self.close(root, seen),
                None => false,
            },
            Stop::Wrong(_) | Stop::Deep | Stop::Broken | Stop::Costly => {
                let fresh = open_steps(&state, &self.text, seen);
                let plan = seen > 0 || !fresh.is_empty() || !self.given.is_empty();
                self.given.extend(fresh.into_iter().flatten());
                if plan {
                    return false;
                }
                self.phase = StreamPhase::Seeking(start + 1);
                true
            }
        }
    }

    /// A value is closed: the rest of its steps, or itself as one.
    fn close(&mut self, root: &Node, seen: usize) -> bool {
        let steps = shape::steps(root, &self.text);
        let one = matches!(steps.as_slice(), [only] if std::ptr::eq(*only, root));
        let last = self.given.last().map_or(0, |i| i.span.end);
        let fresh: Vec<&Node> = steps.into_iter().filter(|s| s.span.start >= last).collect();
        let before = self.given.len();
        let items = items(&fresh, &self.text);
        self.given.extend(items);
        if one || self.given.len() == before && seen == 0 {
            // One object a line; or something that is no plan.
            self.phase = StreamPhase::Seeking(root.span.end);
            return true;
        }
        false
    }
}

/// Whether a text that an argument or a value has begun is still open where this one ends: `run(code="x = `.
fn is_in_argument(before: &str) -> bool {
    let near = before.char_indices().rev().take(NEAR_CHARS).last().map_or(before, |(from, _)| &before[from..]);
    let trimmed = near.trim_end();
    if trimmed.ends_with("\"\"\"") || trimmed.ends_with("'''") {
        return true;
    }
    let line = near.rsplit('\n').next().unwrap_or(near);
    // The last quote is an opening one.
    let is_open = |at: usize| line[..at].trim_end().ends_with(['=', '(']);
    ['"', '\''].into_iter().any(|quote| line.rfind(quote).is_some_and(is_open))
}

fn items(nodes: &[&Node], text: &str) -> Vec<Item> {
    let mut ignored = Edits::default();
    nodes
        .iter()
        .filter(|n| shape::is_step(n, text))
        .map(|n| Item { value: n.value(text, &mut ignored), span: n.span })
        .collect()
}

/// The closed items, from `seen` on, of the list of steps that is being read: the outermost list, or the one a plan
/// keeps under a key of its own. `None` for what is no step.
fn open_steps(state: &ParserState, text: &str, seen: usize) -> Vec<Option<Item>> {
    let tables = state.stack.iter().take_while(|f| f.open == Open::Map && f.is_at_list(text)).count();
    let Some(frame) = state.stack.get(tables).filter(|f| matches!(f.open, Open::List(_))) else { return Vec::new() };
    let mut ignored = Edits::default();
    let item = |node: &Node| {
        shape::is_step(node, text).then(|| Item { value: node.value(text, &mut ignored), span: node.span })
    };
    frame.items.iter().skip(seen).map(item).collect()
}
