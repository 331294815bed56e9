//! Plans that start later: they are planned and approved, and then paused until their start.

use goalmill_common::clock::rfc3339;
use goalmill_common::event::{PlanEvent, Reason};
use goalmill_common::goal::Goal;
use goalmill_common::status::PlanStatus;

use crate::PlanState;
use crate::decide::{Turn, after};

/// When the plan starts, Unix milliseconds, while it is paused for that.
pub(crate) fn start_due_ms(state: &PlanState) -> Option<u64> {
    awaited_start_ms(state).filter(|_| state.status == PlanStatus::Paused)
}

/// The start of the goal, until the plan is resumed after a pause.
fn awaited_start_ms(state: &PlanState) -> Option<u64> {
    state.accepted.goal.start_at_ms.filter(|_| !state.was_resumed && state.parent().is_none())
}

/// From when on time counts as used up, Unix milliseconds.
pub(crate) fn time_begins_ms(state: &PlanState) -> u64 {
    state.accepted.goal.start_at_ms.unwrap_or(0).max(state.created_ms())
}

/// Whether parts of the plan may begin: it is active, and its start has come.
pub(crate) fn is_under_way(turn: &Turn<'_>) -> bool {
    turn.is_active() && start_due_ms(turn.state).is_none()
}

/// Pauses a plan that is ready to start before its time. Returns whether it did.
pub(crate) fn hold_until_start(turn: &mut Turn<'_>) -> bool {
    let Some(start_ms) = awaited_start_ms(turn.state).filter(|start_ms| *start_ms > turn.now_ms) else {
        return false;
    };
    turn.emit_plan(PlanEvent::Paused(Reason::boxed(format!("it starts at {}", rfc3339(start_ms)))));
    true
}

/// The goal with its start as a time.
pub(crate) fn with_start(goal: Goal, now_ms: u64) -> Goal {
    let start_at_ms = goal.start_in_ms.map(|start_in_ms| after(now_ms, start_in_ms)).or(goal.start_at_ms);
    Goal { start_at_ms, start_in_ms: None, ..goal }
}
