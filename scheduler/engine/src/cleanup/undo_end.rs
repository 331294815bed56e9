//! What outputs and a false condition mean for a step: an undo step ends one piece of work, any other step ends.

use goalmill_common::event::{SkipCause, StepCompleted, StepUndone};
use goalmill_common::json::Json;

use crate::attempt::failure;
use crate::attempt::spent::Spent;
use crate::cleanup::{done_work, undo};
use crate::graph::StepIndex;
use crate::turn::Turn;

/// Takes the outputs of a step. Returns them if it is done: an undo step is not before it has undone all that is done.
pub(crate) fn finish_undo(turn: &mut Turn<'_>, i: StepIndex, completed: StepCompleted) -> Option<StepCompleted> {
    if turn.state.plan.step(i).undoes.is_none() {
        return Some(completed);
    }
    let StepCompleted { cost, tokens, usage, duration_ms, .. } = completed;
    let outputs = Some(completed.outputs.clone());
    if undo::undo_next(turn, i, StepUndone { outputs, failure: None, cost, tokens, usage, duration_ms }) {
        return None;
    }
    let spent = Spent::from_completed(&completed);
    match done_work::failed_undos(turn.state, i, 0) {
        None => Some(completed),
        Some(failure) => {
            failure::fail_step(turn, i, failure, spent);
            None
        }
    }
}

/// Skips a step whose condition is false. An undo step passes over one piece of work alone.
pub(crate) fn skip_by_condition(turn: &mut Turn<'_>, i: StepIndex, reason: String) {
    if undo::undo_next(turn, i, StepUndone::default()) {
        return;
    }
    if let Some(failure) = done_work::failed_undos(turn.state, i, 0) {
        failure::fail_step(turn, i, failure, Spent::default());
    } else if done_work::undone(turn.state, i) == 0 || turn.state.steps[i].attempt() == 0 {
        turn.skip_step(i, SkipCause::Condition, reason);
    } else {
        turn.emit_completed(i, Json::empty_object());
    }
}
