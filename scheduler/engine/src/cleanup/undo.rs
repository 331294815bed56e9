//! An undo step goes from one piece of work to the next.

use goalmill_common::event::{StepEvent, StepUndone};
use goalmill_common::failure::Failure;

use crate::attempt::spent::Spent;
use crate::cleanup::done_work;
use crate::graph::StepIndex;
use crate::render::payloads;
use crate::turn::Turn;

/// Lets an undo step continue with the next piece of work that it undoes. Returns whether there is one.
///
/// - `undone`: how it went with the last one.
pub(crate) fn undo_next(turn: &mut Turn<'_>, i: StepIndex, undone: StepUndone) -> bool {
    if !done_work::undoes_more(turn.state, i) {
        return false;
    }
    turn.emit_step(i, StepEvent::Undone(Box::new(undone)));
    payloads::forget_payloads(turn, i);
    turn.finished.push_back(i);
    true
}

/// Takes the failure of an undo step that has more to undo. Returns whether it has.
pub(crate) fn fail_undo(turn: &mut Turn<'_>, i: StepIndex, failure: &Failure, spent: Spent) -> bool {
    let Spent { cost, tokens, split: usage, duration_ms } = spent;
    done_work::undoes_more(turn.state, i)
        && undo_next(
            turn,
            i,
            StepUndone { outputs: None, failure: Some(failure.clone()), cost, tokens, usage, duration_ms },
        )
}
