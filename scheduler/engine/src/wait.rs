//! Steps that wait: they hold no worker, no place in `max_parallel` and no resource.

use goalmill_common::clock::rfc3339;
use goalmill_common::event::{StepCompleted, StepEvent, StepWaitStarted};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::plan::Wait;
use goalmill_plan::validate::wait::time_ms;
use serde_json::json;

use crate::attempt::Spent;
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::render::{self, Unrendered};

/// Longest value of `until` that a failure quotes, in characters.
const QUOTED_CHARS_MAX: usize = 100;

impl Turn<'_> {
    /// Begins the wait of a ready step.
    pub(crate) fn start_wait(&mut self, i: StepIndex) {
        self.work.count(0);
        let wait = self.state.plan.steps[i].wait.clone().unwrap_or_default();
        let due_ms = match self.wait_end(i, &wait) {
            Ok(due_ms) => due_ms.max(1),
            Err(why) => return self.put_off(i, why),
        };
        self.forget_payloads(i);
        self.emit_step(i, StepEvent::WaitStarted(Box::new(StepWaitStarted { due_ms })));
        if due_ms <= self.now_ms {
            self.end_wait(i);
        }
    }

    /// When the wait ends, Unix milliseconds.
    fn wait_end(&self, i: StepIndex, wait: &Wait) -> Result<u64, Unrendered> {
        let failed =
            |code: &str, message: String| Err(Unrendered::Failed(Failure::new(FailureClass::Permanent, code, message)));
        let due_ms = match (wait.for_ms, &wait.until) {
            (Some(for_ms), _) => self.after(for_ms),
            (None, Some(until)) => {
                let text = render::text(self.state, i, until, &self.context.limits)?;
                let Some(due_ms) = time_ms(&text) else {
                    let given: String = text.chars().take(QUOTED_CHARS_MAX).collect();
                    let message = format!(
                        "`until` gives `{given}`, which is no time: give RFC 3339 as in `2027-01-31T12:00:00Z`, or Unix \
                         milliseconds"
                    );
                    return failed("WAIT_TIME_INVALID", message);
                };
                due_ms
            }
            (None, None) => return failed("WAIT_TIME_INVALID", "nothing says how long the step waits".into()),
        };
        let deadline_ms = self.state.accepted.deadline_ms;
        if due_ms > deadline_ms {
            let message = format!(
                "the step would wait until {}, and the plan ends at {}: give the goal a later `deadline`, or raise \
                 `limits.plan_ms_max`",
                rfc3339(due_ms),
                rfc3339(deadline_ms)
            );
            return failed("WAIT_TOO_LONG", message);
        }
        Ok(due_ms)
    }

    /// Completes a step that has waited until its time.
    pub(crate) fn end_wait(&mut self, i: StepIndex) {
        let waited_until = rfc3339(self.state.steps[i].due_ms);
        self.complete_wait(i, json!({ "waited_until": waited_until }).into());
    }

    fn complete_wait(&mut self, i: StepIndex, outputs: Json) {
        match self.output_mismatch(i, &outputs) {
            Some(failure) => self.give_up(i, failure, Spent::default()),
            None => {
                let completed = StepCompleted { outputs, ..StepCompleted::default() };
                self.emit_step(i, StepEvent::Completed(Box::new(completed)));
            }
        }
    }
}
