//! Loops: a step with `repeat` runs again with its previous outputs until a condition is true.

use goalmill_common::event::{StepCompleted, StepEvent, StepIterated};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::plan::OnMax;

use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::render::{self, Unrendered};
use crate::report::Spent;
use crate::work_limit::part_work_max;

/// Shares of the work of one part of a decision, of which `until` has one: many iterations may end in one turn.
const UNTIL_SHARE: u64 = 16;

impl Turn<'_> {
    /// Takes the outputs of an iteration. Returns them if they are those of the step; otherwise the next iteration
    /// begins, or the step has failed.
    pub(crate) fn iterate(&mut self, i: StepIndex, completed: StepCompleted) -> Option<StepCompleted> {
        let Some(repeat) = self.state.plan.steps[i].repeat.clone() else { return Some(completed) };
        let outputs = self.with_loaded(i, &completed.outputs).into_owned();
        let iteration = self.state.steps[i].iteration();
        let StepCompleted { cost, tokens, usage, duration_ms, .. } = completed;
        let spent = Spent { cost, tokens, split: usage, duration_ms };
        match self.is_done_repeating(i, &repeat.until, outputs) {
            Ok(true) => return Some(completed),
            Ok(false) => {}
            Err(why) => {
                self.give_up(i, Unrendered::into_failure(why), spent);
                return None;
            }
        }
        if iteration >= repeat.max {
            if repeat.on_max == OnMax::Continue {
                return Some(completed);
            }
            let message = format!("`{}` is not true after {iteration} iterations", repeat.until);
            self.give_up(i, Failure::new(FailureClass::Permanent, "REPEAT_EXHAUSTED", message), spent);
            return None;
        }
        let due_ms = self.after(repeat.delay_ms);
        let outputs = completed.outputs;
        let iterated = StepIterated { iteration, outputs, due_ms, cost, tokens, usage, duration_ms };
        self.emit_step(i, StepEvent::Iterated(Box::new(iterated)));
        if repeat.delay_ms == 0 {
            self.emit_step(i, StepEvent::Ready);
        }
        None
    }

    fn is_done_repeating(&mut self, i: StepIndex, until: &str, outputs: Json) -> Result<bool, Unrendered> {
        let limits = &self.context.limits;
        self.state.meter.begin(part_work_max(limits) / UNTIL_SHARE);
        let is_done = render::until(self.state, i, self.now_ms, until, outputs, limits);
        self.count_work(0);
        self.state.meter.begin(part_work_max(&self.context.limits));
        is_done
    }
}
