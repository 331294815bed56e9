//! What follows when an attempt, a step or a plan fails: backoff, fallback, policy, the end.

use goalmill_common::command::Verb;
use goalmill_common::event::{
    PlanEnded, PlanEvent, Reason, ReplanTriggered, SkipCause, StepEvent, StepFailed, StepRetrying, StepSkipped,
};
use goalmill_common::failure::{Failure, FailureClass, TASK_MISSING};
use goalmill_common::id::StepId;
use goalmill_common::plan::{Kind, OnFailure};
use goalmill_common::revision::Trigger;
use goalmill_common::status::PlanStatus;

use crate::decide::Turn;
use crate::graph::{to_u32, to_usize};
use crate::revise::trigger_of;
use crate::{Effect, StepIndex};

/// How long a planner's answer to a replan is awaited, in milliseconds. Planners have shorter limits of their own;
/// this one ends the wait when all of them are gone.
pub(crate) const PLANNER_MS: u64 = 3_600_000;

/// Trigger of a replan for which a person is asked instead of a planner.
pub(crate) const ASK_USER: &str = "ask_user";

impl Turn<'_> {
    /// An attempt failed: decides between another attempt, the fallback, and giving up.
    pub(crate) fn fail_attempt(&mut self, i: u32, failure: Failure, cost: f64, tokens: u64) {
        if failure.class == FailureClass::Lost {
            return self.lose_attempt(i, failure, cost, tokens);
        }
        let spec = &self.state.plan.steps[to_usize(i)];
        let (retry, fallback, step) = (spec.retry, spec.fallback.is_some(), &self.state.steps[to_usize(i)]);
        let (failed, fallback) = (step.tried + 1, fallback && !step.fallback);
        if failure.class.is_retryable() && failed <= retry.max.min(self.context.limits.retries_max) {
            let asked = failure.retry_after_ms.unwrap_or(0).min(self.context.limits.timeout_ms_max);
            let wait_ms = retry.wait_ms(failed, self.draw()).max(asked);
            return self.retry(i, failure, wait_ms, false, (cost, tokens));
        }
        if fallback && failure.class != FailureClass::ConstraintViolation {
            return self.retry(i, failure, 0, true, (cost, tokens));
        }
        self.give_up(i, failure, cost, tokens);
    }

    /// The worker vanished: tried again at once, unless the step seems to be what makes workers vanish.
    fn lose_attempt(&mut self, i: u32, failure: Failure, cost: f64, tokens: u64) {
        // No worker had the task: it kills none.
        if failure.code == TASK_MISSING {
            return self.retry(i, failure, 0, false, (cost, tokens));
        }
        let losses = self.state.steps[to_usize(i)].lost + 1;
        if losses < self.context.limits.lost_max {
            return self.retry(i, failure, 0, false, (cost, tokens));
        }
        let message = format!("{losses} workers were lost with it; the last: {}", failure.message);
        let failure = Failure::new(FailureClass::Permanent, "STEP_POISONED", message);
        self.effects.push(Effect::DeadLetter { step: StepIndex(i), failure: failure.clone() });
        self.give_up(i, failure, cost, tokens);
    }

    fn retry(&mut self, i: u32, failure: Failure, wait_ms: u64, fallback: bool, (cost, tokens): (f64, u64)) {
        let due_ms = self.after(wait_ms);
        let retrying = StepRetrying { failure, due_ms, fallback, cost, tokens };
        self.emit_step(i, StepEvent::Retrying(Box::new(retrying)));
        if wait_ms == 0 {
            self.emit_step(i, StepEvent::Ready);
        }
    }

    /// The step will not succeed: its policy decides what that means for the plan. The caller settles.
    pub(crate) fn give_up(&mut self, i: u32, failure: Failure, cost: f64, tokens: u64) {
        let on_failure = self.state.on_failure(i, failure.class);
        if on_failure == OnFailure::Skip {
            let reason = format!("it failed: {}", failure.message);
            let cause = SkipCause::FailurePolicy;
            let skipped = StepSkipped { cause, reason, failure: Some(failure), cost, tokens };
            return self.emit_step(i, StepEvent::Skipped(Box::new(skipped)));
        }
        let failed = StepFailed { failure: failure.clone(), cost, tokens };
        self.emit_step(i, StepEvent::Failed(Box::new(failed)));
        // A wish gives way to a failure: that one must not be forgotten.
        if on_failure == OnFailure::Abort || !self.must_replan() {
            self.decide_on(i, failure);
        }
    }

    /// What a failed step's policy makes of the plan.
    pub(crate) fn decide_on(&mut self, i: u32, failure: Failure) {
        match self.state.on_failure(i, failure.class) {
            OnFailure::Abort => self.fail_plan(because(&self.id_of(i), failure)),
            OnFailure::Skip | OnFailure::Continue => {}
            OnFailure::Replan => self.replan(trigger_of(&failure), Some(i), failure.message),
            OnFailure::AskUser => self.replan(Trigger::AskUser, Some(i), failure.message),
        }
    }

    /// Whether it is being decided how to go on, and the plan cannot without that.
    pub(crate) fn must_replan(&self) -> bool {
        self.state.replan.as_ref().is_some_and(|replan| !is_optional(replan))
    }

    /// Without a revision a plan ends as its failed step says; one that could do without it goes on.
    pub(crate) fn go_on_unrevised(&mut self, reason: String) {
        let is_needed = |replan: &&ReplanTriggered| {
            !is_optional(replan) || self.state.wants_part() || self.state.is_for_one_planner(replan)
        };
        let Some(replan) = self.state.replan.as_deref().filter(is_needed).cloned() else {
            self.emit_plan(PlanEvent::Resumed(Reason::boxed(reason)));
            return self.unblock();
        };
        let Some(step) = replan.step else {
            let message = format!("{}: {reason}", replan.reason);
            return self.fail_plan(Failure::new(FailureClass::Permanent, "PLANNING_FAILED", message));
        };
        let i = self.state.graph.find(step.as_str());
        let failure = i.and_then(|i| self.state.steps[to_usize(i)].failure().cloned());
        let failure = failure.unwrap_or_else(|| Failure::new(FailureClass::Permanent, "REPLAN_FAILED", reason));
        self.fail_plan(because(&step, failure));
    }

    /// Ends the plan; what is in flight is cancelled, what was done is kept.
    pub(crate) fn fail_plan(&mut self, failure: Failure) {
        let reason = failure.message.clone();
        self.cancel_flights("the plan failed");
        let (status, cancelled) = (PlanStatus::Failed, self.open_steps());
        let ended = PlanEnded { status, failure: Some(failure), reason, cancelled };
        self.emit_plan(PlanEvent::Failed(Box::new(ended)));
    }

    pub(crate) fn cancel_plan(&mut self, reason: String) {
        self.cancel_flights("the plan was cancelled");
        let (status, cancelled) = (PlanStatus::Cancelled, self.open_steps());
        self.emit_plan(PlanEvent::Cancelled(Box::new(PlanEnded { status, failure: None, reason, cancelled })));
    }

    /// The steps that the plan's end cancels: what is in flight has an event of its own before.
    pub(crate) fn open_steps(&self) -> Vec<StepId> {
        let steps = self.state.plan.steps.iter().zip(&self.state.steps);
        steps.filter(|(_, step)| !step.status.is_final()).map(|(spec, _)| spec.id.clone()).collect()
    }

    fn cancel_flights(&mut self, why: &str) {
        for i in 0..to_u32(self.state.steps.len()) {
            if self.status_of(i).is_in_flight() {
                self.stop_attempt(i);
                self.emit_step(i, StepEvent::Cancelled(Reason::boxed(why)));
            }
        }
        self.note_dues();
    }

    /// Stops the attempt in flight, if there is one: its outcome does not matter any more.
    pub(crate) fn stop_attempt(&mut self, i: u32) {
        if !self.status_of(i).is_in_flight() {
            return;
        }
        if self.state.plan.steps[to_usize(i)].kind == Kind::Plan {
            self.ask_sub_plan(i, Verb::Cancel { reason: "the step it stands for is over".into() });
        } else {
            self.effects.extend(self.state.token(StepIndex(i)).map(Effect::Cancel));
        }
    }

    pub(crate) fn fail_for_events(&mut self) {
        let most = self.context.limits.events_max;
        let message = format!("the plan has more than {most} events (`events_max`)");
        self.fail_plan(Failure::new(FailureClass::ConstraintViolation, "EVENTS_EXCEEDED", message));
        self.finished.clear();
    }
}

/// Whether the plan could go on as it was.
fn is_optional(replan: &ReplanTriggered) -> bool {
    Trigger::parse(&replan.trigger).map_or(replan.step.is_none(), Trigger::is_optional)
}

/// The failure of a plan, by that of a step.
pub(crate) fn because(step: &goalmill_common::id::StepId, failure: Failure) -> Failure {
    Failure { message: format!("step `{step}` failed: {}", failure.message), retry_after_ms: None, ..failure }
}
