//! Clean-up: the steps that run once the outcome of a plan is known. First the undo steps of what was done, the last one
//! that began first, one at a time; then the `always` steps. The outcome stays, whatever becomes of them.

pub(crate) mod cleanup_state;
pub(crate) mod done_work;
pub(crate) mod outcome;

use std::collections::BTreeSet;

use goalmill_common::event::{
    CleanupStarted, PlanEnded, PlanEvent, SkipCause, StepCancelled, StepCompleted, StepEvent, StepUndone,
};
use goalmill_common::failure::Failure;
use goalmill_common::goal::Usage;
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::UndoOn;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::attempt::failure;
use crate::attempt::report::Spent;
use crate::cleanup::cleanup_state::CleanupRun;
use crate::decide::Turn;
use crate::graph::{StepIndex, unlock};
use crate::render::payloads;
use crate::sub_plan::inner_plans::NOT_UNDONE_MAX;
use crate::sub_plan::kept_plans;
use crate::{PlanState, ReplayError, SubPlanEnd, apply, attempt, delayed_start, sub_plan};

/// Ends the plan, once its clean-up steps have run. The first of them begins when the turn goes on.
pub(crate) fn end_plan(turn: &mut Turn<'_>, outcome: PlanEnded) {
    if !runs_cleanup(turn.state) {
        return emit_end(turn, outcome);
    }
    let undo = to_undo(turn.state, outcome.status);
    if !kept_plans::keeps_work(turn.state, outcome.status) {
        skip_needless_undos(turn, &undo, outcome.status);
    }
    let holds = turn.state.inner.unended() > 0;
    if undo.is_empty() && !has_always(turn.state) && !holds {
        return emit_end(turn, outcome);
    }
    let limit_ms = turn.context.limits.cleanup_ms;
    // Each plan inside may take the time of its own clean-up, once those inside it have.
    let levels = 1 + u64::from(sub_plan::depth_max(turn).saturating_sub(sub_plan::depth(turn.state)));
    let due_ms = turn.after(if holds { limit_ms.saturating_mul(levels) } else { limit_ms });
    let undo = undo.into_iter().map(|i| turn.id_of(i)).collect();
    let started = CleanupStarted { outcome, undo, due_ms, after_inside_ms: holds.then_some(limit_ms) };
    turn.emit_plan(PlanEvent::CleanupStarted(Box::new(started)));
    turn.finished.clear();
    turn.begins_cleanup = true;
}

/// Ends the plan, or keeps it until the plan around it ends.
pub(crate) fn emit_end(turn: &mut Turn<'_>, outcome: PlanEnded) {
    if kept_plans::keeps_work(turn.state, outcome.status) {
        return turn.emit_plan(PlanEvent::Kept(Box::new(outcome)));
    }
    kept_plans::release_kept(turn);
    let (status, outcome) = (outcome.status, Box::new(outcome));
    turn.emit_plan(if status == PlanStatus::Cancelled {
        PlanEvent::Cancelled(outcome)
    } else if matches!(status, PlanStatus::Completed | PlanStatus::Partial) {
        PlanEvent::Completed(outcome)
    } else {
        PlanEvent::Failed(outcome)
    });
}

fn skip_needless_undos(turn: &mut Turn<'_>, undo: &[StepIndex], status: PlanStatus) {
    let undo: BTreeSet<StepIndex> = undo.iter().copied().collect();
    let needless: Vec<(StepIndex, String)> = open_cleanup(turn.state)
        .filter(|i| !undo.contains(i))
        .filter_map(|i| {
            let target = turn.state.plan.step(i).undoes.as_ref()?;
            let was_done = turn.state.graph.find(target.as_str()).is_some_and(|t| is_undone_by(turn.state, t, i));
            let reason = if was_done {
                format!("the plan ends as {status}: `{target}` stays done")
            } else {
                format!("`{target}` was not done")
            };
            Some((i, reason))
        })
        .collect();
    for (i, reason) in needless {
        unlock::skip_step(turn, i, SkipCause::Condition, reason);
    }
}

/// Lets an undo step continue with the next piece of work that it undoes. Returns whether there is one.
///
/// - `undone`: how it went with the last one.
fn undo_next(turn: &mut Turn<'_>, i: StepIndex, undone: StepUndone) -> bool {
    if !done_work::undoes_more(turn.state, i) {
        return false;
    }
    turn.emit_step(i, StepEvent::Undone(Box::new(undone)));
    payloads::forget_payloads(turn, i);
    turn.finished.push_back(i);
    true
}

