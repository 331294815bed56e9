//! Plans that start later: they are planned and approved, and then paused until their start.

use goalmill_common::goal::Goal;
use goalmill_common::status::PlanStatus;

use crate::PlanState;
use crate::due_time::after;

/// When the plan starts, Unix milliseconds, while it is paused for that.
pub(crate) fn start_due_ms(state: &PlanState) -> Option<u64> {
    awaited_start_ms(state).filter(|_| state.status == PlanStatus::Paused)
}

/// The start of the goal, until the plan is resumed after a pause.
pub(crate) fn awaited_start_ms(state: &PlanState) -> Option<u64> {
    state.accepted.goal.start_at_ms.filter(|_| !state.was_resumed && state.parent().is_none())
}

/// From when on time counts as used up, Unix milliseconds.
pub(crate) fn time_begins_ms(state: &PlanState) -> u64 {
    state.accepted.goal.start_at_ms.unwrap_or(0).max(state.created_ms())
}

/// The goal with its start as a time.
pub(crate) fn with_start(goal: Goal, now_ms: u64) -> Goal {
    let start_at_ms = goal.start_in_ms.map(|start_in_ms| after(now_ms, start_in_ms)).or(goal.start_at_ms);
    Goal { start_at_ms, start_in_ms: None, ..goal }
}
