//! Unlocks steps whose dependencies are satisfied, skips those whose join is impossible, and ends the plan.

use goalmill_common::config::HookPoint;
use goalmill_common::event::{ApprovalRequested, PlanEnded, Reason, SkipCause, StepEvent, StepSkipped};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::plan::StepKind;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::attempt::failure::plan_failure;
use crate::attempt::report::Spent;
use crate::constraints::CONSTRAINT_BROKEN;
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::graph::open_dependencies::JoinState;
use crate::state::StepState;

impl Turn<'_> {
    /// Tries to unlock every step.
    pub(crate) fn unlock_steps(&mut self) {
        if self.state.cleanup.is_running() {
            self.unlock_cleanup();
            return self.advance_cleanup();
        }
        while self.move_phase() {}
        for i in self.state.indices() {
            self.try_unlock(i);
        }
        self.propagate();
    }

    /// Handles the consequences of ended steps until nothing changes. A loop, because dependency chains may be long.
    pub(crate) fn propagate(&mut self) {
        loop {
            if self.state.is_final() || self.state.is_kept() {
                self.finished.clear();
                return;
            }
            // What ended the plan may be true for as long as it lasts.
            if self.state.cleanup.is_running() {
                return self.advance_cleanup();
            }
            if let Some(i) = self.finished.pop_front() {
                self.unlock_dependents(i);
                if self.state.plan.step(i).undoes.is_some() {
                    self.unlock_after_undo();
                }
            } else if let Some(failure) = self.exceeded_budget().or_else(|| self.exceeded_failures()) {
                self.fail_plan(failure);
            } else if self.check_constraints() {
                // The plan may have ended, or be replanned.
            } else if let Some(failure) = self.exceeded_outputs() {
                self.fail_plan(failure);
            } else if !self.move_phase() && !self.run_next_engine_step() {
                break;
            }
        }
        self.continue_within_budget();
        self.check_triggers();
        let may_end = matches!(self.state.status, PlanStatus::Running | PlanStatus::Paused);
        if may_end && self.state.is_done() && !self.state.is_open() {
            if self.state.is_part_due() {
                return self.request_next_part();
            }
            self.complete();
        }
    }

    pub(crate) fn unlock_dependents(&mut self, i: StepIndex) {
        for place in self.state.graph.dependent_range(i) {
            self.try_unlock(self.state.graph.dependent_at(place));
        }
    }

    /// Unlocks the next undo step of what a revision removed, or all steps that have waited for the last one.
    fn unlock_after_undo(&mut self) {
        match self.state.cleanup.undoing().first() {
            Some(next) => self.try_unlock(*next),
            None => self.state.indices().for_each(|i| self.try_unlock(i)),
        }
    }

    /// Skips blocked dependents when the plan continues without a failed step.
    pub(crate) fn skip_blocked(&mut self) {
        for i in self.state.indices() {
            if self.status_of(i) == StepStatus::Blocked {
                self.skip_for_dependencies(i);
            }
        }
        self.propagate();
    }

    /// Makes a pending step ready, or asks before, if nothing holds it back.
    pub(crate) fn try_unlock(&mut self, i: StepIndex) {
        let waits = self.state.loads.is_asked(Some(i));
        if self.status_of(i) != StepStatus::Pending || !self.is_under_way() || waits || !self.state.is_its_turn(i) {
            return;
        }
        match self.state.join_state(i) {
            JoinState::Met if self.state.is_phase_open(i) => {}
            JoinState::Open | JoinState::Met => return,
            JoinState::Impossible if self.state.status == PlanStatus::Replanning => {
                let why = Reason::boxed("a dependency failed; waiting for a revision");
                return self.emit_step(i, StepEvent::Blocked(why));
            }
            JoinState::Impossible => return self.skip_for_dependencies(i),
        }
        if !self.meets_condition(i) {
            return;
        }
        let spec = self.state.plan.step(i);
        let (is_map, approval) = (spec.for_each.is_some(), spec.approve);
        // The items of a map ask each for itself.
        if !is_map && (self.ask_step(i) || self.ask_hooks_before(i)) {
            return;
        }
        let Some(approval) = approval.filter(|_| !is_map) else { return self.emit_step(i, StepEvent::Ready) };
        let due_ms = self.after(approval.limit_ms.min(self.context.limits.approval_ms_max));
        self.emit_step(i, StepEvent::ApprovalRequested(Box::new(ApprovalRequested { due_ms })));
    }

    /// Whether the condition of a step is true. A step with a false one is skipped; one that cannot be evaluated is put
    /// off.
    fn meets_condition(&mut self, i: StepIndex) -> bool {
        let spec = self.state.plan.step(i);
        let asks_hooks = self.context.hooks.contains(HookPoint::OnStepStart);
        let evaluates = spec.when.is_some() || spec.ask.is_some() || asks_hooks;
        if evaluates && !self.work.allows_more() {
            return false;
        }
        let condition = self.expressions(i).condition();
        if evaluates {
            self.count_work(0);
        }
        match condition {
            Err(why) => self.put_off(i, why),
            Ok(false) => {
                let when = self.state.plan.step(i).when.as_deref().unwrap_or_default();
                let reason = format!("`{when}` is false");
                self.skip_by_condition(i, reason);
            }
            Ok(true) => return true,
        }
        false
    }

    fn skip_for_dependencies(&mut self, i: StepIndex) {
        let state = &*self.state;
        let spec = state.plan.step(i);
        let mut dependencies = spec.dependencies.iter().filter_map(|id| state.graph.find(id.as_str()));
        let lost = dependencies.find(|d| state.steps[*d].status().is_final() && !state.is_met(spec, *d));
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
        self.skip(i, SkipCause::DependencyFailed, reason);
    }

    pub(crate) fn skip(&mut self, i: StepIndex, cause: SkipCause, reason: String) {
        let skipped = StepSkipped { reason, ..StepSkipped::new(cause) };
        self.emit_step(i, StepEvent::Skipped(Box::new(skipped)));
    }

    /// Runs one ready step that needs no worker. Returns whether there was one.
    pub(crate) fn run_next_engine_step(&mut self) -> bool {
        if self.state.status != PlanStatus::Running || !self.state.ready.has_engine_step() || !self.work.allows_more() {
            return false;
        }
        let Some(next) = self.state.next_engine_step() else { return false };
        self.run_engine_step(next);
        true
    }

    /// Completes an inline step, begins a wait, or starts a sub-plan.
    pub(crate) fn run_engine_step(&mut self, i: StepIndex) {
        if self.state.plan.step(i).kind == StepKind::Wait && !self.state.plan.step(i).starts_plan() {
            return self.start_wait(i);
        }
        if self.state.runs_inline(i) {
            return self.complete_inline(i);
        }
        match self.cannot_afford(i) {
            Some(failure) => self.give_up(i, failure, Spent::default()),
            None => self.start_sub_plan(i),
        }
        self.count_work(0);
    }

    pub(crate) fn complete(&mut self) {
        if let Some(reason) = self.check_floors().or_else(|| self.check_amounts()) {
            return self.fail_plan(Failure::new(FailureClass::ConstraintViolation, CONSTRAINT_BROKEN, reason));
        }
        if self.judge() {
            return;
        }
        if let Some((step, failure)) = self.state.unhandled_failure() {
            return self.fail_plan(plan_failure(&step, failure));
        }
        let in_part = |step: &StepState| step.is_partial() && step.status() != StepStatus::Revised;
        let is_partial =
            self.state.has_open_failure() || self.state.steps.iter().any(in_part) || self.state.has_left_out();
        let status = if is_partial { PlanStatus::Partial } else { PlanStatus::Completed };
        let status = self.status_by_criteria(status);
        if status == PlanStatus::Failed {
            let message = "none of the judged success criteria is met";
            return self.fail_plan(Failure::new(FailureClass::ConstraintViolation, "CRITERIA_UNMET", message));
        }
        self.end_plan(PlanEnded { status, failure: None, reason: String::new(), cancelled: Vec::new() });
    }
}
