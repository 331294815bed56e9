//! Unlocks steps whose dependencies are satisfied, and skips those whose join is impossible.

use goalmill_common::config::HookPoint;
use goalmill_common::event::{ApprovalRequested, Reason, SkipCause, StepEvent};
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::attempt::failure;
use crate::cleanup;
use crate::cleanup::undo_end;
use crate::graph::open_dependencies::JoinState;
use crate::graph::{StepIndex, dependencies};
use crate::people::{hook, questions};
use crate::turn::Turn;

pub(crate) fn unlock_dependents(turn: &mut Turn<'_>, i: StepIndex) {
    for place in turn.state.graph.dependent_range(i) {
        try_unlock(turn, turn.state.graph.dependent_at(place));
    }
}

/// Unlocks the next undo step of what a revision removed, or all steps that have waited for the last one.
pub(crate) fn unlock_after_undo(turn: &mut Turn<'_>) {
    match turn.state.cleanup.undoing().first() {
        Some(next) => try_unlock(turn, *next),
        None => turn.state.indices().for_each(|i| try_unlock(turn, i)),
    }
}

/// Makes a pending step ready, or asks before, if nothing holds it back.
pub(crate) fn try_unlock(turn: &mut Turn<'_>, i: StepIndex) {
    let waits = turn.state.loads.is_asked(Some(i));
    if turn.status_of(i) != StepStatus::Pending
        || turn.begins_cleanup
        || !turn.is_under_way()
        || waits
        || !cleanup::is_its_turn(turn.state, i)
    {
        return;
    }
    match turn.state.join_state(i) {
        JoinState::Met if turn.state.is_phase_open(i) => {}
        JoinState::Open | JoinState::Met => return,
        JoinState::Impossible if turn.state.status == PlanStatus::Replanning => {
            let why = Reason::boxed("a dependency failed; waiting for a revision");
            return turn.emit_step(i, StepEvent::Blocked(why));
        }
        JoinState::Impossible => return skip_for_dependencies(turn, i),
    }
    if !meets_condition(turn, i) {
        return;
    }
    let spec = turn.state.plan.step(i);
    let (is_map, approval) = (spec.for_each.is_some(), spec.approve);
    // The items of a map ask each for itself.
    if !is_map && (questions::ask_step(turn, i) || hook::ask_hooks_before(turn, i)) {
        return;
    }
    let Some(approval) = approval.filter(|_| !is_map) else { return turn.emit_step(i, StepEvent::Ready) };
    let due_ms = turn.after(approval.limit_ms.min(turn.context.limits.approval_ms_max));
    turn.emit_step(i, StepEvent::ApprovalRequested(Box::new(ApprovalRequested { due_ms })));
}

/// Whether the condition of a step is true. A step with a false one is skipped; one that cannot be evaluated is put
/// off.
fn meets_condition(turn: &mut Turn<'_>, i: StepIndex) -> bool {
    let spec = turn.state.plan.step(i);
    let asks_hooks = turn.context.hooks.contains(HookPoint::OnStepStart);
    let evaluates = spec.when.is_some() || spec.ask.is_some() || asks_hooks;
    if evaluates && !turn.work.allows_more() {
        return false;
    }
    let condition = turn.expressions(i).condition();
    if evaluates {
        turn.count_work(0);
    }
    match condition {
        Err(why) => failure::put_off(turn, i, why),
        Ok(false) => {
            let when = turn.state.plan.step(i).when.as_deref().unwrap_or_default();
            let reason = format!("`{when}` is false");
            undo_end::skip_by_condition(turn, i, reason);
        }
        Ok(true) => return true,
    }
    false
}

pub(crate) fn skip_for_dependencies(turn: &mut Turn<'_>, i: StepIndex) {
    let state = &*turn.state;
    let spec = state.plan.step(i);
    let mut dependencies = spec.dependencies.iter().filter_map(|id| state.graph.find(id.as_str()));
    let lost = dependencies.find(|d| state.steps[*d].status().is_final() && !dependencies::is_met(state, spec, *d));
    let reason = match lost.map(|d| (&state.plan.step(d).id, state.steps[d].status())) {
        None => "not enough dependencies can succeed".to_owned(),
        Some((id, status)) => match spec.dependency_status.get(id) {
            None => format!("not enough dependencies can succeed: `{id}` is {status}"),
            Some(allowed) => {
                let allowed: Vec<&str> = allowed.iter().map(|status| status.as_str()).collect();
                format!("`{id}` is {status}, not {}", allowed.join(" or "))
            }
        },
    };
    turn.skip_step(i, SkipCause::DependencyFailed, reason);
}
