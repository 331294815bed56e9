//! When the fallback of a step may try.

use goalmill_common::failure::{Failure, FailureClass};

use crate::graph::StepIndex;
use crate::turn::Turn;

/// Whether the fallback of a step may try after a failure. An action that changes something goes to it only if no
/// attempt may have done it.
pub(super) fn may_fall_back(turn: &Turn<'_>, i: StepIndex, failure: &Failure) -> bool {
    let (spec, step) = (turn.state.plan.step(i), &turn.state.steps[i]);
    let has_fallback = spec.fallback.is_some() && !step.has_fallen_back();
    has_fallback
        && failure.class != FailureClass::ConstraintViolation
        && !(turn.context.cards.has_side_effect(&spec.action) && (failure.may_be_done() || step.may_have_acted()))
}
