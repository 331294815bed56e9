//! Repairs step ids: missing and duplicate.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::id::is_id;
use serde_json::Value;

use super::context::{DependencyLink, RepairContext};

/// Numbers steps that have no id. A plan without any ids gets `step-1`, `step-2` and so on.
pub(super) fn complete(work: &mut RepairContext<'_>) {
    let mut taken: BTreeSet<String> = (0..work.steps.len()).map(|step| work.id(step)).collect();
    for step in 0..work.steps.len() {
        if !work.id(step).is_empty() {
            continue;
        }
        let id =
            free(&taken, |n| if n == 0 { format!("step-{}", step + 1) } else { format!("step-{}-{}", step + 1, n) });
        taken.insert(id.clone());
        work.set(step, "id", id.into(), "ID_ADDED", "a step needs an id".into());
    }
}

/// Gives each of several steps with one id an id of its own, and lets what names it name the one before it.
///
/// Where something names the id and not exactly one of these steps is written before it, several can be meant: all of
/// them keep the id, and validation reports it.
pub(super) fn unique(work: &mut RepairContext<'_>) {
    spell(work);
    let mut by_id: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for step in 0..work.steps.len() {
        by_id.entry(work.id(step)).or_default().push(step);
    }
    let mut taken: BTreeSet<String> = by_id.keys().cloned().collect();
    let (seen, links) = (work.seen(), work.links());
    for (id, steps) in by_id.iter().filter(|(_, steps)| steps.len() > 1) {
        let reader_of =
            |link: &DependencyLink| work.steps.iter().position(|s| link.list.starts_with(&format!("{}/", s.pointer)));
        let mut readers = seen
            .iter()
            .filter(|s| s.target == *id)
            .map(|s| Some(s.step))
            .chain(links.iter().filter(|l| l.from == *id || l.ends.is_some() && l.to == *id).map(reader_of));
        if !readers.all(|reader| reader.is_some_and(|reader| steps.iter().filter(|s| **s < reader).count() == 1)) {
            continue;
        }
        let mut names = BTreeMap::from([(steps[0], id.clone())]);
        for (nth, step) in steps.iter().enumerate().skip(1) {
            let renamed = free(&taken, |n| format!("{id}-{}", nth + 1 + n));
            taken.insert(renamed.clone());
            names.insert(*step, renamed);
        }
        // The readers first: their places are found by the old id.
        let nearest = |reader: usize| names.range(..reader).next_back().map(|(_, n)| n.clone());
        let changes: Vec<_> = seen
            .iter()
            .filter(|s| s.target == *id)
            .filter_map(|s| nearest(s.step).filter(|name| name != id).map(|name| (s.clone(), name)))
            .collect();
        work.redirect(changes, "REFERENCE_RENAMED", "its step was one of several with the same id");
        for link in links.iter().filter(|link| link.from == *id && link.ends.is_none()) {
            let reader = work.steps.iter().position(|s| link.list.starts_with(&format!("{}/", s.pointer)));
            let Some(reader) = reader else { continue };
            if let Some(name) = nearest(reader).filter(|name| name != id) {
                let why = "its step was one of several with the same id";
                work.rename_dependency(link, &name, "DEPENDENCY_RENAMED", why);
            }
        }
        for (step, name) in names.into_iter().skip(1) {
            work.set(step, "id", name.into(), "ID_RENAMED", format!("`{id}` is the id of another step too"));
        }
    }
}

/// Respells ids that cannot be ids, where nothing else would get the same one.
fn spell(work: &mut RepairContext<'_>) {
    let mut taken: BTreeSet<String> = (0..work.steps.len()).map(|step| work.id(step)).collect();
    for step in 0..work.steps.len() {
        let was = work.id(step);
        if is_id(&was) || !work.has(step, "id") {
            continue;
        }
        let letters =
            was.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-') { c } else { '_' });
        let became: String = letters.skip_while(|c| !c.is_ascii_alphanumeric()).take(64).collect();
        if !is_id(&became) || taken.contains(&became) {
            continue;
        }
        taken.insert(became.clone());
        let why = "ids are letters, digits, `.`, `_`, `:`, `-`";
        let seen: Vec<_> = work.seen().into_iter().filter(|s| s.target == was).map(|s| (s, became.clone())).collect();
        work.redirect(seen, "REFERENCE_RENAMED", why);
        for link in work.links() {
            let (Some(index), true) = (link.index, link.from == was || link.to == was) else { continue };
            if link.from == was {
                work.rename_dependency(&link, &became, "DEPENDENCY_RENAMED", why);
            }
            if let Some((_, to)) = link.ends.as_ref().filter(|_| link.to == was) {
                let pointer = format!("{}/{index}/{to}", link.list);
                work.replace(&pointer, became.clone().into(), "DEPENDENCY_RENAMED", why.into());
            }
        }
        work.set(step, "id", Value::String(became), "ID_RENAMED", why.into());
    }
}

fn free(taken: &BTreeSet<String>, name: impl Fn(usize) -> String) -> String {
    (0..usize::MAX).map(name).find(|name| !taken.contains(name)).expect("the numbers do not end")
}
