//! Lost attempts: retried, until the step is poisoned and becomes a dead letter.

use goalmill_common::failure::{Failure, FailureClass, TASK_MISSING};

use crate::Effect;
use crate::attempt::failure;
use crate::attempt::retry;
use crate::attempt::retry::Next;
use crate::attempt::spent::Spent;
use crate::graph::StepIndex;
use crate::turn::Turn;

/// Retries a lost attempt immediately, until `lost_max` workers were lost without a new recorded call in between.
pub(crate) fn lose_attempt(turn: &mut Turn<'_>, i: StepIndex, failure: Failure, spent: Spent) {
    // No worker had the task, so the step did not cause the loss.
    if failure.code == TASK_MISSING {
        return retry::schedule_retry(turn, i, failure, Next::default(), spent);
    }
    let losses = turn.state.steps[i].losses();
    if losses < turn.context.limits.lost_max {
        return retry::schedule_retry(turn, i, failure, Next::default(), spent);
    }
    let message =
        format!("{losses} workers were lost running the step (`limits.lost_max`); the last: {}", failure.message);
    let failure = Failure::new(FailureClass::Permanent, "STEP_POISONED", message).with_unknown_outcome();
    turn.effects.push(Effect::DeadLetter { step: i, failure: failure.clone() });
    failure::give_up(turn, i, failure, spent);
}
