//! Parses a text as a value: a plan, a step or a list of steps.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::catalogue::ToolCatalogue;
use crate::edit::{EditKind, Edits};
use crate::limits::{ReaderLimits, WorkBudget};
use crate::lines;
use crate::node::Node;
use crate::parse::Stop;
use crate::reading::{Item, Other, Reading, TextEnd, UnreadableReason, Verdict};
use crate::shape;
use crate::span::TextSpan;
use crate::value_search::{FoundValue, SearchResult, find_from, plain};

/// A way to read the text: one value, or several as a list.
struct ValueCandidate {
    first: usize,
    last: usize,
    score: i64,
    guesses: usize,
    items: usize,
}

/// Parses `text` as a plan or any other value.
///
/// Finds all values in the text, repairs broken ones, and scores them by the shape of plans and by the actions of the
/// catalogue. The best one is the result, the others are listed in it. Time is linear in the length of the text, which
/// [`ReaderLimits::bytes_max`] bounds.
#[must_use]
pub fn parse_value(text: &str, catalogue: &ToolCatalogue, limits: &ReaderLimits) -> Reading {
    parse_ended_value(text, TextEnd::Stopped, catalogue, limits)
}

/// Like [`parse_value`], with the way the server ended the text.
///
/// A truncated text has at best the verdict `Truncated`, and its last line is omitted unless it is known to be complete.
#[must_use]
pub fn parse_ended_value(text: &str, ended: TextEnd, catalogue: &ToolCatalogue, limits: &ReaderLimits) -> Reading {
    let mut reading = within(text, ended, catalogue, limits, &WorkBudget::for_text(text));
    if ended == TextEnd::Cut && matches!(reading.verdict, Verdict::Exact | Verdict::Repaired) {
        reading.verdict = Verdict::Truncated { at: text.len() };
    }
    reading
}

/// Like [`parse_ended_value`], with a work budget.
pub(crate) fn within(
    text: &str,
    ended: TextEnd,
    catalogue: &ToolCatalogue,
    limits: &ReaderLimits,
    budget: &WorkBudget,
) -> Reading {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return unreadable(UnreadableReason::Empty);
    }
    if text.len() > limits.bytes_max {
        return unreadable(UnreadableReason::TooLong);
    }
    let mut begun = None;
    if trimmed.starts_with(['{', '[']) {
        let at = text.len() - text.trim_start().len();
        let (stop, state) = plain(text, at, limits, budget);
        if let (Stop::Done, Some(node)) = (stop, &state.root)
            && text[node.span.end..].trim().is_empty()
        {
            return whole(text, node, state.edits);
        }
        begun = Some((at, stop, state));
    } else if let Some(reading) = inside_string(trimmed, text, catalogue, limits) {
        return reading;
    }
    let finds = find_from(text, begun, catalogue, limits, budget);
    if finds.values.is_empty() {
        return lines::parse_lines(text, ended, limits).unwrap_or_else(|| unreadable(why(&finds)));
    }
    choose(text, finds, catalogue)
}

fn why(finds: &SearchResult) -> UnreadableReason {
    if finds.too_deep {
        UnreadableReason::TooDeep
    } else if finds.too_costly {
        UnreadableReason::TooCostly
    } else if finds.too_broken || finds.unread.is_some() {
        UnreadableReason::TooBroken
    } else {
        UnreadableReason::NothingFound
    }
}

pub(crate) fn unreadable(reason: UnreadableReason) -> Reading {
    Reading {
        verdict: Verdict::Unreadable { reason },
        value: None,
        span: TextSpan::default(),
        items: Vec::new(),
        edits: Vec::new(),
        others: Vec::new(),
    }
}

/// The reading of a text that is one value and nothing else.
fn whole(text: &str, node: &Node, mut edits: Edits) -> Reading {
    note_odd_blanks(text, node.span, &mut edits);
    let value = node.value(text, &mut edits);
    let items = items(node, text, &value);
    let verdict = if edits.list.is_empty() { Verdict::Exact } else { Verdict::Repaired };
    Reading { verdict, value: Some(value), span: node.span, items, edits: sorted(edits), others: Vec::new() }
}

/// The steps of a value, or the items of the list it is.
fn items(node: &Node, text: &str, value: &Value) -> Vec<Item> {
    let mut ignored = Edits::default();
    shape::steps_in(node, text, value)
        .into_iter()
        .map(|(n, v)| Item { value: v.cloned().unwrap_or_else(|| n.value(text, &mut ignored)), span: n.span })
        .collect()
}

