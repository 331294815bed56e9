//! Repairs dependencies: misspelled, or given as indices. Those that only expressions name are added by validation.
//!
//! A dependency is an order that somebody wants. It is never taken out, unless it says itself that it names no step. One
//! with several readings stays as it is, and validation reports it.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_plan::validate::names::{self, normal, only_slip};
use serde_json::Value;

use super::context::{DependencyLink, RepairContext, same_number};

/// How some formats say that there is no dependency.
const NOTHING: &[&str] = &["none", "null", "n/a", "na", "-", "start", "end", "-1", ""];

/// Lets links that name a step by its action, or by its id in another spelling, name it by its id.
pub(super) fn rename(work: &mut RepairContext<'_>) {
    // Renaming a link's ends leaves the steps' own ids as they are.
    let numbers = work.numbers();
    let names_ids = names_ids(work, &numbers);
    let by_action = |work: &RepairContext<'_>, id: &str| if names_ids { None } else { by_action(work, id) };
    for link in work.links() {
        let Some(index) = link.index else { continue };
        let found = |work: &RepairContext<'_>, id: &String, other: &String| {
            if numbers.contains_key(id) || is_nothing(id) {
                return None;
            }
            near(&numbers, id).or_else(|| by_action(work, id)).filter(|near| near != other)
        };
        let why = |id: &String| format!("there is no step `{id}`; this is the one that can be meant");
        if let Some(near) = found(work, &link.from, &link.to) {
            work.rename_dependency(&link, &near, "DEPENDENCY_RENAMED", &why(&link.from));
        }
        if let Some((_, to)) = &link.ends
            && let Some(near) = found(work, &link.to, &link.from)
        {
            let pointer = format!("{}/{index}/{to}", link.list);
            work.replace(&pointer, near.into(), "DEPENDENCY_RENAMED", why(&link.to));
        }
    }
}

/// Whether ids are names of actions: then a link to another name of an action leads to a step that is missing.
fn names_ids(work: &RepairContext<'_>, numbers: &BTreeMap<String, usize>) -> bool {
    let is_action = |id: &str| (0..work.steps.len()).any(|step| normal(&work.action(step)) == normal(id));
    numbers.keys().any(|id| is_action(id))
}

fn is_nothing(id: &str) -> bool {
    NOTHING.contains(&id.to_ascii_lowercase().as_str())
}

/// The step with this action; `Search-2` is the second one that searches.
fn by_action(work: &RepairContext<'_>, id: &str) -> Option<String> {
    let with = |action: &str| -> Vec<usize> {
        (0..work.steps.len())
            .filter(|step| !action.is_empty() && normal(&work.action(*step)) == normal(action))
            .collect()
    };
    if let [only] = with(id).as_slice() {
        return Some(work.id(*only));
    }
    let (action, number) = id.rsplit_once(['-', '_', ' ', '#'])?;
    let nth = number.parse::<usize>().ok()?.checked_sub(1)?;
    with(action).get(nth).map(|step| work.id(*step))
}

pub(super) fn resolve(work: &mut RepairContext<'_>) {
    shift(work);
    rename(work);
    for link in work.links() {
        drop_sentinel(work, &link);
    }
    work.sweep();
}

/// A dependency given as a number, and the position of the step that waits.
struct Index {
    pointer: String,
    number: usize,
    waits: usize,
}

/// Lets dependencies given as indices name the steps by their ids, when exactly one way to count fits all of them.
///
/// A fit leads every index to a step written earlier. Numbers in the ids of the steps decide before positions do.
pub(super) fn index(work: &mut RepairContext<'_>) {
    let Some(indices) = indices(work).filter(|indices| !indices.is_empty()) else { return };
    let by_id = numbers_of_ids(work).and_then(|ids| fit(&indices, |n| ids.get(&n).copied()));
    let by_base = |base: usize| fit(&indices, |n| n.checked_sub(base));
    let are_texts = indices.iter().all(|index| work.draft.pointer(&index.pointer).is_some_and(Value::is_string));
    let (targets, why) = match (by_id, by_base(0), by_base(1)) {
        // A number counts from 0 as well as the ids do.
        (Some(targets), Some(others), _) if targets != others && !are_texts => return,
        (Some(targets), _, _) => (targets, "every index is the number in the id of an earlier step"),
        (None, Some(targets), None) => (targets, "indices count from 0: from 1 they do not lead to earlier steps"),
        (None, None, Some(targets)) => (targets, "indices count from 1: from 0 they do not lead to earlier steps"),
        (None, Some(_), Some(_)) | (None, None, None) => return,
    };
    for (index, target) in indices.into_iter().zip(targets) {
        let id = work.id(target);
        work.replace(&index.pointer, id.into(), "DEPENDENCY_INDEX", why.to_owned());
    }
}

