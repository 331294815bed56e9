//! Groups the calls of a text: by block, all together, and each alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::call_collector::{CallContext, gather};
use crate::edit::Edits;
use crate::reading::ParsedCall;
use crate::span::TextSpan;
use crate::value_search::FoundValue;

/// The calls of one way to read the text.
#[derive(Debug, Default)]
pub(crate) struct CallGroup {
    pub(crate) calls: Vec<ParsedCall>,
    pub(crate) edits: Edits,
    pub(crate) score: i64,
    pub(crate) cut: bool,
    pub(crate) span: TextSpan,
    /// Whether its only call has no arguments although the action needs some: a name in a sentence.
    pub(crate) empty: bool,
}

/// Every way to put the values found together: each block of code, all that stands outside of them, and each alone.
pub(crate) fn groups(text: &str, found: &[FoundValue], way: CallContext) -> Vec<CallGroup> {
    let singles: Vec<CallGroup> = found.iter().map(|f| gather(text, f, way)).collect();
    let named = singles.iter().any(|g| !g.calls.is_empty() && !g.empty);
    let (found, singles): (Vec<&FoundValue>, Vec<CallGroup>) =
        found.iter().zip(singles).filter(|(_, g)| !(named && g.empty)).unzip();
    let mut blocks: BTreeMap<usize, Vec<&CallGroup>> = BTreeMap::new();
    for (found, group) in found.iter().zip(&singles) {
        blocks.entry(found.block).or_default().push(group);
    }
    let mut groups: Vec<CallGroup> = blocks.values().map(|block| union(text, block.iter().copied())).collect();
    if blocks.len() > 1 {
        groups.push(union(text, &singles));
    }
    if found.len() > 1 && found.len() <= 64 {
        groups.extend(singles);
    }
    groups
}

/// Calls of several values. A call that is said again behind some words is the same call.
fn union<'g>(text: &str, of: impl IntoIterator<Item = &'g CallGroup>) -> CallGroup {
    let mut all = CallGroup::default();
    let mut first = true;
    let mut said = BTreeSet::new();
    let mut counted = 0;
    for group in of {
        if group.calls.is_empty() && !group.cut {
            continue;
        }
        let between = TextSpan::new(all.span.end, group.span.start).slice(text);
        if !first && between.contains(char::is_alphabetic) {
            said.extend(all.calls[counted..].iter().map(saying));
            counted = all.calls.len();
            if group.calls.iter().all(|c| said.contains(&saying(c))) {
                continue;
            }
        }
        all.span = if first { group.span } else { TextSpan::new(all.span.start, group.span.end) };
        first = false;
        all.cut |= group.cut;
        all.score += group.score;
        all.calls.extend(group.calls.iter().cloned());
        all.edits.extend(group.edits.clone());
    }
    all
}

/// What a call says: its name, and its arguments in the order of their names.
fn saying(call: &ParsedCall) -> (String, BTreeMap<String, String>) {
    (call.name.clone(), call.arguments.iter().map(|(k, v)| (k.clone(), v.to_string())).collect())
}
