//! Estimates the memory of a compiled schema from its text.
//!
//! A pattern of ten characters can compile to a megabyte, and each one of a schema is compiled. So the sizes are added
//! up first, and the addition ends where the limit is passed. The work of compiling follows the size.

use std::collections::HashSet;

use regex_syntax::ast::{self, Ast, ClassSet, ClassSetItem, Flag, FlagsItemKind, RepetitionKind, RepetitionRange};
use serde_json::Value;

/// Bytes of one value of a schema's text, compiled.
const VALUE_BYTES: usize = 1_536;
/// Bytes of a pattern with no states, compiled and with the caches of its matcher.
const PATTERN_BYTES: usize = 48 << 10;
/// Bytes of one state of a pattern: in the automata for both directions, and in the caches of their matcher.
const STATE_BYTES: usize = 512;
/// States of a class of Unicode, such as `\p{L}`.
const UNICODE_CLASS_STATES: usize = 256;
/// States of one character that is not ASCII, or of one of any case.
const WIDE_STATES: usize = 4;
/// Bytes of text that are read for one escape: the translation from ECMAScript reads the whole pattern for each.
const BYTES_PER_ESCAPE: usize = 32;

/// Adds up the sizes of schemas.
pub(super) struct SizeEstimate<'s> {
    /// Bytes so far.
    bytes: usize,
    most: usize,
    /// Equal patterns are compiled once.
    patterns: HashSet<&'s str>,
}

/// Bytes of a compiled schema; `None` when there are more than `most`.
pub(super) fn estimate(schema: &Value, most: usize) -> Option<usize> {
    let mut size = SizeEstimate { bytes: 0, most, patterns: HashSet::new() };
    size.add_value(schema)?;
    Some(size.bytes)
}

impl<'s> SizeEstimate<'s> {
    fn add(&mut self, bytes: usize) -> Option<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        (self.bytes <= self.most).then_some(())
    }

    /// Whatever has the name of a pattern counts as one: a reference may lead to every place of a schema.
    fn add_value(&mut self, value: &'s Value) -> Option<()> {
        self.add(VALUE_BYTES)?;
        match value {
            Value::Object(fields) => fields.iter().try_for_each(|(name, inner)| {
                self.add(name.len())?;
                match (name.as_str(), inner) {
                    ("pattern", Value::String(pattern)) => self.add_pattern(pattern)?,
                    ("patternProperties", Value::Object(patterns)) => {
                        patterns.keys().try_for_each(|pattern| self.add_pattern(pattern))?;
                    }
                    _ => {}
                }
                self.add_value(inner)
            }),
            Value::Array(items) => items.iter().try_for_each(|item| self.add_value(item)),
            Value::String(text) => self.add(text.len()),
            Value::Null | Value::Bool(_) | Value::Number(_) => Some(()),
        }
    }

    fn add_pattern(&mut self, pattern: &'s str) -> Option<()> {
        if !self.patterns.insert(pattern) {
            return Some(());
        }
        self.add(pattern.len().saturating_mul(escapes(pattern)).saturating_mul(BYTES_PER_ESCAPE))?;
        self.add(PATTERN_BYTES.saturating_add(states_of(pattern).saturating_mul(STATE_BYTES)))
    }
}

/// States of the automaton of a pattern. A pattern that cannot be read has as many as bytes: it is refused later.
pub(super) fn states_of(pattern: &str) -> usize {
    let read = || {
        let translated = jsonschema_regex::to_rust_regex(pattern).ok()?;
        let ast = ast::parse::Parser::new().parse(&translated).ok()?;
        Some(States { folds_case: false }.count_states(&ast))
    };
    read().unwrap_or(pattern.len())
}

/// Escapes that the translation replaces one by one.
fn escapes(pattern: &str) -> usize {
    pattern
        .as_bytes()
        .windows(2)
        .filter(|two| two[0] == b'\\' && matches!(two[1], b'd' | b'D' | b'w' | b'W' | b's' | b'S' | b'c'))
        .count()
}

/// Counts states. The parser limits the nesting of a pattern.
struct States {
    /// Whether a part so far ignores case.
    folds_case: bool,
}

impl States {
    fn count_states(&mut self, ast: &Ast) -> usize {
        match ast {
            Ast::Empty(_) | Ast::Assertion(_) => 1,
            Ast::Flags(set) => {
                self.set_flags(&set.flags);
                1
            }
            Ast::Literal(literal) => self.character(literal.c),
            Ast::Dot(_) => WIDE_STATES,
            Ast::ClassUnicode(_) => UNICODE_CLASS_STATES,
            Ast::ClassPerl(_) => UNICODE_CLASS_STATES,
            Ast::ClassBracketed(class) => {
                let negated = if class.negated { WIDE_STATES } else { 0 };
                1 + negated + self.set(&class.kind)
            }
            Ast::Repetition(repetition) => {
                let times = match &repetition.op.kind {
                    RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => 1,
                    RepetitionKind::Range(
                        RepetitionRange::Exactly(n) | RepetitionRange::AtLeast(n) | RepetitionRange::Bounded(_, n),
                    ) => usize::try_from(*n).unwrap_or(usize::MAX).saturating_add(1),
                };
                self.count_states(&repetition.ast).max(1).saturating_mul(times).saturating_add(1)
            }
            Ast::Group(group) => {
                if let ast::GroupKind::NonCapturing(flags) = &group.kind {
                    self.set_flags(flags);
                }
                self.count_states(&group.ast).saturating_add(2)
            }
            Ast::Alternation(alternation) => self.sum(&alternation.asts),
            Ast::Concat(concat) => self.sum(&concat.asts),
        }
    }

    fn sum(&mut self, parts: &[Ast]) -> usize {
        parts.iter().fold(1, |sum: usize, part| sum.saturating_add(self.count_states(part)))
    }

    fn set_flags(&mut self, flags: &ast::Flags) {
        self.folds_case |= flags.items.iter().any(|item| item.kind == FlagsItemKind::Flag(Flag::CaseInsensitive));
    }

    fn character(&self, c: char) -> usize {
        if c.is_ascii() && !self.folds_case { 1 } else { WIDE_STATES }
    }

    /// Ranges of ASCII share one state.
    fn set(&self, set: &ClassSet) -> usize {
        match set {
            ClassSet::Item(item) => self.item(item),
            ClassSet::BinaryOp(both) => self.set(&both.lhs).saturating_add(self.set(&both.rhs)),
        }
    }

    fn item(&self, item: &ClassSetItem) -> usize {
        match item {
            ClassSetItem::Empty(_) | ClassSetItem::Ascii(_) => 0,
            ClassSetItem::Literal(literal) => self.character(literal.c) - 1,
            ClassSetItem::Range(range) => self.character(range.start.c).max(self.character(range.end.c)) - 1,
            ClassSetItem::Unicode(_) | ClassSetItem::Perl(_) => UNICODE_CLASS_STATES,
            ClassSetItem::Bracketed(class) => (if class.negated { WIDE_STATES } else { 0 }) + self.set(&class.kind),
            ClassSetItem::Union(union) => {
                union.items.iter().fold(0_usize, |sum, item| sum.saturating_add(self.item(item)))
            }
        }
    }
}
