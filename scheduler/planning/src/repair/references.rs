//! Repairs references to unknown steps, to the step itself or to a later step.
//!
//! In this order: one shift of all numbers; one shift of a step's numbers that agrees with its links; the only source
//! that a step's links leave over for the only wrong name; nothing else. Kinds of data, where they are declared, can
//! forbid each of them. A reference with several readings stays, and validation reports it.

use std::collections::BTreeSet;

use super::context::{Graph, RepairContext, StepReference};
use super::type_inference::flows;

pub(super) fn resolve(work: &mut RepairContext<'_>) {
    spelled_otherwise(work);
    // What is repaired here are references: steps, ids and links stay, and so do the references of other steps.
    let (graph, seen) = (work.graph(), work.seen());
    if bad(work, &graph, &seen).is_empty() || shift_all(work, &graph, &seen) {
        return;
    }
    for step in 0..work.steps.len() {
        let own: Vec<StepReference> = seen.iter().filter(|seen| seen.step == step).cloned().collect();
        if !bad(work, &graph, &own).is_empty() {
            repair_step(work, &graph, step, &own);
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
    let normal = goalmill_plan::validate::names::normal;
    let mut changes = Vec::new();
    for seen in work.seen().into_iter().filter(|seen| !numbers.contains_key(&seen.target)) {
        let same: Vec<_> = numbers.iter().filter(|(id, _)| normal(id) == normal(&seen.target)).collect();
        if let [(id, target)] = same.as_slice()
            && work.may_see(seen.step, **target)
        {
            changes.push((seen, (*id).clone()));
        }
    }
    work.redirect(changes, "REFERENCE_RENAMED", "the same id, spelled otherwise");
}

/// An id as a family and a number: `node-3` is number 3 of `node-`.
fn numbered(id: &str) -> Option<(&str, i64)> {
    let digits = id.len() - id.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (family, number) = id.split_at(id.len() - digits);
    Some((family, number.parse().ok().filter(|n| *n < 1_000_000)?))
}

/// The step a reference would mean with its number moved. What links confirm may be of any kind; what they do not must
/// not contradict the declared kinds.
fn moved(
    work: &RepairContext<'_>,
    graph: &Graph,
    sources: &BTreeSet<usize>,
    seen: &StepReference,
    by: i64,
) -> Option<(usize, String)> {
    let (family, number) = numbered(&seen.target)?;
    let id = format!("{family}{}", number.checked_add(by).filter(|n| *n >= 0)?);
    let target = *graph.numbers.get(&id)?;
    let fits = sources.contains(&target) || flows(work, target, seen.step) != Some(false);
    (work.may_see(seen.step, target) && fits).then_some((target, id))
}

/// Moves every number by one when all of them then lead to a step that may be seen, in one direction only.
fn shift_all(work: &mut RepairContext<'_>, graph: &Graph, seen: &[StepReference]) -> bool {
    let all = |by: i64| -> Option<Vec<_>> {
        seen.iter().map(|s| moved(work, graph, &graph.sources[s.step], s, by)).collect()
    };
    let (by, moved) = match (all(-1), all(1)) {
        (Some(moved), None) => (-1, moved),
        (None, Some(moved)) => (1, moved),
        (Some(_), Some(_)) | (None, None) => return false,
    };
    let changes = seen.iter().cloned().zip(moved.into_iter().map(|(_, id)| id)).collect();
    let why = format!("all numbers moved by {by:+}: then every reference leads to an earlier step");
    work.redirect(changes, "INDEX_SHIFT", &why);
    true
}

fn repair_step(work: &mut RepairContext<'_>, graph: &Graph, step: usize, own: &[StepReference]) {
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
    let fitting: Vec<usize> = left.iter().copied().filter(|source| flows(work, *source, step) != Some(false)).collect();
    let names: BTreeSet<&str> = wrong.iter().map(|s| s.target.as_str()).collect();
    let only = match (left.as_slice(), fitting.as_slice()) {
        ([only], _) | (_, [only]) => *only,
        (_, _) => return,
    };
    if names.len() != 1 {
        return;
    }
    let id = work.id(only);
    let changes = wrong.iter().map(|seen| (seen.clone(), id.clone())).collect();
    work.redirect(changes, "REFERENCE_REDIRECTED", "the only step that feeds this one and is not read by it yet");
}

/// Moves the numbers of one step when that leads to all of its sources and to nothing that may not be seen.
fn shift_step(work: &mut RepairContext<'_>, graph: &Graph, own: &[StepReference], sources: &BTreeSet<usize>) -> bool {
    if sources.is_empty() {
        return false;
    }
    let moved: Option<Vec<_>> = own.iter().map(|s| moved(work, graph, sources, s, -1)).collect();
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
