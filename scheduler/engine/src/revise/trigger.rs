//! What makes a plan ask for a revision.

use goalmill_common::event::{PlanEvent, Reason, ReplanTriggered};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::plan::OnFailure;
use goalmill_common::revision::Trigger;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::PlanState;
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::waiting::PLANNER_MS;

impl Turn<'_> {
    /// Asks the planners, or a person, how to go on. Past the last revision a plan that cannot go on without one ends.
    pub(crate) fn replan(&mut self, trigger: Trigger, step: Option<StepIndex>, reason: String) {
        let information = self.information.take();
        self.replan_with(trigger, step, reason, String::new(), information);
    }

    pub(crate) fn replan_with(
        &mut self,
        trigger: Trigger,
        step: Option<StepIndex>,
        reason: String,
        hint: String,
        information: Option<Json>,
    ) {
        let by_person = trigger == Trigger::AskUser;
        let is_part = trigger == Trigger::PhaseCheckpoint && self.state.is_part_due();
        // Only the planner knows whether an iterative plan is whole: it is asked at the limit too.
        if !by_person && !is_part && self.state.revisions_left(self.context.limits.revisions_max) == 0 {
            if !trigger.is_optional() {
                self.end_revisions(&reason);
            }
            return;
        }
        let wait_ms = if by_person { self.context.limits.approval_ms_max } else { PLANNER_MS };
        self.emit_plan(PlanEvent::ReplanTriggered(Box::new(ReplanTriggered {
            trigger: trigger.as_str().into(),
            step: step.map(|i| self.id_of(i)),
            reason,
            due_ms: self.after(wait_ms),
            hint,
            information,
        })));
    }

    pub(crate) fn end_revisions(&mut self, reason: &str) {
        let made = self.state.revising.by_planners;
        let message = format!("max_revisions_exceeded: after {made} revisions another one is needed: {reason}");
        self.fail_plan(Failure::new(FailureClass::Permanent, "MAX_REVISIONS_EXCEEDED", message));
    }

    /// Looks whether the plan's policy wants a revision, though nothing forces one.
    pub(crate) fn notice(&mut self) {
        let Some(policy) = self.state.plan.revision else { return };
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

    fn low_budget(&self, share: f64) -> Option<String> {
        let (budget, usage) = (self.state.budget(), self.state.usage);
        let used = |used: f64, most: Option<f64>| most.filter(|most| *most > 0.0 && used > *most * share);
        if let Some(most) = used(usage.cost, budget.cost) {
            return Some(format!("{:.2} of {most:.2} dollars are used up", usage.cost));
        }
        if let Some(most) = used(usage.tokens as f64, budget.tokens.map(|most| most as f64)) {
            return Some(format!("{} of {most:.0} tokens are used up", usage.tokens));
        }
        let seconds = self.now_ms.saturating_sub(self.state.created_ms()) as f64 / 1_000.0;
        let most = used(seconds, budget.seconds)?;
        Some(format!("{seconds:.0} of {most:.0} seconds are over"))
    }

    /// A phase with a checkpoint is over: the rest may be planned anew.
    pub(crate) fn check_point(&mut self, phase: usize) {
        let spec = &self.state.plan.phases[phase];
        if !spec.checkpoint || self.state.status != PlanStatus::Running || self.state.is_done() {
            return;
        }
        self.ask_after(phase);
    }

    /// Asks for the next part of a plan that is written part by part. A paused plan asks when it is resumed.
    pub(crate) fn go_on_with_parts(&mut self) {
        if let (PlanStatus::Running, Some(last)) = (self.state.status, self.state.plan.phases.len().checked_sub(1)) {
            self.ask_after(last);
        }
    }

    fn ask_after(&mut self, phase: usize) {
        let reason = format!("phase `{}` is over", self.state.plan.phases[phase].id);
        self.replan(Trigger::PhaseCheckpoint, None, reason);
    }

    /// The planner has nothing to add to a plan that is written part by part.
    pub(crate) fn be_whole(&mut self, summary: &str) {
        let said = if summary.is_empty() { String::new() } else { format!(": {summary}") };
        let wants_part = self.state.wants_part();
        self.emit_plan(PlanEvent::Resumed(Reason::boxed(format!("nothing is left to plan{said}"))));
        // Not by way of `settle`, which would ask again.
        if wants_part && !self.state.is_open() { self.complete() } else { self.unblock() }
    }
}

impl PlanState {
    /// Whether all is done of a plan that is written part by part, and its last phase ends in a checkpoint.
    pub(crate) fn is_part_due(&self) -> bool {
        let last = self.plan.phases.last().is_some_and(|phase| phase.checkpoint);
        last && self.phase == self.plan.phases.len() && self.is_done() && self.plan.is_iterative()
    }

    /// Whether planners are asked at a checkpoint of a plan that is written part by part.
    pub(crate) fn is_at_part(&self) -> bool {
        self.waiting.is_for(Trigger::PhaseCheckpoint) && self.plan.is_iterative()
    }

    /// Whether the plan is over but for its next part: without one it is not whole.
    pub(crate) fn wants_part(&self) -> bool {
        self.is_at_part() && self.is_done()
    }

    /// What a step's failure means for the plan.
    pub(crate) fn on_failure(&self, i: StepIndex, class: FailureClass) -> OnFailure {
        let own = self.plan.steps[i].on_failure;
        match own {
            OnFailure::Abort if self.plan.continue_on_failure => OnFailure::Continue,
            OnFailure::Abort if self.plan.revision.is_some() && class == FailureClass::ConstraintViolation => {
                OnFailure::Replan
            }
            OnFailure::Abort | OnFailure::Skip | OnFailure::Continue | OnFailure::Replan | OnFailure::AskUser => own,
        }
    }

    /// Share of the steps that have failed; steps that were replaced do not count.
    fn failure_share(&self) -> f64 {
        let live = self.steps.iter().filter(|step| step.status != StepStatus::Revised).count();
        f64::from(self.counts.failed) / live.max(1) as f64
    }
}

/// What a failure is a trigger of.
pub(crate) fn trigger_of(failure: &Failure) -> Trigger {
    if failure.code == "UNEXPECTED_RESULT" {
        Trigger::UnexpectedResult
    } else if failure.class == FailureClass::ConstraintViolation {
        Trigger::ConstraintViolation
    } else {
        Trigger::StepFailure
    }
}
