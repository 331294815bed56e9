//! Loops: a step with `repeat` runs again with its previous outputs until a condition is true.

use goalmill_common::event::{StepCompleted, StepEvent, StepIterated};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::plan::OnMax;

use crate::attempt::report::Spent;
use crate::budget::work_limit::part_work_max;
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::render::Unrendered;

/// Shares of the work of one part of a decision, of which `until` has one: many iterations may end in one turn.
const UNTIL_SHARE: u64 = 16;

impl Turn<'_> {
    /// Takes the outputs of an iteration. Returns them if they are those of the step; otherwise the next iteration
    /// begins, or the step has failed.
    pub(crate) fn iterate(&mut self, i: StepIndex, completed: StepCompleted) -> Option<StepCompleted> {
        let Some(repeat) = self.state.plan.step(i).repeat.clone() else { return self.finish_undo(i, completed) };
        let outputs = self.with_loaded(i, &completed.outputs).into_owned();
        let iteration = self.state.steps[i].iterations().current();
        let failure = match self.is_done_repeating(i, &repeat.until, outputs) {
            Ok(true) => return self.finish_undo(i, completed),
            Ok(false) if iteration < repeat.max => None,
            Ok(false) if repeat.on_max == OnMax::Continue => return self.finish_undo(i, completed),
            Ok(false) => {
                let message = format!("`{}` is not true after {iteration} iterations", repeat.until);
                Some(Failure::new(FailureClass::Permanent, "REPEAT_EXHAUSTED", message))
            }
            Err(why) => Some(why.into_failure()),
        };
        let due_ms = self.after(if failure.is_none() { repeat.delay_ms } else { 0 });
        let StepCompleted { outputs, partial, cost, tokens, usage, duration_ms, .. } = completed;
        let iterated = StepIterated { iteration, outputs, partial, due_ms, cost, tokens, usage, duration_ms };
        self.emit_step(i, StepEvent::Iterated(Box::new(iterated)));
        match failure {
            // The iteration is done all the same.
            Some(failure) => self.give_up(i, failure, Spent::default()),
            None if repeat.delay_ms == 0 => self.emit_step(i, StepEvent::Ready),
            None => {}
        }
        None
    }

    fn is_done_repeating(&mut self, i: StepIndex, until: &str, outputs: Json) -> Result<bool, Unrendered> {
        let limits = &self.context.limits;
        self.state.meter.begin(part_work_max(limits) / UNTIL_SHARE);
        let is_done = self.expressions(i).until(until, outputs);
        self.count_work(0);
        self.state.meter.begin(part_work_max(&self.context.limits));
        is_done
    }
}
