//! Retries of failed and lost attempts: backoff, fallback, poisoned steps.

use goalmill_common::event::{StepEvent, StepRetrying};
use goalmill_common::failure::{Failure, FailureClass, TASK_MISSING};

use crate::Effect;
use crate::attempt::Spent;
use crate::decide::Turn;
use crate::graph::StepIndex;

impl Turn<'_> {
    /// Handles a failed attempt: retries it, uses the fallback, or fails the step.
    pub(crate) fn fail_attempt(&mut self, i: StepIndex, failure: Failure, spent: Spent) {
        if failure.class == FailureClass::Lost {
            return self.lose_attempt(i, failure, spent);
        }
        let spec = &self.state.plan.steps[i];
        let (retry, fallback, step) = (spec.retry, spec.fallback.is_some(), &self.state.steps[i]);
        let (failed, fallback) = (step.failures + 1, fallback && !step.fallback);
        if failure.class.is_retryable() && failed <= retry.max.min(self.context.limits.retries_max) {
            let asked = failure.retry_after_ms.unwrap_or(0).min(self.context.limits.timeout_ms_max);
            let wait_ms = retry.wait_ms(failed, self.draw()).max(asked);
            return self.retry(i, failure, wait_ms, false, spent);
        }
        if fallback && failure.class != FailureClass::ConstraintViolation {
            return self.retry(i, failure, 0, true, spent);
        }
        self.give_up(i, failure, spent);
    }

    /// Retries a lost attempt at once, until `lost_max` workers were lost with the step.
    fn lose_attempt(&mut self, i: StepIndex, failure: Failure, spent: Spent) {
        // No worker had the task, so the step did not cause the loss.
        if failure.code == TASK_MISSING {
            return self.retry(i, failure, 0, false, spent);
        }
        let losses = self.state.steps[i].lost + 1;
        if losses < self.context.limits.lost_max {
            return self.retry(i, failure, 0, false, spent);
        }
        let message = format!("{losses} workers were lost running the step; the last: {}", failure.message);
        let failure = Failure::new(FailureClass::Permanent, "STEP_POISONED", message);
        self.effects.push(Effect::DeadLetter { step: i, failure: failure.clone() });
        self.give_up(i, failure, spent);
    }

    fn retry(&mut self, i: StepIndex, failure: Failure, wait_ms: u64, fallback: bool, spent: Spent) {
        let due_ms = self.after(wait_ms);
        let Spent { cost, tokens, split: usage, duration_ms } = spent;
        let retrying = StepRetrying { failure, due_ms, fallback, cost, tokens, usage, duration_ms };
        self.emit_step(i, StepEvent::Retrying(Box::new(retrying)));
        if wait_ms == 0 {
            self.emit_step(i, StepEvent::Ready);
        }
    }
}
