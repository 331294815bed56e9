//! Parses a text as calls: names with arguments, in any notation that models use.

use crate::call_collector::CallContext;
use crate::call_group::{CallGroup, groups};
use crate::catalogue::ToolCatalogue;
use crate::limits::{ReaderLimits, WorkBudget};
use crate::reading::{CallReading, Other, UnreadableReason, Verdict};
use crate::value::note_odd_blanks;
use crate::value_search::find;

/// Parses `text` as calls of the catalogue's actions.
///
/// Arguments by position get the names of the schema, in its order; values are taken for the declared type where they
/// plainly are of it (`"5"` for an integer), and both are edits. Only complete calls are given. Time is linear in the
/// length of the text, which [`ReaderLimits::bytes_max`] bounds.
#[must_use]
pub fn parse_calls(text: &str, catalogue: &ToolCatalogue, limits: &ReaderLimits) -> CallReading {
    if text.trim().is_empty() {
        return none(UnreadableReason::Empty);
    }
    if text.len() > limits.bytes_max {
        return none(UnreadableReason::TooLong);
    }
    within(text, catalogue, limits, &WorkBudget::for_text(text), &WorkBudget::half_for_text(text))
}

/// As [`parse_calls`]: what finding, and what gathering may cost.
pub(crate) fn within(
    text: &str,
    catalogue: &ToolCatalogue,
    limits: &ReaderLimits,
    finding: &WorkBudget,
    gathering: &WorkBudget,
) -> CallReading {
    let finds = find(text, catalogue, limits, finding);
    // Calls are run: what nothing closes is not taken for whole.
    let cut = finds.values.last().is_some_and(|f| !f.node.whole);
    let way = CallContext { catalogue, limits, budget: gathering, nested: 0 };
    let mut groups = groups(text, &finds.values, way);
    // Of equals, the one that stands first.
    groups.sort_by_key(|g| (std::cmp::Reverse(g.score), g.span.start));
    let mut ranked = groups.into_iter().filter(|g| !g.calls.is_empty() || g.cut);
    let Some(mut best) = ranked.next() else {
        return if cut {
            truncated(text, CallGroup::default())
        } else {
            none(if finding.left() == 0 || gathering.left() == 0 {
                UnreadableReason::TooCostly
            } else {
                UnreadableReason::NothingFound
            })
        };
    };
    let others = ranked
        .take(8)
        .map(|g| Other { span: g.span, score: g.score, items: g.calls.len(), guesses: g.edits.guesses })
        .collect();
    note_odd_blanks(text, best.span, &mut best.edits);
    let mut reading = if cut || best.cut || finds.unread.is_some() || gathering.left() == 0 {
        truncated(text, best)
    } else if best.edits.list.is_empty() && text.trim().len() == best.span.len() {
        said(Verdict::Exact, best)
    } else {
        said(Verdict::Repaired, best)
    };
    reading.others = others;
    reading
}

fn none(reason: UnreadableReason) -> CallReading {
    CallReading { verdict: Verdict::Unreadable { reason }, calls: Vec::new(), edits: Vec::new(), others: Vec::new() }
}

fn truncated(text: &str, group: CallGroup) -> CallReading {
    said(Verdict::Truncated { at: text.trim_end().len() }, group)
}

fn said(verdict: Verdict, group: CallGroup) -> CallReading {
    let mut edits = group.edits.list;
    edits.sort_by_key(|e| (e.at.start, e.kind));
    CallReading { verdict, calls: group.calls, edits, others: Vec::new() }
}
