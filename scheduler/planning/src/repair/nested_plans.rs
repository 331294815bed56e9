//! Repairs plans inside steps, each by itself.

use std::collections::BTreeSet;

use goalmill_common::limits::Limits;

use super::Edit;
use super::context::RepairContext;

/// Repairs the plans inside the draft's steps. One that looks at steps outside is left as it is: it sees its own steps and
/// inputs only, and which of them was meant is a task for the critique.
pub(super) fn repair(work: &mut RepairContext<'_>, limits: &Limits, is_list: bool) {
    let outside: BTreeSet<String> = (0..work.steps.len()).map(|step| work.id(step)).collect();
    for step in 0..work.steps.len() {
        // A stored plan is used as it is.
        if work.has(step, "use") {
            continue;
        }
        let at = work.place(step, "plan");
        let Some(inner) = work.field(step, "plan").cloned() else { continue };
        let looks_out = RepairContext::of(inner.clone(), work.rules).ok().is_none_or(|inner| {
            let own = inner.numbers();
            let is_outside = |id: &String| outside.contains(id) && !own.contains_key(id);
            inner.seen().iter().any(|seen| is_outside(&seen.target))
                || inner.links().iter().any(|l| is_outside(&l.from))
        });
        if looks_out {
            continue;
        }
        let repaired = super::repair_by(inner, limits, work.rules, is_list);
        if let Some(place) = work.draft.pointer_mut(&at) {
            *place = repaired.draft;
        }
        let outer = |edit: Edit| Edit { pointer: format!("{at}{}", edit.pointer), ..edit };
        work.edits.extend(repaired.edits.into_iter().map(outer));
    }
}
