//! Repairs references to unknown steps, to the step itself or to a later step.
//!
//! In this order: one shift of all numbers; one shift of a step's numbers that agrees with its links; the only source
//! that a step's links leave over for the only wrong name; nothing else. A reference with several
//! readings stays, and validation reports it.

use std::collections::BTreeSet;

use goalmill_plan::validate::names::{self, normal, only_slip};
use serde_json::Value;

use super::context::{Graph, RepairContext, StepReference, same_number};

pub(super) fn resolve(work: &mut RepairContext<'_>) {
    spelled_otherwise(work);
    // What is repaired here are references: steps, ids and links stay, and so do the references of other steps.
    let graph = work.graph();
    let seen: Vec<StepReference> = work.seen().into_iter().filter(|seen| !seen.is_undo).collect();
    let wrong = bad(work, &graph, &seen);
    if wrong.is_empty() || shift_all(work, &graph, &seen, &wrong) {
        return;
    }
    for step in 0..work.steps.len() {
        let own: Vec<StepReference> = seen.iter().filter(|seen| seen.step == step).cloned().collect();
        if !bad(work, &graph, &own).is_empty() {
            repair_step(work, &graph, step, &own, &seen);
        }
    }
}

/// References that cannot be kept. Where the steps were out of order, their numbers are not to be trusted either: a
/// reference to a step that is no source of this one counts as wrong.
fn bad(work: &RepairContext<'_>, graph: &Graph, seen: &[StepReference]) -> Vec<StepReference> {
    let Graph { numbers, sources } = graph;
    let is_ordered = work.rank.is_sorted();
    let is_good = |s: &&StepReference| {
        let target = numbers.get(&s.target).copied().filter(|target| work.may_see(s.step, *target));
        target.is_some_and(|target| is_ordered || sources[s.step].is_empty() || sources[s.step].contains(&target))
    };
    seen.iter().filter(|s| !is_good(s)).cloned().collect()
}

/// `Step 1` for `step_1`: the same id in another spelling.
fn spelled_otherwise(work: &mut RepairContext<'_>) {
    let numbers = work.numbers();
    let mut changes = Vec::new();
    for seen in work.seen().into_iter().filter(|seen| !numbers.contains_key(&seen.target)) {
        let same: Vec<&str> =
            numbers.keys().map(String::as_str).filter(|id| normal(id) == normal(&seen.target)).collect();
        let only = match same.as_slice() {
            [only] => Some(*only),
            [] => names::number_of_step(&seen.target)
                .filter(|number| numbers.contains_key(*number))
                .or_else(|| same_number(&numbers, &seen.target))
                .or_else(|| only_slip(&seen.target, numbers.keys().map(String::as_str))),
            _ => None,
        };
        let only = only.filter(|id| seen.is_undo || work.may_see(seen.step, numbers[*id])).map(str::to_owned);
        changes.extend(only.map(|id| (seen, id)));
    }
    work.redirect(changes, "REFERENCE_RENAMED", "the same id, spelled otherwise or with one wrong letter");
}

/// Renames outputs that the action of the step declares under a name with another spelling or one other letter.
pub(super) fn rename_outputs(work: &mut RepairContext<'_>) {
    let numbers = work.numbers();
    let mut changes: Vec<(String, std::ops::Range<usize>, String)> = Vec::new();
    for seen in work.seen() {
        let Some(target) = numbers.get(&seen.target).filter(|target| !work.is_map(**target)) else { continue };
        let declared = work
            .action_entry(*target)
            .and_then(|action_entry| action_entry.outputs.as_ref()?.get("properties")?.as_object());
        let Some(Value::String(text)) = work.draft.pointer(&seen.pointer) else { continue };
        let Some(rest) = text.get(seen.at.end..).and_then(|rest| rest.strip_prefix(".outputs.")) else { continue };
        let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (name, from) = (&rest[..length], seen.at.end + ".outputs.".len());
        let Some(declared) = declared.filter(|declared| !name.is_empty() && !declared.contains_key(name)) else {
            continue;
        };
        let same: Vec<&str> =
            declared.keys().map(String::as_str).filter(|known| normal(known) == normal(name)).collect();
        let only = match same.as_slice() {
            [only] => Some(*only),
            [] => only_slip(name, declared.keys().map(String::as_str)),
            _ => None,
        };
        let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if let Some(became) = only.filter(is_name) {
            changes.push((seen.pointer.clone(), from..from + length, became.to_owned()));
        }
    }
    // Last first, so that the bytes before stay where they are.
    changes.sort_by(|a, b| (&a.0, b.1.start).cmp(&(&b.0, a.1.start)));
    for (pointer, at, became) in changes {
        let Some(Value::String(text)) = work.draft.pointer(&pointer) else { continue };
        let mut text = text.clone();
        text.replace_range(at, &became);
        let why = "the only output of the step with a name like it".to_owned();
        work.replace(&pointer, text.into(), "OUTPUT_RENAMED", why);
    }
}

