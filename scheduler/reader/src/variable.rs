//! Names that stand for a value: `city = "Paris"` in the lines before a call that says `city=city`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::edit::{EditKind, Edits};
use crate::limits::{ReaderLimits, TOKEN, WorkBudget};
use crate::node::{Node, NodeKind, Text};
use crate::number;
use crate::parse::{Parser, ParserState, Stop};

/// Longer values are not put in the place of their names. Bytes.
const VALUE_MAX: usize = 1024;

/// What was assigned so far. `None` for a name whose value is not written, or was assigned more than once.
#[derive(Debug, Default)]
pub(crate) struct Variables<'a>(HashMap<&'a str, Option<Node>>);

impl<'a> Variables<'a> {
    /// Notes the assignment whose name stands at `start..end`, if there is one.
    pub(crate) fn note(&mut self, text: &'a str, start: usize, end: usize, limits: &ReaderLimits, budget: &WorkBudget) {
        let name = &text[start..end];
        let behind = text[end..].trim_start_matches([' ', '\t']);
        let Some(value) = behind.strip_prefix('=').filter(|v| !v.starts_with('=')) else { return };
        if name.contains(['.', '\\']) || !begins_statement(text, start) {
            return;
        }
        let at = text.len() - value.trim_start_matches([' ', '\t']).len();
        let node = literal(text, at, limits, budget).filter(|n| n.span.len() <= VALUE_MAX);
        match self.0.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(node);
            }
            Entry::Occupied(mut entry) => *entry.get_mut() = None,
        }
    }

    /// Puts the values in the place of the names in a value that was repaired. A name whose value is not written stays as
    /// text, and the edit says that it is an expression.
    pub(crate) fn resolve(&self, node: &mut Node, text: &str, edits: &mut Edits, budget: &WorkBudget) {
        if self.0.is_empty() || edits.guesses == 0 {
            return;
        }
        match &mut node.kind {
            NodeKind::Text(Text::Word(word)) => {
                let Some(known) = self.0.get(word.slice(text)) else { return };
                let Some(edit) = edits.list.iter_mut().find(|e| e.kind == EditKind::ValueQuoted && e.at == node.span)
                else {
                    return;
                };
                budget.spend(TOKEN);
                match known {
                    Some(value) => {
                        budget.spend(value.span.len());
                        edit.kind = EditKind::VariableRead;
                        edit.became = crate::edit::shown(value.span.slice(text));
                        node.kind = value.kind.clone();
                    }
                    None => edit.kind = EditKind::ExpressionQuoted,
                }
            }
            NodeKind::List(items) => items.iter_mut().for_each(|i| self.resolve(i, text, edits, budget)),
            NodeKind::Map(pairs) => pairs.iter_mut().for_each(|(_, v)| self.resolve(v, text, edits, budget)),
            NodeKind::Call(call) => {
                let values = call.positional.iter_mut().chain(call.named.iter_mut().map(|(_, v)| v));
                values.for_each(|v| self.resolve(v, text, edits, budget));
            }
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) => {}
        }
    }
}

/// Whether a statement begins at `at`: on a line of its own that continues no bracket or comma, or behind a `;`.
fn begins_statement(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches([' ', '\t', '`']);
    if before.is_empty() || before.ends_with(';') {
        return true;
    }
    before.ends_with('\n') && !before.trim_end().ends_with([',', '(', '[', '{', '\\'])
}

/// The value at `at`, if it is written out and the statement ends behind it.
fn literal(text: &str, at: usize, limits: &ReaderLimits, budget: &WorkBudget) -> Option<Node> {
    let line = text[at..].split(['\n', ';', '#']).next()?.trim_end();
    let node = match text.as_bytes().get(at)? {
        b'"' | b'\'' | b'[' | b'{' => {
            let mut parser = Parser::new(text, ParserState::new(at, false, limits).within(budget.left()).python());
            let stop = parser.parse_to_end();
            let state = parser.into_state();
            budget.spend(state.spent(at));
            state.root.filter(|_| stop == Stop::Done && state.edits.guesses == 0)?
        }
        _ => {
            let kind = match line {
                "True" | "true" => NodeKind::Bool(true),
                "False" | "false" => NodeKind::Bool(false),
                "None" | "null" => NodeKind::Null,
                _ => NodeKind::Number(number::parse_number(line).filter(|s| s.exact)?.number),
            };
            Node::new(kind, at, at + line.len())
        }
    };
    let is_clear = node.call().is_none() && !has_call(&node);
    let behind = text[node.span.end..].trim_start_matches([' ', '\t', '\r']);
    let ends = behind.is_empty() || behind.starts_with(['\n', ';', '#']);
    (ends && is_clear).then_some(node)
}

fn has_call(node: &Node) -> bool {
    match &node.kind {
        NodeKind::List(items) => items.iter().any(has_call),
        NodeKind::Map(pairs) => pairs.iter().any(|(_, v)| has_call(v)),
        NodeKind::Call(_) => true,
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_that_are_written_out_and_assigned_once_are_known() {
        let text = "a = 'x'\nb = f(1)\nc = 1; d = [1, 'y']\nc = 2\ne = 'x' + a\nf(\n  g=3\n)\nh == 4\n";
        let mut variables = Variables::default();
        for name in ["a =", "b =", "c = 1", "d =", "c = 2", "e =", "g=", "h ="] {
            let at = text.find(name).expect("there");
            variables.note(text, at, at + 1, &ReaderLimits::default(), &WorkBudget::for_text(text));
        }
        let mut known: Vec<(&str, bool)> = variables.0.iter().map(|(name, value)| (*name, value.is_some())).collect();
        known.sort_unstable();
        assert_eq!(known, [("a", true), ("b", false), ("c", false), ("d", true), ("e", false)]);
    }
}
