//! Loops: a step with `repeat` runs again with its previous outputs until a condition is true.

use goalmill_common::event::{StepCompleted, StepEvent, StepIterated};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::plan::OnMax;

use crate::attempt::failure;
use crate::attempt::spent::Spent;
use crate::budget::work_limit::part_work_max;
use crate::cleanup::undo_end;
use crate::graph::StepIndex;
use crate::render::{Unrendered, payloads};
use crate::turn::Turn;

/// Shares of the work of one part of a decision, of which `until` has one: many iterations may end in one turn.
const UNTIL_SHARE: u64 = 16;

/// Takes the outputs of an iteration. Returns them if they are those of the step; otherwise the next iteration
/// begins, or the step has failed.
pub(crate) fn iterate(turn: &mut Turn<'_>, i: StepIndex, completed: StepCompleted) -> Option<StepCompleted> {
    let Some(repeat) = turn.state.plan.step(i).repeat.clone() else { return undo_end::finish_undo(turn, i, completed) };
    let outputs = payloads::with_loaded(turn, i, &completed.outputs).into_owned();
    let iteration = turn.state.steps[i].iterations().current();
    let failure = match is_done_repeating(turn, i, &repeat.until, outputs) {
        Ok(true) => return undo_end::finish_undo(turn, i, completed),
        Ok(false) if iteration < repeat.max => None,
        Ok(false) if repeat.on_max == OnMax::Continue => return undo_end::finish_undo(turn, i, completed),
        Ok(false) => {
            let message = format!("`{}` is not true after {iteration} iterations", repeat.until);
            Some(Failure::new(FailureClass::Permanent, "REPEAT_EXHAUSTED", message))
        }
        Err(why) => Some(why.into_failure()),
    };
    let due_ms = turn.after(if failure.is_none() { repeat.delay_ms } else { 0 });
    let StepCompleted { outputs, partial, cost, tokens, usage, duration_ms, .. } = completed;
    let iterated = StepIterated { iteration, outputs, partial, due_ms, cost, tokens, usage, duration_ms };
    turn.emit_step(i, StepEvent::Iterated(Box::new(iterated)));
    match failure {
        // The iteration is done all the same.
        Some(failure) => failure::give_up(turn, i, failure, Spent::default()),
        None if repeat.delay_ms == 0 => turn.emit_step(i, StepEvent::Ready),
        None => {}
    }
    None
}

fn is_done_repeating(turn: &mut Turn<'_>, i: StepIndex, until: &str, outputs: Json) -> Result<bool, Unrendered> {
    let limits = &turn.context.limits;
    turn.state.meter.begin(part_work_max(limits) / UNTIL_SHARE);
    let is_done = turn.expressions(i).until(until, outputs);
    turn.count_work(0);
    turn.state.meter.begin(part_work_max(&turn.context.limits));
    is_done
}
