//! Retries of failed and lost attempts: backoff, fallback, poisoned steps.

use goalmill_common::event::{StepEvent, StepRetrying};
use goalmill_common::failure::{Failure, FailureClass, TASK_MISSING};

use crate::Effect;
use crate::decide::Turn;
use crate::graph::StepIndex;

impl Turn<'_> {
    /// Handles a failed attempt: retries it, uses the fallback, or fails the step.
    pub(crate) fn fail_attempt(&mut self, i: StepIndex, failure: Failure, cost: f64, tokens: u64) {
        if failure.class == FailureClass::Lost {
            return self.lose_attempt(i, failure, cost, tokens);
        }
        let spec = &self.state.plan.steps[i];
        let (retry, fallback, step) = (spec.retry, spec.fallback.is_some(), &self.state.steps[i]);
        let (failed, fallback) = (step.failures + 1, fallback && !step.fallback);
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

    /// Retries a lost attempt at once, until `lost_max` workers were lost with the step.
    fn lose_attempt(&mut self, i: StepIndex, failure: Failure, cost: f64, tokens: u64) {
        // No worker had the task, so the step did not cause the loss.
        if failure.code == TASK_MISSING {
            return self.retry(i, failure, 0, false, (cost, tokens));
        }
        let losses = self.state.steps[i].lost + 1;
        if losses < self.context.limits.lost_max {
            return self.retry(i, failure, 0, false, (cost, tokens));
        }
        let message = format!("{losses} workers were lost running the step; the last: {}", failure.message);
        let failure = Failure::new(FailureClass::Permanent, "STEP_POISONED", message);
        self.effects.push(Effect::DeadLetter { step: i, failure: failure.clone() });
        self.give_up(i, failure, cost, tokens);
    }

    fn retry(&mut self, i: StepIndex, failure: Failure, wait_ms: u64, fallback: bool, (cost, tokens): (f64, u64)) {
        let due_ms = self.after(wait_ms);
        let retrying = StepRetrying { failure, due_ms, fallback, cost, tokens };
        self.emit_step(i, StepEvent::Retrying(Box::new(retrying)));
        if wait_ms == 0 {
            self.emit_step(i, StepEvent::Ready);
        }
    }
}