/// A JSON string that holds JSON, and nothing else.
fn inside_string(trimmed: &str, text: &str, catalogue: &ToolCatalogue, limits: &ReaderLimits) -> Option<Reading> {
    if !trimmed.starts_with('"') || !trimmed.ends_with('"') {
        return None;
    }
    let inner: String = serde_json::from_str(trimmed).ok()?;
    if !inner.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let start = text.len() - text.trim_start().len();
    let span = TextSpan::new(start, start + trimmed.len());
    let mut reading = parse_value(&inner, catalogue, limits);
    let mut edits = Edits::default();
    edits.respelled(EditKind::Unwrapped, span, trimmed, &inner);
    for edit in &mut reading.edits {
        edit.at = span;
    }
    for item in &mut reading.items {
        item.span = span;
    }
    reading.edits.extend(edits.list);
    reading.span = span;
    reading.verdict = match reading.verdict {
        Verdict::Exact => Verdict::Repaired,
        Verdict::Truncated { .. } => Verdict::Truncated { at: span.end },
        Verdict::Repaired | Verdict::Unreadable { .. } => reading.verdict,
    };
    Some(reading)
}

fn choose(text: &str, finds: SearchResult, catalogue: &ToolCatalogue) -> Reading {
    if finds.values.len() == 1 {
        return build(text, &finds, &ValueCandidate { first: 0, last: 0, score: 0, guesses: 0, items: 0 });
    }
    let mut candidates = singles(text, &finds.values, catalogue);
    candidates.extend(runs(text, &finds.values, catalogue));
    candidates.extend(parts(text, &finds.values, catalogue));
    // Of equals, the one that stands first and holds most.
    candidates.sort_by_key(|c| (std::cmp::Reverse(c.score), c.first, std::cmp::Reverse(c.last)));
    let mut ranked = candidates.into_iter();
    let Some(best) = ranked.next() else { return unreadable(UnreadableReason::NothingFound) };
    let others = ranked
        .take(8)
        .map(|c| Other {
            span: stretch(&finds.values[c.first..=c.last]),
            score: c.score,
            items: c.items,
            guesses: c.guesses,
        })
        .collect();
    let mut reading = build(text, &finds, &best);
    reading.others = others;
    reading
}

fn stretch(found: &[FoundValue]) -> TextSpan {
    let start = found.first().map_or(0, |f| f.node.span.start);
    TextSpan::new(start, found.last().map_or(start, |f| f.node.span.end))
}

fn singles(text: &str, found: &[FoundValue], catalogue: &ToolCatalogue) -> Vec<ValueCandidate> {
    let of = |(n, f): (usize, &FoundValue)| {
        let guesses = f.edits.guesses;
        let score = shape::score(&f.node, text, guesses, catalogue) - if f.node.whole { 0 } else { 3 };
        ValueCandidate { first: n, last: n, score, guesses, items: shape::steps(&f.node, text).len() }
    };
    found.iter().enumerate().map(of).collect()
}

/// Steps that follow each other: NDJSON, one object after the other, calls line by line.
fn runs(text: &str, found: &[FoundValue], catalogue: &ToolCatalogue) -> Vec<ValueCandidate> {
    let mut runs = Vec::new();
    let mut start = 0;
    while start < found.len() {
        let block = found[start].block;
        let mut end = start;
        while end < found.len() && found[end].block == block && shape::is_step(&found[end].node, text) {
            end += 1;
        }
        if end > start + 1 {
            let run = &found[start..end];
            let guesses = run.iter().map(|f| f.edits.guesses).sum();
            let each = run.iter().map(|f| shape::score(&f.node, text, f.edits.guesses, catalogue) - 100);
            let score = 100 + each.sum::<i64>();
            runs.push(ValueCandidate { first: start, last: end - 1, score, guesses, items: end - start });
        }
        start = end.max(start + 1);
    }
    runs
}

/// One plan in several documents that stand side by side: each has its own steps, and nothing lies between them.
///
/// Where a step stands in two of them, or words lie between, they are several plans, and the best is the reading.
fn parts(text: &str, found: &[FoundValue], catalogue: &ToolCatalogue) -> Vec<ValueCandidate> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start < found.len() {
        let mut ids = BTreeSet::new();
        let mut end = start;
        while let Some(next) = found.get(end).filter(|f| f.block == found[start].block) {
            let is_beside = end == start
                || text[found[end - 1].node.span.end..next.node.span.start].trim_matches([',', ';']).trim().is_empty();
            let own = shape::lone_ids(&next.node, text);
            let Some(own) = own.filter(|own| is_beside && own.iter().all(|id| !ids.contains(id))) else { break };
            ids.extend(own);
            end += 1;
        }
        if end > start + 1 {
            let each = found[start..end].iter().map(|f| shape::score(&f.node, text, f.edits.guesses, catalogue) - 100);
            let guesses = found[start..end].iter().map(|f| f.edits.guesses).sum();
            parts.push(ValueCandidate {
                first: start,
                last: end - 1,
                score: 100 + each.sum::<i64>(),
                guesses,
                items: ids.len(),
            });
        }
        start = end.max(start + 1);
    }
    parts
}