/// All dependencies that are bare numbers; none when one of them is an id, or when the steps are not in one list.
fn indices(work: &RepairContext<'_>) -> Option<Vec<Index>> {
    let numbers = work.numbers();
    let parent = |step: usize| work.steps[step].pointer.rsplit_once('/').map(|(list, _)| list.to_owned());
    if (1..work.steps.len()).any(|step| parent(step) != parent(0)) {
        return None;
    }
    let mut indices = Vec::new();
    for link in work.links().into_iter().filter(|link| link.ends.is_none()) {
        let Ok(number) = link.from.parse::<usize>() else { continue };
        let pointer = match link.pointer() {
            Some(pointer) => pointer,
            None if work.draft.pointer(&link.list).is_some_and(Value::is_number) => link.list,
            None => return None,
        };
        let waits = *numbers.get(&link.to)?;
        if numbers.contains_key(&link.from) {
            return None;
        }
        indices.push(Index { pointer, number, waits });
    }
    Some(indices)
}

/// Steps by the number at the end of their id, when all ids are one word with different numbers and are written in the
/// draft.
fn numbers_of_ids(work: &RepairContext<'_>) -> Option<BTreeMap<usize, usize>> {
    if work.edits.iter().any(|edit| edit.code == "ID_ADDED") {
        return None;
    }
    let mut numbers = BTreeMap::new();
    let mut word: Option<String> = None;
    for step in 0..work.steps.len() {
        let id = work.id(step);
        let stem = id.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = id[stem.len()..].parse().ok()?;
        let is_other = word.get_or_insert_with(|| stem.to_owned()) != stem;
        if is_other || numbers.insert(number, step).is_some() {
            return None;
        }
    }
    Some(numbers)
}

/// The step of each index, when each leads to a step written earlier.
fn fit(indices: &[Index], target: impl Fn(usize) -> Option<usize>) -> Option<Vec<usize>> {
    indices.iter().map(|index| target(index.number).filter(|target| *target < index.waits)).collect()
}

/// Moves every number of the dependency lists by one when all of them then name an earlier step, in one direction only.
fn shift(work: &mut RepairContext<'_>) {
    let numbers = work.numbers();
    let links: Vec<DependencyLink> =
        work.links().into_iter().filter(|link| link.ends.is_none() && link.index.is_some()).collect();
    let is_good = |from: &str, link: &DependencyLink| {
        let pair = numbers.get(from).zip(numbers.get(&link.to));
        pair.is_some_and(|(from, to)| work.may_see(*to, *from))
    };
    // One wrong number can be a slip, or a step that is missing; several different ones are another way to count.
    let wrong: BTreeSet<&str> =
        links.iter().filter(|link| !is_good(&link.from, link)).map(|link| link.from.as_str()).collect();
    if wrong.len() < 2 {
        return;
    }
    let moved = |link: &DependencyLink, by: i64| {
        let digits = link.from.len() - link.from.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (family, number) = link.from.split_at(link.from.len() - digits);
        let number = number.parse::<i64>().ok()?.checked_add(by).filter(|n| *n >= 0)?;
        let id = format!("{family}{number}");
        let pair = numbers.get(&id).zip(numbers.get(&link.to));
        pair.filter(|(from, to)| work.rank[**from] < work.rank[**to]).map(|_| id)
    };
    let all = |by: i64| links.iter().map(|link| moved(link, by)).collect::<Option<Vec<_>>>();
    let (by, moved) = match (all(-1), all(1)) {
        (Some(moved), None) => (-1, moved),
        (None, Some(moved)) => (1, moved),
        (Some(_), Some(_)) | (None, None) => return,
    };
    for (link, id) in links.iter().zip(moved) {
        let why = format!("all numbers moved by {by:+}: then every dependency names an earlier step");
        work.rename_dependency(link, &id, "INDEX_SHIFT", &why);
    }
}

/// Takes out a link with an end that says itself that it is no step.
fn drop_sentinel(work: &mut RepairContext<'_>, link: &DependencyLink) {
    let Some(index) = link.index else { return };
    let numbers = work.numbers();
    let is_none = |id: &String, not: &str| is_nothing(id) && !id.eq_ignore_ascii_case(not) && !numbers.contains_key(id);
    if is_none(&link.from, "end") || link.ends.is_some() && is_none(&link.to, "start") {
        work.remove(&link.list, index, "DEPENDENCY_DROPPED", "it names no step".to_owned());
    }
}

/// The one id that is the same in another spelling, or with one wrong letter. An id that is merely like it is another
/// step: `approve_a` is not `approve_b`.
fn near(numbers: &BTreeMap<String, usize>, id: &str) -> Option<String> {
    let same: Vec<&String> = numbers.keys().filter(|known| normal(known) == normal(id)).collect();
    match same.as_slice() {
        [only] => Some((*only).clone()),
        [] if names::number_of_step(id).is_some_and(|number| numbers.contains_key(number)) => {
            names::number_of_step(id).map(str::to_owned)
        }
        [] => {
            let slip = || only_slip(id, numbers.keys().map(String::as_str));
            same_number(numbers, id).or_else(slip).map(str::to_owned)
        }
        _ => None,
    }
}
