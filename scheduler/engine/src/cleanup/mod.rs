//! Clean-up: the steps that run once the outcome of a plan is known. First the undo steps of what was done, the last one
//! that began first, one at a time; then the `always` steps. The outcome stays, whatever becomes of them.

pub(crate) mod cleanup_state;
pub(crate) mod done_work;
pub(crate) mod outcome;
pub(crate) mod plan_end;
pub(crate) mod undo;
pub(crate) mod undo_end;

use std::collections::BTreeSet;

use goalmill_common::event::{CleanupStarted, PlanEnded};
use goalmill_common::limits::Limits;
use goalmill_common::plan::{Collect, UndoOn};
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::cleanup::cleanup_state::CleanupRun;
use crate::graph::StepIndex;
use crate::sub_plan::inner_plans::NOT_UNDONE_MAX;
use crate::{PlanState, ReplayError, apply, delayed_start};

/// Names in quotes.
pub(crate) fn in_quotes(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Clean-up steps that did not succeed, of this plan and of those inside it, as far as these have reported.
pub(crate) fn cleanup_not_done(state: &PlanState) -> Vec<String> {
    let is_open = |i: &&StepIndex| matches!(state.steps[**i].status(), StepStatus::Failed | StepStatus::Cancelled);
    let own = state.graph.cleanup_steps().iter().filter(is_open).map(|i| state.plan.step(*i).id.to_string());
    let left = state.cleanup.run().map(CleanupRun::left).unwrap_or_default();
    let kept = left.iter().filter(|i| state.inner.has_kept_of(**i)).map(|i| state.plan.step(*i).id.to_string());
    own.chain(kept).chain(state.inner.not_undone().iter().cloned()).take(NOT_UNDONE_MAX).collect()
}

/// Names of clean-up steps of a plan inside a step, as the plan around it shows them.
pub(crate) fn named_inside(state: &PlanState, i: StepIndex, names: Vec<String>) -> Vec<String> {
    let step = &state.plan.step(i).id;
    names.into_iter().take(NOT_UNDONE_MAX).map(|name| format!("{step}/{name}")).collect()
}

/// Goes past what the clean-up has undone: an undo step that has ended, a step without a kept plan.
pub(crate) fn pass_cleanup(state: &mut PlanState) {
    let (plan, steps, inner) = (&state.plan, &state.steps, &state.inner);
    state.cleanup.pass_ended(|i| match plan.step(i).is_cleanup() {
        true => steps[i].status().is_final(),
        false => !inner.has_kept_of(i) && !inner.is_holder(i),
    });
}

/// Whether the end of the plan waits for clean-up steps, or for plans inside it.
pub(crate) fn runs_cleanup(state: &PlanState) -> bool {
    let begun = matches!(state.status, PlanStatus::Running | PlanStatus::Replanning | PlanStatus::Paused);
    begun
        && delayed_start::start_due_ms(state).is_none()
        && !state.cleanup.is_running()
        && !(state.graph.cleanup_steps().is_empty() && state.inner.is_empty())
}

/// Whether the clean-up waits for the plan of a step.
pub(crate) fn is_stopping(state: &PlanState, i: StepIndex) -> bool {
    state.cleanup.is_stopping() && state.inner.is_holder(i)
}

/// Clean-up steps that are not final.
pub(crate) fn open_cleanup(state: &PlanState) -> impl Iterator<Item = StepIndex> {
    state.graph.cleanup_steps().iter().copied().filter(|i| !state.steps[*i].status().is_final())
}

pub(crate) fn has_always(state: &PlanState) -> bool {
    open_cleanup(state).any(|i| state.plan.step(i).always)
}

/// The undo steps of what was done, for a plan that ends like that: what revisions removed, then the last one that
/// began first.
fn to_undo(state: &PlanState, status: PlanStatus) -> Vec<StepIndex> {
    let mut undo = state.cleanup.undoing().to_vec();
    undo.extend(undos_after(state, status));
    undo
}

fn undos_after(state: &PlanState, status: PlanStatus) -> Vec<StepIndex> {
    let wanted = if status == PlanStatus::Failed {
        UndoOn::Failed
    } else if status == PlanStatus::Cancelled {
        UndoOn::Cancelled
    } else {
        return Vec::new();
    };
    // The plan around a kept one says whether it is undone.
    if !state.is_kept() && state.plan.definition().undo_on.as_ref().is_some_and(|on| !on.contains(&wanted)) {
        return Vec::new();
    }
    let own = open_cleanup(state).filter_map(|i| {
        let target = done_work::undone_step(state, i)?;
        is_undone_by(state, target, i).then(|| (state.steps[target].sent(), false, i))
    });
    // What the plan of a step did is undone before what the undo step of the step itself undoes. A plan that has not
    // ended may be done with its work.
    let holders: BTreeSet<StepIndex> = state.inner.keepers().chain(state.inner.holders()).collect();
    let kept = holders.into_iter().map(|holder| (state.steps[holder].sent(), true, holder));
    let mut done: Vec<(u64, bool, StepIndex)> = own.chain(kept).collect();
    done.sort_by(|a, b| b.cmp(a));
    done.into_iter().map(|(_, _, i)| i).collect()
}

/// Whether a step has done something that its undo step takes back. A map that did not complete undid its items
/// itself, when its own plan ended; one that is kept undoes them itself.
pub(crate) fn is_undone_by(state: &PlanState, i: StepIndex, undo: StepIndex) -> bool {
    let is_map = state.plan.step(undo).undoes_map();
    let by_map = || state.steps[i].status() != StepStatus::Completed || state.inner.has_kept_of(i);
    done_work::may_be_done(state, i) && !(is_map && by_map())
}

/// Whether a step has done something that one of its undo steps takes back.
pub(crate) fn is_undone(state: &PlanState, i: StepIndex) -> bool {
    state.graph.undos_of(i).iter().any(|undo| is_undone_by(state, i, *undo))
}

/// The open undo step of a step.
pub(crate) fn undo_of(state: &PlanState, i: StepIndex) -> Option<StepIndex> {
    state.graph.undos_of(i).iter().copied().find(|undo| !state.steps[*undo].status().is_final())
}

/// Whether a step that a revision removes must be undone.
pub(crate) fn needs_undo(state: &PlanState, i: StepIndex) -> bool {
    undo_of(state, i).map_or_else(
        || done_work::may_be_done(state, i),
        |undo| is_undone_by(state, i, undo) && !done_work::is_idle_map(state, i),
    )
}

/// Whether it is the undo step of a step that a revision removed.
pub(crate) fn undoes_removed(state: &PlanState, i: StepIndex) -> bool {
    done_work::undone_step(state, i).is_some_and(|undone| state.steps[undone].status() == StepStatus::Revised)
}

/// The undo steps of steps that a revision removes: the last one that began first.
pub(crate) fn undos_of(state: &PlanState, removed: &BTreeSet<StepIndex>) -> Vec<StepIndex> {
    let needed = removed.iter().filter(|i| needs_undo(state, **i));
    let undos = needed.filter_map(|i| Some((state.steps[*i].sent(), undo_of(state, *i)?)));
    let mut undos: Vec<(u64, StepIndex)> = undos.filter(|(_, undo)| !removed.contains(undo)).collect();
    undos.sort_by(|a, b| b.cmp(a));
    undos.into_iter().map(|(_, undo)| undo).collect()
}

/// Whether a step belongs to a part of the plan that has not begun, or to one that is over.
pub(crate) fn runs_later(state: &PlanState, i: StepIndex) -> bool {
    // What a revision took out is undone before other steps begin, and these are open meanwhile.
    let is_open = !state.cleanup.is_running() && !state.plan.step(i).is_cleanup();
    !is_open && !is_its_turn(state, i)
}

/// Whether a step may begin as far as the part of the plan goes to which it belongs.
pub(crate) fn is_its_turn(state: &PlanState, i: StepIndex) -> bool {
    let spec = state.plan.step(i);
    let Some(cleanup) = state.cleanup.run() else {
        return match state.cleanup.undoing().first() {
            Some(next) => *next == i,
            None => !spec.is_cleanup(),
        };
    };
    if cleanup.is_stopping() {
        return false;
    }
    match &spec.undoes {
        Some(_) => cleanup.next_undo() == Some(i),
        None => spec.always && cleanup.next_undo().is_none(),
    }
}

/// When the plan must end, Unix milliseconds.
pub(crate) fn end_due_ms(state: &PlanState) -> u64 {
    state.cleanup.run().map_or(state.accepted.deadline_ms, |run| run.due_ms)
}

/// The plan ends when its log has so many events: at first by way of its clean-up, which has as many of its own.
pub(crate) fn events_end(state: &PlanState, limits: &Limits) -> u64 {
    let before = state.cleanup.run().map_or(0, |run| run.began);
    before.saturating_add(limits.events_max)
}

/// Folds the begin of the clean-up; what is open of the rest was cancelled.
///
/// - `seq`: the number of its event.
pub(crate) fn begin_cleanup(state: &mut PlanState, seq: u64, started: &CleanupStarted) -> Result<(), ReplayError> {
    let undo = started.undo.iter().map(|id| apply::step_of(state, seq, id)).collect::<Result<_, _>>()?;
    let outcome = PlanEnded { cancelled: Vec::new(), ..started.outcome.clone() };
    let run = CleanupRun {
        keeps_undos: may_keep_work(state, outcome.status),
        outcome,
        undo,
        due_ms: started.due_ms,
        began: seq,
        passed: 0,
        stopping: state.inner.unended(),
        after_inside_ms: started.after_inside_ms,
    };
    state.cleanup.begin(run);
    state.outcome.begin_undo();
    // By hand, or by a revision.
    pass_cleanup(state);
    Ok(())
}

/// Whether a plan that ends like that is kept: it has done what can be undone. The plan around a map undoes what its
/// items did, but for what plans inside them did.
pub(crate) fn keeps_work(state: &PlanState, status: PlanStatus) -> bool {
    let has_work = || state.graph.undone_steps().any(|i| is_undone(state, i) && !done_work::is_idle_map(state, i));
    may_keep_work(state, status) && (state.inner.has_kept() || has_work())
}

/// The same in logs of earlier builds, in which a map has work whose items have done nothing.
pub(crate) fn may_keep_work(state: &PlanState, status: PlanStatus) -> bool {
    let is_done = matches!(status, PlanStatus::Completed | PlanStatus::Partial);
    if !is_done || state.parent().is_none() || state.outcome.kept().is_some() {
        return false;
    }
    let has_work = || state.graph.undone_steps().any(|i| is_undone(state, i));
    state.inner.has_kept() || state.plan.definition().collect != Collect::List && has_work()
}
