//! How a plan ends: it fails or is cancelled, its clean-up begins, and its end is recorded.

use std::collections::BTreeSet;

use goalmill_common::event::{CleanupStarted, PlanEnded, PlanEvent, SkipCause};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::status::PlanStatus;

use crate::attempt::cancel;
use crate::graph::StepIndex;
use crate::sub_plan::{family_limits, orders};
use crate::turn::Turn;
use crate::{cleanup, sub_plan};

/// Fails the plan. Attempts in flight are cancelled, results are kept.
pub(crate) fn fail_plan(turn: &mut Turn<'_>, failure: Failure) {
    let reason = failure.message.clone();
    fail_plan_because(turn, failure, reason);
}

/// Fails the plan for a reason of its own: that of the planner that advised to abort, for instance. A plan whose outcome
/// is known keeps it.
pub(crate) fn fail_plan_because(turn: &mut Turn<'_>, failure: Failure, reason: String) {
    if turn.state.cleanup.is_running() {
        return;
    }
    let cancelled = cancel::cancel_steps(turn, "the plan failed", &reason);
    let ended = PlanEnded { status: PlanStatus::Failed, failure: Some(failure), reason, cancelled };
    end_plan(turn, ended);
}

pub(crate) fn cancel_plan(turn: &mut Turn<'_>, reason: String) {
    let cancelled = cancel::cancel_steps(turn, "the plan was cancelled", &reason);
    end_plan(turn, PlanEnded { status: PlanStatus::Cancelled, failure: None, reason, cancelled });
}

/// Ends a plan whose log is too long, through its clean-up, which may write as many events again.
pub(crate) fn fail_for_events(turn: &mut Turn<'_>) {
    if turn.state.cleanup.is_running() {
        return finish_cleanup(turn, "its log is too long (`events_max`)");
    }
    let most = turn.context.limits.events_max;
    let message = format!("the plan has more than {most} events (`events_max`)");
    fail_plan(turn, Failure::new(FailureClass::ConstraintViolation, "EVENTS_EXCEEDED", message));
}

/// Ends the plan, once its clean-up steps have run. The first of them begins when the turn goes on.
pub(crate) fn end_plan(turn: &mut Turn<'_>, outcome: PlanEnded) {
    if !cleanup::runs_cleanup(turn.state) {
        return emit_end(turn, outcome);
    }
    let undo = cleanup::to_undo(turn.state, outcome.status);
    if !cleanup::keeps_work(turn.state, outcome.status) {
        skip_needless_undos(turn, &undo, outcome.status);
    }
    let holds = turn.state.inner.unended() > 0;
    if undo.is_empty() && !cleanup::has_always(turn.state) && !holds {
        return emit_end(turn, outcome);
    }
    let limit_ms = turn.context.limits.cleanup_ms;
    // Each plan inside may take the time of its own clean-up, once those inside it have.
    let levels = 1 + u64::from(family_limits::depth_max(turn).saturating_sub(sub_plan::depth(turn.state)));
    let due_ms = turn.after(if holds { limit_ms.saturating_mul(levels) } else { limit_ms });
    let undo = undo.into_iter().map(|i| turn.id_of(i)).collect();
    let started = CleanupStarted { outcome, undo, due_ms, after_inside_ms: holds.then_some(limit_ms) };
    turn.emit_plan(PlanEvent::CleanupStarted(Box::new(started)));
    turn.finished.clear();
    turn.begins_cleanup = true;
}

/// Ends the plan, or keeps it until the plan around it ends.
pub(crate) fn emit_end(turn: &mut Turn<'_>, outcome: PlanEnded) {
    if cleanup::keeps_work(turn.state, outcome.status) {
        return turn.emit_plan(PlanEvent::Kept(Box::new(outcome)));
    }
    orders::release_kept(turn);
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
    let needless: Vec<(StepIndex, String)> = cleanup::open_cleanup(turn.state)
        .filter(|i| !undo.contains(i))
        .filter_map(|i| {
            let target = turn.state.plan.step(i).undoes.as_ref()?;
            let was_done =
                turn.state.graph.find(target.as_str()).is_some_and(|t| cleanup::is_undone_by(turn.state, t, i));
            let reason = if was_done {
                format!("the plan ends as {status}: `{target}` stays done")
            } else {
                format!("`{target}` was not done")
            };
            Some((i, reason))
        })
        .collect();
    for (i, reason) in needless {
        turn.skip_step(i, SkipCause::Condition, reason);
    }
}

/// Ends the plan with its outcome; clean-up steps that are open are cancelled.
///
/// - `why`: why they are; empty when none is open.
pub(crate) fn finish_cleanup(turn: &mut Turn<'_>, why: &str) {
    let Some(cleanup) = turn.state.cleanup.run().cloned() else { return };
    let cancelled = cancel::cancel_steps(turn, "the clean-up has ended", why);
    let failed = cleanup::cleanup_not_done(turn.state);
    let mut outcome = PlanEnded { cancelled, ..cleanup.outcome };
    if !failed.is_empty() {
        let separator = if outcome.reason.is_empty() { "" } else { "; " };
        let failed = cleanup::in_quotes(&failed);
        outcome.reason.push_str(&format!("{separator}clean-up steps that did not succeed: {failed}"));
    }
    emit_end(turn, outcome);
}
