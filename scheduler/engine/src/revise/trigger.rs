//! Triggers: what starts a replan.

use goalmill_common::event::{PlanEvent, ReplanTriggered};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::plan::OnFailure;
use goalmill_common::revision::Trigger;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::PlanState;
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::people::waiting::PLANNER_MS;

impl Turn<'_> {
    /// Asks the planners, or a person, for a revision. Without revisions left, a required replan ends the plan.
    ///
    /// - `wish`: its reason, or also the hint and the options.
    pub(crate) fn replan(&mut self, trigger: Trigger, step: Option<StepIndex>, wish: impl Into<ReplanTriggered>) {
        let (wish, information) = (wish.into(), self.information.take());
        let by_person = trigger == Trigger::AskUser;
        let is_part = trigger == Trigger::PhaseCheckpoint && self.state.is_part_due();
        // Only the planner knows whether an iterative plan is complete: it is asked at the limit too.
        if !by_person && !is_part && self.state.revisions_left(self.context.limits.revisions_max) == 0 {
            if !trigger.is_optional() {
                self.end_revisions(&wish.reason);
            }
            return;
        }
        let wait_ms = if by_person { self.context.limits.approval_ms_max } else { PLANNER_MS };
        self.emit_plan(PlanEvent::ReplanTriggered(Box::new(ReplanTriggered {
            trigger: trigger.as_str().into(),
            step: step.map(|i| self.id_of(i)),
            due_ms: self.after(wait_ms),
            information,
            ..wish
        })));
    }

    pub(crate) fn end_revisions(&mut self, reason: &str) {
        let made = self.state.revising.by_planners;
        let message = format!("max_revisions_exceeded: no revisions left after {made}: {reason}");
        self.fail_plan(Failure::new(FailureClass::Permanent, "MAX_REVISIONS_EXCEEDED", message));
    }

    /// Checks the optional triggers of the plan's revision policy.
    pub(crate) fn check_triggers(&mut self) {
        let Some(policy) = &self.state.plan.definition().revision else { return };
        if self.state.status != PlanStatus::Running || self.state.is_done() {
            return;
        }
        if self.state.counts.failed > self.state.revising.failures_seen {
            let share = self.state.failure_share();
            if share > policy.threshold {
                let reason = format!("{:.0} % of the steps have failed", share * 100.0);
                return self.replan(Trigger::FailureRate, None, reason);
            }
        }
        if !self.state.revising.budget_seen
            && let Some(reason) = self.low_budget(policy.budget_low)
        {
            self.replan(Trigger::BudgetLow, None, reason);
        }
    }
}

impl PlanState {
    /// The failure policy of a step for a class of failure.
    pub(crate) fn on_failure(&self, i: StepIndex, class: FailureClass) -> OnFailure {
        let own = self.plan.step(i).on_failure;
        match own {
            OnFailure::Abort | OnFailure::Replan | OnFailure::AskUser if self.may_be_handled(i) => OnFailure::Continue,
            OnFailure::Abort | OnFailure::Replan | OnFailure::AskUser if self.cleanup.is_running() => {
                OnFailure::Continue
            }
            OnFailure::Abort if self.plan.definition().continue_on_failure => OnFailure::Continue,
            OnFailure::Abort
                if self.plan.definition().revision.is_some() && class == FailureClass::ConstraintViolation =>
            {
                OnFailure::Replan
            }
            OnFailure::Abort | OnFailure::Skip | OnFailure::Continue | OnFailure::Replan | OnFailure::AskUser => own,
        }
    }

    /// Share of failed steps; removed steps do not count.
    fn failure_share(&self) -> f64 {
        let live = self.steps.iter().filter(|step| step.status() != StepStatus::Revised).count();
        f64::from(self.counts.failed) / live.max(1) as f64
    }
}

/// The trigger of a failure.
pub(crate) fn trigger_of(failure: &Failure) -> Trigger {
    if failure.code == "UNEXPECTED_RESULT" {
        Trigger::UnexpectedResult
    } else if failure.class == FailureClass::ConstraintViolation {
        Trigger::ConstraintViolation
    } else {
        Trigger::StepFailure
    }
}
