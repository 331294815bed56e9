//! Refusals: why a plan or a step does not take a request.

use goalmill_common::id::StepId;
use goalmill_common::status::StepStatus;

use crate::graph::StepIndex;
use crate::turn::Turn;
use crate::{Rejection, cleanup};

/// Finds a step that is not final, of a plan whose steps may change.
pub(crate) fn open_step(turn: &Turn<'_>, step: &StepId) -> Result<StepIndex, Rejection> {
    let i = turn.find(step)?;
    if !turn.is_active() {
        return Err(refuse_plan(turn, "its steps cannot be changed before it runs"));
    }
    if turn.status_of(i).is_final() {
        return Err(refuse_step(turn, i, "a final step cannot be changed"));
    }
    if cleanup::runs_later(turn.state, i) {
        return Err(refuse_step(turn, i, "it runs once the outcome of the plan is known"));
    }
    Ok(i)
}

pub(crate) fn refuse_plan(turn: &Turn<'_>, why: &str) -> Rejection {
    Rejection::not_allowed(format!("the plan is {}: {why}", turn.state.status))
}

pub(crate) fn refuse_step(turn: &Turn<'_>, i: StepIndex, why: &str) -> Rejection {
    Rejection::not_allowed(format!("step `{}` is {}: {why}", turn.id_of(i), turn.status_of(i)))
}

pub(crate) fn awaiting_step(turn: &Turn<'_>, step: &StepId) -> Result<StepIndex, Rejection> {
    let i = open_step(turn, step)?;
    if turn.status_of(i) != StepStatus::AwaitingApproval {
        return Err(refuse_step(turn, i, "it does not await approval"));
    }
    let hook = turn.state.steps[i].run().hooks();
    if hook.is_some_and(|asked| asked.completed.is_some()) {
        return Err(refuse_step(turn, i, "a hook decides about its outputs"));
    }
    if turn.state.steps[i].run().question().is_some() {
        return Err(refuse_step(turn, i, "it waits for an answer, not for an approval"));
    }
    Ok(i)
}
