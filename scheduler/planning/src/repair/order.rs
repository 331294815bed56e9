//! Reorders steps whose order contradicts their dependencies.

use std::collections::BTreeSet;

use serde_json::Value;

use super::context::{Graph, RepairContext};

/// Finds an order that agrees with every link, where the written one does not and references lead astray too.
///
/// Stays as near to the written order as it can. A plan whose links form a ring keeps its order.
pub(super) fn find(work: &mut RepairContext<'_>) {
    let Graph { numbers, sources } = work.graph();
    let is_astray = sources.iter().enumerate().any(|(step, sources)| sources.iter().any(|source| *source > step));
    if !work.rules.in_order || !is_astray || list(work).is_none() {
        return;
    }
    let leads_astray =
        work.seen().iter().any(|seen| numbers.get(&seen.target).is_none_or(|target| *target >= seen.step));
    if !leads_astray {
        return;
    }
    let mut open: BTreeSet<usize> = (0..sources.len()).collect();
    let mut order = Vec::with_capacity(sources.len());
    while let Some(next) = open.iter().copied().find(|step| sources[*step].is_disjoint(&open)) {
        open.remove(&next);
        order.push(next);
    }
    if open.is_empty() {
        order.into_iter().enumerate().for_each(|(rank, step)| work.rank[step] = rank);
    }
}

/// Writes the steps in the order that was found.
pub(super) fn write(work: &mut RepairContext<'_>) {
    if work.rank.is_sorted() {
        return;
    }
    let Some(list) = list(work) else { return };
    let mut order: Vec<usize> = (0..work.rank.len()).collect();
    let was = order.iter().map(|step| Value::from(work.id(*step))).collect();
    order.sort_by_key(|step| work.rank[*step]);
    let became = order.iter().map(|step| Value::from(work.id(*step))).collect();
    let Some(items) = work.draft.pointer_mut(&list).and_then(Value::as_array_mut) else { return };
    *items = order.iter().map(|step| items[*step].take()).collect();
    let why = "the links say that these steps run in this order".to_owned();
    work.note("STEPS_REORDERED", list, was, became, why);
}

/// The one list in which all steps stand.
fn list(work: &RepairContext<'_>) -> Option<String> {
    let list = work.steps.first()?.pointer.strip_suffix("/0")?;
    let items = work.draft.pointer(list)?.as_array()?;
    (items.len() == work.steps.len()).then(|| list.to_owned())
}