fn build(text: &str, finds: &SearchResult, best: &ValueCandidate) -> Reading {
    let chosen = &finds.values[best.first..=best.last];
    let span = stretch(chosen);
    let mut edits = Edits::default();
    surroundings(text, finds, chosen, &mut edits);
    for found in chosen {
        edits.extend(found.edits.clone());
    }
    let (value, items) = match chosen {
        [one] => {
            let value = one.node.value(text, &mut edits);
            let items = items(&one.node, text, &value);
            (value, items)
        }
        several => {
            edits.respelled(EditKind::ValuesListed, span, "", "");
            let mut items = Vec::with_capacity(several.len());
            for found in several {
                let steps = match shape::lone_ids(&found.node, text) {
                    Some(_) => shape::steps(&found.node, text),
                    None => vec![&found.node],
                };
                let whole = steps.into_iter().filter(|step| step.whole);
                items.extend(whole.map(|step| Item { value: step.value(text, &mut edits), span: step.span }));
            }
            (Value::Array(items.iter().map(|i| i.value.clone()).collect()), items)
        }
    };
    let cut = chosen.last().is_some_and(|f| !f.node.whole) || finds.values.last().is_some_and(|f| !f.node.whole);
    let verdict = match finds.unread {
        Some(at) => Verdict::Truncated { at },
        None if cut => Verdict::Truncated { at: text.trim_end().len() },
        None => Verdict::Repaired,
    };
    Reading { verdict, value: Some(value), span, items, edits: sorted(edits), others: Vec::new() }
}

/// Notes what stands around and between the chosen values: fences, tags, prose.
fn surroundings(text: &str, finds: &SearchResult, chosen: &[FoundValue], edits: &mut Edits) {
    let mut at = 0;
    let mut gaps = Vec::new();
    for found in chosen {
        gaps.push(TextSpan::new(at, found.node.span.start));
        at = found.node.span.end;
    }
    gaps.push(TextSpan::new(at, text.len()));
    let mut fences = finds.fences.as_slice();
    for gap in gaps {
        let before = fences.partition_point(|f| f.start < gap.start);
        let inside = fences[before..].partition_point(|f| f.end <= gap.end);
        note_gap(text, gap, &fences[before..before + inside], edits);
        fences = &fences[before + inside..];
    }
}

/// Notes blanks around a value that JSON does not have, so that no text that holds them is exact.
pub(crate) fn note_odd_blanks(text: &str, value: TextSpan, edits: &mut Edits) {
    for gap in [TextSpan::new(0, value.start), TextSpan::new(value.end, text.len())] {
        let odd = trimmed(text, gap, |c| matches!(c, '\t' | '\n' | '\r' | ' '));
        if !odd.is_empty() && odd.slice(text).trim().is_empty() {
            edits.respelled(EditKind::ProseDropped, odd, odd.slice(text), "");
        }
    }
}

/// The gap without the blanks at its ends.
fn trimmed(text: &str, gap: TextSpan, is_blank: impl Fn(char) -> bool) -> TextSpan {
    let rest = gap.slice(text).trim_start_matches(&is_blank);
    let start = gap.end - rest.len();
    TextSpan::new(start, start + rest.trim_end_matches(&is_blank).len())
}

fn note_gap(text: &str, gap: TextSpan, fences: &[TextSpan], edits: &mut Edits) {
    let mut at = gap.start;
    for fence in fences {
        note_prose(text, TextSpan::new(at, fence.start), edits);
        edits.respelled(EditKind::FenceDropped, *fence, fence.slice(text), "");
        at = fence.end;
    }
    note_prose(text, TextSpan::new(at, gap.end), edits);
}

fn note_prose(text: &str, gap: TextSpan, edits: &mut Edits) {
    let span = trimmed(text, gap, char::is_whitespace);
    let words = span.slice(text);
    if words.is_empty() {
        return;
    }
    let kind = if words.bytes().all(|b| matches!(b, b'}' | b']' | b')')) {
        edits.guessed(EditKind::BracketDropped, span, words, "");
        return;
    } else if words.starts_with('<') && words.ends_with('>') && !words.contains(' ') {
        EditKind::FenceDropped
    } else {
        EditKind::ProseDropped
    };
    edits.respelled(kind, span, words, "");
}

fn sorted(edits: Edits) -> Vec<crate::edit::Edit> {
    let mut list = edits.list;
    list.sort_by_key(|e| (e.at.start, e.kind));
    list
}
