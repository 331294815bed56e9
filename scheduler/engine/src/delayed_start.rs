//! Plans that start later: they are planned and approved, and then paused until their start.

use goalmill_common::clock::rfc3339;
use goalmill_common::event::{PlanEvent, Reason};
use goalmill_common::goal::Goal;
use goalmill_common::status::PlanStatus;

use crate::PlanState;
use crate::decide::{Turn, after};

impl PlanState {
    /// When the plan starts, Unix milliseconds, while it is paused for that.
    pub(crate) fn start_due_ms(&self) -> Option<u64> {
        self.awaited_start_ms().filter(|_| self.status == PlanStatus::Paused)
    }

    /// The start of the goal, until the plan is resumed after a pause.
    fn awaited_start_ms(&self) -> Option<u64> {
        self.accepted.goal.start_at_ms.filter(|_| !self.was_resumed && self.parent().is_none())
    }

    /// From when on time counts as used up, Unix milliseconds.
    pub(crate) fn time_begins_ms(&self) -> u64 {
        self.accepted.goal.start_at_ms.unwrap_or(0).max(self.created_ms())
    }
}

impl Turn<'_> {
    /// Whether parts of the plan may begin: it is active, and its start has come.
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_active() && self.state.start_due_ms().is_none()
    }

    /// Pauses a plan that is ready to start before its time. Returns whether it did.
    pub(crate) fn hold_until_start(&mut self) -> bool {
        let Some(start_ms) = self.state.awaited_start_ms().filter(|start_ms| *start_ms > self.now_ms) else {
            return false;
        };
        self.emit_plan(PlanEvent::Paused(Reason::boxed(format!("it starts at {}", rfc3339(start_ms)))));
        true
    }
}

/// The goal with its start as a time.
pub(crate) fn with_start(goal: Goal, now_ms: u64) -> Goal {
    let start_at_ms = goal.start_in_ms.map(|start_in_ms| after(now_ms, start_in_ms)).or(goal.start_at_ms);
    Goal { start_at_ms, start_in_ms: None, ..goal }
}