/// An id as a family and a number: `node-3` is number 3 of `node-`.
fn numbered(id: &str) -> Option<(&str, i64)> {
    let digits = id.len() - id.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (family, number) = id.split_at(id.len() - digits);
    Some((family, number.parse().ok().filter(|n| *n < 1_000_000)?))
}

/// The step a reference would mean with its number moved.
fn moved(work: &RepairContext<'_>, graph: &Graph, seen: &StepReference, by: i64) -> Option<(usize, String)> {
    let (family, number) = numbered(&seen.target)?;
    let id = format!("{family}{}", number.checked_add(by).filter(|n| *n >= 0)?);
    let target = *graph.numbers.get(&id)?;
    work.may_see(seen.step, target).then_some((target, id))
}

/// Moves every number by one when all of them then lead to a step that may be seen, in one direction only.
///
/// One wrong number can be a slip; several different ones, or the only source that the links give, are another way to
/// count.
fn shift_all(work: &mut RepairContext<'_>, graph: &Graph, seen: &[StepReference], wrong: &[StepReference]) -> bool {
    let all = |by: i64| -> Option<Vec<_>> { seen.iter().map(|s| moved(work, graph, s, by)).collect() };
    let (by, moved) = match (all(-1), all(1)) {
        (Some(moved), None) => (-1, moved),
        (None, Some(moved)) => (1, moved),
        (Some(_), Some(_)) | (None, None) => return false,
    };
    let targets: BTreeSet<&str> = wrong.iter().map(|seen| seen.target.as_str()).collect();
    let is_only_source =
        |(seen, (target, _)): (&StepReference, &(usize, String))| graph.sources[seen.step].iter().eq([target]);
    if targets.len() < 2 && !seen.iter().zip(&moved).all(is_only_source) {
        return false;
    }
    let changes = seen.iter().cloned().zip(moved.into_iter().map(|(_, id)| id)).collect();
    let why = format!("all numbers moved by {by:+}: then every reference leads to an earlier step");
    work.redirect(changes, "INDEX_SHIFT", &why);
    true
}

fn repair_step(
    work: &mut RepairContext<'_>,
    graph: &Graph,
    step: usize,
    own: &[StepReference],
    seen: &[StepReference],
) {
    let numbers = &graph.numbers;
    let sources: BTreeSet<usize> =
        graph.sources[step].iter().copied().filter(|source| work.may_see(step, *source)).collect();
    if shift_step(work, graph, own, &sources) {
        return;
    }
    let wrong = bad(work, graph, own);
    let read: BTreeSet<usize> =
        own.iter().filter(|s| !wrong.contains(s)).filter_map(|s| numbers.get(&s.target).copied()).collect();
    let left: Vec<usize> = sources.difference(&read).copied().collect();
    let names: BTreeSet<&str> = wrong.iter().map(|s| s.target.as_str()).collect();
    let [only] = left.as_slice() else { return };
    if names.len() != 1 || !is_every_source_read(graph, seen, step) {
        return;
    }
    let id = work.id(*only);
    let changes = wrong.iter().map(|seen| (seen.clone(), id.clone())).collect();
    work.redirect(changes, "REFERENCE_REDIRECTED", "the only step that feeds this one and is not read by it yet");
}

/// Whether every other step of the draft reads each step that it waits for: then a source that is not read is missing in
/// the references. Elsewhere a step may wait for one without reading it.
fn is_every_source_read(graph: &Graph, seen: &[StepReference], except: usize) -> bool {
    let reads = |step: usize, source: usize| {
        seen.iter().any(|seen| seen.step == step && graph.numbers.get(&seen.target) == Some(&source))
    };
    let steps = graph.sources.iter().enumerate().filter(|(step, _)| *step != except);
    steps.into_iter().all(|(step, sources)| sources.iter().all(|source| reads(step, *source)))
}

/// Moves the numbers of one step when that leads to all of its sources and to nothing that may not be seen.
fn shift_step(work: &mut RepairContext<'_>, graph: &Graph, own: &[StepReference], sources: &BTreeSet<usize>) -> bool {
    if sources.is_empty() {
        return false;
    }
    let moved: Option<Vec<_>> = own.iter().map(|s| moved(work, graph, s, -1)).collect();
    let Some(moved) = moved else { return false };
    let targets: BTreeSet<usize> = moved.iter().map(|(target, _)| *target).collect();
    let all: BTreeSet<&str> = own.iter().map(|s| s.target.as_str()).collect();
    if targets.len() != all.len() || !sources.is_subset(&targets) {
        return false;
    }
    let changes = own.iter().cloned().zip(moved.into_iter().map(|(_, id)| id)).collect();
    work.redirect(changes, "INDEX_SHIFT", "numbers moved by -1: then they lead to every step that feeds this one");
    true
}
