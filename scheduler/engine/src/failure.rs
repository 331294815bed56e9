//! Failures of steps and plans: the failure policy, and how a plan ends.

use goalmill_common::command::Verb;
use goalmill_common::event::{
    PlanEnded, PlanEvent, Reason, ReplanTriggered, SkipCause, StepEvent, StepFailed, StepSkipped,
};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::StepId;
use goalmill_common::plan::{OnFailure, StepKind};
use goalmill_common::revision::Trigger;
use goalmill_common::status::PlanStatus;

use crate::Effect;
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::revise::trigger_of;

impl Turn<'_> {
    /// Fails or skips a step by its failure policy. The caller propagates.
    pub(crate) fn give_up(&mut self, i: StepIndex, failure: Failure, cost: f64, tokens: u64) {
        let on_failure = self.state.on_failure(i, failure.class);
        if on_failure == OnFailure::Skip {
            let reason = format!("it failed: {}", failure.message);
            let cause = SkipCause::FailurePolicy;
            let skipped = StepSkipped { cause, reason, failure: Some(failure), cost, tokens };
            return self.emit_step(i, StepEvent::Skipped(Box::new(skipped)));
        }
        let failed = StepFailed { failure: failure.clone(), cost, tokens };
        self.emit_step(i, StepEvent::Failed(Box::new(failed)));
        // A failure supersedes an optional replan; a required one defers it.
        if on_failure == OnFailure::Abort || !self.is_replan_required() {
            self.apply_failure_policy(i, failure);
        }
    }

    /// Applies the failure policy of a failed step to the plan.
    pub(crate) fn apply_failure_policy(&mut self, i: StepIndex, failure: Failure) {
        match self.state.on_failure(i, failure.class) {
            OnFailure::Abort => self.fail_plan(plan_failure(&self.id_of(i), failure)),
            OnFailure::Skip | OnFailure::Continue => {}
            OnFailure::Replan => self.replan(trigger_of(&failure), Some(i), failure.message),
            OnFailure::AskUser => self.replan(Trigger::AskUser, Some(i), failure.message),
        }
    }

    /// Whether the plan is replanned and cannot continue without a revision.
    pub(crate) fn is_replan_required(&self) -> bool {
        self.state.waiting.replan().is_some_and(|replan| !is_optional(replan))
    }

    /// Ends the replan without a revision: a plan that needed one fails, any other continues.
    pub(crate) fn continue_without_revision(&mut self, reason: String) {
        let is_needed = |replan: &&ReplanTriggered| {
            !is_optional(replan) || self.state.needs_next_part() || self.state.is_for_one_planner(replan)
        };
        let Some(replan) = self.state.waiting.replan().filter(is_needed).cloned() else {
            self.emit_plan(PlanEvent::Resumed(Reason::boxed(reason)));
            return self.skip_blocked();
        };
        let Some(step) = replan.step else {
            let message = format!("{}: {reason}", replan.reason);
            return self.fail_plan(Failure::new(FailureClass::Permanent, "PLANNING_FAILED", message));
        };
        let i = self.state.graph.find(step.as_str());
        let failure = i.and_then(|i| self.state.steps[i].failure().cloned());
        let failure = failure.unwrap_or_else(|| Failure::new(FailureClass::Permanent, "REPLAN_FAILED", reason));
        self.fail_plan(plan_failure(&step, failure));
    }

    /// Fails the plan. Attempts in flight are cancelled, results are kept.
    pub(crate) fn fail_plan(&mut self, failure: Failure) {
        let reason = failure.message.clone();
        self.cancel_attempts("the plan failed");
        let (status, cancelled) = (PlanStatus::Failed, self.open_steps());
        let ended = PlanEnded { status, failure: Some(failure), reason, cancelled };
        self.emit_plan(PlanEvent::Failed(Box::new(ended)));
    }

    pub(crate) fn cancel_plan(&mut self, reason: String) {
        self.cancel_attempts("the plan was cancelled");
        let (status, cancelled) = (PlanStatus::Cancelled, self.open_steps());
        self.emit_plan(PlanEvent::Cancelled(Box::new(PlanEnded { status, failure: None, reason, cancelled })));
    }

    /// The steps that the plan's end cancels. Steps in flight have their own event before it.
    pub(crate) fn open_steps(&self) -> Vec<StepId> {
        let steps = self.state.plan.steps.iter().zip(&self.state.steps);
        steps.filter(|(_, step)| !step.status.is_final()).map(|(spec, _)| spec.id.clone()).collect()
    }

    fn cancel_attempts(&mut self, why: &str) {
        for i in self.state.indices() {
            if self.status_of(i).is_in_flight() {
                self.cancel_attempt(i);
                self.emit_step(i, StepEvent::Cancelled(Reason::boxed(why)));
            }
        }
        self.remember_timers();
    }

    /// Cancels the attempt in flight, if there is one.
    pub(crate) fn cancel_attempt(&mut self, i: StepIndex) {
        if !self.status_of(i).is_in_flight() {
            return;
        }
        if self.state.plan.steps[i].kind == StepKind::Plan {
            self.ask_sub_plan(i, Verb::Cancel { reason: "the parent step has ended".into() });
        } else {
            self.effects.extend(self.state.token(i).map(Effect::Cancel));
        }
    }

    pub(crate) fn fail_for_events(&mut self) {
        let most = self.context.limits.events_max;
        let message = format!("the plan has more than {most} events (`events_max`)");
        self.fail_plan(Failure::new(FailureClass::ConstraintViolation, "EVENTS_EXCEEDED", message));
        self.finished.clear();
    }
}

/// Whether the plan continues when the replan brings no revision.
fn is_optional(replan: &ReplanTriggered) -> bool {
    Trigger::parse(&replan.trigger).map_or(replan.step.is_none(), Trigger::is_optional)
}

/// The failure of a plan that a step caused.
pub(crate) fn plan_failure(step: &goalmill_common::id::StepId, failure: Failure) -> Failure {
    Failure { message: format!("step `{step}` failed: {}", failure.message), retry_after_ms: None, ..failure }
}