/// Takes the outputs of a step. Returns them if it is done: an undo step is not before it has undone all that is done.
pub(crate) fn finish_undo(turn: &mut Turn<'_>, i: StepIndex, completed: StepCompleted) -> Option<StepCompleted> {
    if turn.state.plan.step(i).undoes.is_none() {
        return Some(completed);
    }
    let StepCompleted { cost, tokens, usage, duration_ms, .. } = completed;
    let outputs = Some(completed.outputs.clone());
    if undo_next(turn, i, StepUndone { outputs, failure: None, cost, tokens, usage, duration_ms }) {
        return None;
    }
    let spent = Spent::from_completed(&completed);
    match done_work::failed_undos(turn.state, i, 0) {
        None => Some(completed),
        Some(failure) => {
            failure::fail_step(turn, i, failure, spent);
            None
        }
    }
}

/// Takes the failure of an undo step that has more to undo. Returns whether it has.
pub(crate) fn fail_undo(turn: &mut Turn<'_>, i: StepIndex, failure: &Failure, spent: Spent) -> bool {
    let Spent { cost, tokens, split: usage, duration_ms } = spent;
    done_work::undoes_more(turn.state, i)
        && undo_next(
            turn,
            i,
            StepUndone { outputs: None, failure: Some(failure.clone()), cost, tokens, usage, duration_ms },
        )
}

/// Skips a step whose condition is false. An undo step passes over one piece of work alone.
pub(crate) fn skip_by_condition(turn: &mut Turn<'_>, i: StepIndex, reason: String) {
    if undo_next(turn, i, StepUndone::default()) {
        return;
    }
    if let Some(failure) = done_work::failed_undos(turn.state, i, 0) {
        failure::fail_step(turn, i, failure, Spent::default());
    } else if done_work::undone(turn.state, i) == 0 || turn.state.steps[i].attempt() == 0 {
        unlock::skip_step(turn, i, SkipCause::Condition, reason);
    } else {
        attempt::emit_completed(turn, i, Json::empty_object());
    }
}

/// Goes on with the clean-up, and ends the plan after it.
pub(crate) fn advance_cleanup(turn: &mut Turn<'_>) {
    if turn.begins_cleanup {
        unlock_cleanup(turn);
    }
    loop {
        if turn.state.is_final() {
            return turn.finished.clear();
        }
        if let Some(i) = turn.finished.pop_front() {
            unlock::unlock_dependents(turn, i);
            if turn.state.plan.step(i).undoes.is_some() {
                unlock_cleanup(turn);
            }
        } else if !unlock::run_next_engine_step(turn) {
            break;
        }
    }
    if turn.state.is_done() {
        finish_cleanup(turn, "");
    }
}

/// A plan inside has ended while this one waits for it. The clean-up begins after the last one.
pub(crate) fn inside_ended(turn: &mut Turn<'_>, i: StepIndex, end: SubPlanEnd) {
    if end.is_kept {
        kept_plans::keep_inside(turn, i);
    }
    let Usage { cost, tokens } = end.usage.bounded();
    let (reason, not_undone) = ("the plan around it ends".to_owned(), named_inside(turn.state, i, end.not_undone));
    let cancelled = StepCancelled { reason, cost, tokens, not_undone };
    turn.emit_step(i, StepEvent::Cancelled(Box::new(cancelled)));
    unlock_cleanup(turn);
    advance_cleanup(turn);
}

/// Lets the next undo step begin, or after the last one all `always` steps.
pub(crate) fn unlock_cleanup(turn: &mut Turn<'_>) {
    turn.begins_cleanup = false;
    if turn.state.cleanup.is_stopping() {
        return;
    }
    match turn.state.cleanup.run().and_then(CleanupRun::next_undo) {
        Some(next) if turn.state.plan.step(next).is_cleanup() => unlock::try_unlock(turn, next),
        Some(holder) => kept_plans::undo_kept(turn, holder),
        None => {
            let open: Vec<StepIndex> = open_cleanup(turn.state).collect();
            open.into_iter().for_each(|i| unlock::try_unlock(turn, i));
        }
    }
}

/// Ends the plan with its outcome; clean-up steps that are open are cancelled.
///
/// - `why`: why they are; empty when none is open.
pub(crate) fn finish_cleanup(turn: &mut Turn<'_>, why: &str) {
    let Some(cleanup) = turn.state.cleanup.run().cloned() else { return };
    let cancelled = failure::cancel_steps(turn, "the clean-up has ended", why);
    let failed = cleanup_not_done(turn.state);
    let mut outcome = PlanEnded { cancelled, ..cleanup.outcome };
    if !failed.is_empty() {
        let separator = if outcome.reason.is_empty() { "" } else { "; " };
        let failed = in_quotes(&failed);
        outcome.reason.push_str(&format!("{separator}clean-up steps that did not succeed: {failed}"));
    }
    emit_end(turn, outcome);
}

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
fn open_cleanup(state: &PlanState) -> impl Iterator<Item = StepIndex> {
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
    if !kept_plans::is_kept(state) && state.plan.definition().undo_on.as_ref().is_some_and(|on| !on.contains(&wanted)) {
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
        keeps_undos: kept_plans::may_keep_work(state, outcome.status),
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
