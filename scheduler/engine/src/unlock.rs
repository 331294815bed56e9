//! What becomes possible when something has ended: steps, phases, the plan's own end.

use goalmill_common::event::{
    ApprovalRequested, PhaseNamed, PlanEnded, PlanEvent, Reason, SkipCause, StepEvent, StepSkipped,
};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::render;
use crate::state::Joined;

impl Turn<'_> {
    /// Looks at every step once: those that wait for nothing may start.
    pub(crate) fn begin_steps(&mut self) {
        while self.move_phase() {}
        for i in self.state.indices() {
            self.consider(i);
        }
        self.settle();
    }

    /// Follows up on what has ended, until nothing more comes of it. A loop and not a recursion: chains are long.
    pub(crate) fn settle(&mut self) {
        loop {
            if self.state.is_final() {
                self.finished.clear();
                return;
            }
            if let Some(i) = self.finished.pop_front() {
                for place in self.state.graph.dependent_range(i) {
                    self.consider(self.state.graph.dependent_at(place));
                }
            } else if self.is_over_budget() {
                self.fail_over_budget();
            } else if self.state.outputs_bytes > self.context.limits.plan_outputs_bytes_max && !self.state.is_done() {
                self.fail_for_outputs();
            } else if !self.move_phase() && !self.do_own() {
                break;
            }
        }
        self.notice();
        let may_end = matches!(self.state.status, PlanStatus::Running | PlanStatus::Paused);
        if may_end && self.state.is_done() && !self.state.is_open() {
            if self.state.is_part_due() {
                return self.go_on_with_parts();
            }
            self.complete();
        }
    }

    /// Looks at the dependents that a failed step has blocked, when it is decided to go on without it.
    pub(crate) fn unblock(&mut self) {
        for i in self.state.indices() {
            if self.status_of(i) == StepStatus::Blocked {
                self.skip_for_dependencies(i);
            }
        }
        self.settle();
    }

    pub(crate) fn consider(&mut self, i: StepIndex) {
        if self.status_of(i) != StepStatus::Pending || !self.is_active() {
            return;
        }
        match self.state.joined(i) {
            Joined::Open => {}
            Joined::Met if self.state.is_phase_open(i) => self.unlock(i),
            Joined::Met => {}
            Joined::Impossible if self.state.status == PlanStatus::Replanning => {
                let why = Reason::boxed("a dependency failed, and how to go on is being decided");
                self.emit_step(i, StepEvent::Blocked(why));
            }
            Joined::Impossible => self.skip_for_dependencies(i),
        }
    }

    fn unlock(&mut self, i: StepIndex) {
        if self.state.plan.steps[i].when.is_some() {
            if !self.work.allows_more() {
                return;
            }
            self.work.count(0);
        }
        match render::condition(self.state, i, &self.context.limits) {
            Err(failure) => self.give_up(i, failure, 0.0, 0),
            Ok(false) => {
                let when = self.state.plan.steps[i].when.as_deref().unwrap_or_default();
                let reason = format!("`{when}` is false");
                self.skip(i, SkipCause::Condition, reason);
            }
            Ok(true) => self.offer(i),
        }
    }

    fn offer(&mut self, i: StepIndex) {
        if self.ask_step(i) {
            return;
        }
        let Some(approval) = self.state.plan.steps[i].approve else {
            return self.emit_step(i, StepEvent::Ready);
        };
        let limit_ms = approval.limit_ms.min(self.context.limits.approval_ms_max);
        let due_ms = self.after(limit_ms);
        self.emit_step(i, StepEvent::ApprovalRequested(Box::new(ApprovalRequested { due_ms })));
    }

    fn skip_for_dependencies(&mut self, i: StepIndex) {
        self.skip(i, SkipCause::DependencyFailed, "not enough dependencies can succeed".into());
    }

    pub(crate) fn skip(&mut self, i: StepIndex, cause: SkipCause, reason: String) {
        let skipped = StepSkipped { cause, reason, failure: None, cost: 0.0, tokens: 0 };
        self.emit_step(i, StepEvent::Skipped(Box::new(skipped)));
    }

    /// Ends or begins the current phase, if that is due; says whether anything changed.
    fn move_phase(&mut self) -> bool {
        let Some(phase) = self.state.phases.get(self.state.phase).copied() else { return false };
        if !self.is_active() || (phase.begun && phase.open > 0) {
            return false;
        }
        let named = Box::new(PhaseNamed { phase: self.state.plan.phases[self.state.phase].id.clone() });
        if phase.open == 0 {
            self.emit_plan(match (phase.begun, phase.failed, phase.completed) {
                (true, 1.., _) => PlanEvent::PhaseFailed(named),
                (true, 0, 1..) => PlanEvent::PhaseCompleted(named),
                (true, 0, 0) | (false, _, _) => PlanEvent::PhaseSkipped(named),
            });
            if phase.begun {
                self.check_point(self.state.phase - 1);
            }
            return true;
        }
        // A phase that has not begun may be another one when it is decided how to go on.
        if self.state.status == PlanStatus::Replanning {
            return false;
        }
        let current = self.state.phase;
        self.emit_plan(PlanEvent::PhaseStarted(named));
        for k in 0..self.state.graph.members()[current].len() {
            self.consider(self.state.graph.members()[current][k]);
        }
        true
    }

    /// Does one of the ready steps that need no worker; says whether there was one.
    fn do_own(&mut self) -> bool {
        if self.state.status != PlanStatus::Running || self.state.own.is_empty() && self.state.sub_plans.is_empty() {
            return false;
        }
        if !self.work.allows_more() {
            return false;
        }
        if let Some(&i) = self.state.own.first() {
            self.answer_inline(i);
            return true;
        }
        if !self.state.has_room() {
            return false;
        }
        let Some(&i) = self.state.sub_plans.iter().find(|i| self.state.is_free(**i)) else {
            return false;
        };
        self.work.count(0);
        self.start_sub_plan(i);
        true
    }

    fn fail_for_outputs(&mut self) {
        let most = self.context.limits.plan_outputs_bytes_max;
        let message = format!(
            "the outputs of its steps have {} bytes together, more than `plan_outputs_bytes_max` ({most}); \
             hand large data on by reference",
            self.state.outputs_bytes
        );
        self.fail_plan(Failure::new(FailureClass::ConstraintViolation, "PLAN_OUTPUTS_TOO_LARGE", message));
    }

    fn is_over_budget(&self) -> bool {
        let (budget, usage) = (self.state.budget(), self.state.usage);
        !self.state.is_done()
            && (budget.tokens.is_some_and(|most| usage.tokens > most)
                || budget.cost.is_some_and(|most| usage.cost > most))
    }

    fn fail_over_budget(&mut self) {
        let (budget, usage) = (self.state.budget(), self.state.usage);
        let message = match budget.tokens.filter(|most| usage.tokens > *most) {
            Some(most) => format!("{} tokens are used up, {most} were allowed", usage.tokens),
            None => format!("{} dollars are used up, {} were allowed", usage.cost, budget.cost.unwrap_or_default()),
        };
        self.fail_plan(Failure::new(FailureClass::ConstraintViolation, "BUDGET_EXCEEDED", message));
    }

    pub(crate) fn complete(&mut self) {
        let status = if self.state.counts.failed > 0 { PlanStatus::Partial } else { PlanStatus::Completed };
        self.emit_plan(PlanEvent::Completed(Box::new(PlanEnded {
            status,
            failure: None,
            reason: String::new(),
            cancelled: Vec::new(),
        })));
    }
}
