//! Phases and their checkpoints. At the last checkpoint of an iterative plan, planners are asked for the next part.

use goalmill_common::event::{PhaseNamed, PlanEvent, Reason};
use goalmill_common::revision::Trigger;
use goalmill_common::status::PlanStatus;

use crate::PlanState;
use crate::decide::Turn;

impl Turn<'_> {
    /// Ends or begins the current phase if that is due. Returns whether anything changed.
    pub(crate) fn move_phase(&mut self) -> bool {
        let Some(phase) = self.state.phases.current_state() else { return false };
        if !self.is_under_way() || (phase.begun && phase.open > 0) {
            return false;
        }
        let named =
            Box::new(PhaseNamed { phase: self.state.plan.definition().phases[self.state.phases.current()].id.clone() });
        if phase.open == 0 {
            self.emit_plan(match (phase.begun, phase.failed, phase.completed) {
                (true, 1.., _) => PlanEvent::PhaseFailed(named),
                (true, 0, 1..) => PlanEvent::PhaseCompleted(named),
                (true, 0, 0) | (false, _, _) => PlanEvent::PhaseSkipped(named),
            });
            if phase.begun {
                self.request_checkpoint(self.state.phases.current() - 1);
            }
            return true;
        }
        // A revision may still change a phase that has not begun.
        if self.state.status == PlanStatus::Replanning {
            return false;
        }
        let current = self.state.phases.current();
        self.emit_plan(PlanEvent::PhaseStarted(named));
        for k in 0..self.state.graph.members()[current].len() {
            self.try_unlock(self.state.graph.members()[current][k]);
        }
        true
    }

    /// Requests a replan after a phase with a checkpoint.
    pub(crate) fn request_checkpoint(&mut self, phase: usize) {
        let spec = &self.state.plan.definition().phases[phase];
        if !spec.checkpoint || self.state.status != PlanStatus::Running || self.state.is_done() {
            return;
        }
        let name = spec.id.clone();
        if !self.state.accepted.goal.success_criteria.is_empty() {
            // What waits for payloads is judged when they are there.
            self.judge_now(Some(&name));
        }
        self.request_replan_after(phase);
    }

    /// Requests the next part of an iterative plan. A paused plan requests it when it is resumed.
    pub(crate) fn request_next_part(&mut self) {
        if let (PlanStatus::Running, Some(last)) =
            (self.state.status, self.state.plan.definition().phases.len().checked_sub(1))
        {
            self.request_replan_after(last);
        }
    }

    fn request_replan_after(&mut self, phase: usize) {
        let reason = format!("phase `{}` has ended", self.state.plan.definition().phases[phase].id);
        self.replan(Trigger::PhaseCheckpoint, None, reason);
    }

    /// Ends an iterative plan to which the planner adds nothing.
    pub(crate) fn finish_iterative_plan(&mut self, summary: &str) {
        let said = if summary.is_empty() { String::new() } else { format!(": {summary}") };
        let needs_next_part = self.state.needs_next_part();
        self.emit_plan(PlanEvent::Resumed(Reason::boxed(format!("the planner adds nothing{said}"))));
        // `propagate` would request the next part again.
        if needs_next_part && !self.state.is_open() { self.complete() } else { self.skip_blocked() }
    }
}

impl PlanState {
    /// Whether every step of an iterative plan is final and its last phase ends in a checkpoint.
    pub(crate) fn is_part_due(&self) -> bool {
        let last = self.plan.definition().phases.last().is_some_and(|phase| phase.checkpoint);
        last && self.phases.current() == self.plan.definition().phases.len()
            && self.is_done()
            && self.plan.definition().is_iterative()
    }

    /// Whether an iterative plan is replanned at a checkpoint.
    pub(crate) fn is_at_part(&self) -> bool {
        self.waiting.is_for(Trigger::PhaseCheckpoint) && self.plan.definition().is_iterative()
    }

    /// Whether an iterative plan has run all its steps and waits for its next part.
    pub(crate) fn needs_next_part(&self) -> bool {
        self.is_at_part() && self.is_done()
    }
}
