//! Calls that wait for room in the budget.

use goalmill_common::call::{CallNeeds, SuspendedCall};
use goalmill_common::event::{StepEvent, StepSuspended};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::WorkerId;
use goalmill_common::status::StepStatus;

use crate::attempt::failure;
use crate::attempt::spent::Spent;
use crate::budget::{BUDGET_EXCEEDED, call_budget};
use crate::graph::StepIndex;
use crate::turn::Turn;

/// Ends an attempt whose next call does not fit into what it was given. The step continues once there is room; it fails
/// when there is nothing more to wait for.
pub(crate) fn suspend_for_budget(
    turn: &mut Turn<'_>,
    i: StepIndex,
    call: SuspendedCall,
    worker: WorkerId,
    spent: Spent,
) {
    let needs = call.wait.needs.unwrap_or_default();
    let is_hopeless = turn.state.steps[i].grant().is_none_or(|grant| grant.left.last);
    if is_hopeless {
        return failure::give_up(turn, i, call_too_large(turn, i, needs), spent);
    }
    let due_ms = turn.after(turn.context.limits.queue_ms_max);
    let Spent { cost, tokens, split: usage, .. } = spent;
    let suspended = StepSuspended { cost, tokens, usage, ..StepSuspended::new(call, worker, due_ms) };
    turn.emit_step(i, StepEvent::Suspended(Box::new(suspended)));
    continue_within_budget(turn);
}

/// Lets steps continue that wait for the budget, as far as there is room.
pub(crate) fn continue_within_budget(turn: &mut Turn<'_>) {
    if turn.state.reservations.waiting().is_empty() || !turn.is_active() {
        return;
    }
    for i in turn.state.reservations.waiting().clone() {
        let needs = turn.state.steps[i].run().needs().unwrap_or_default();
        if turn.status_of(i) == StepStatus::Retrying && call_budget::may_go_on(turn.state, i, needs) {
            turn.emit_step(i, StepEvent::Ready);
        }
    }
}

/// The budget had no room for a call in time.
pub(crate) fn end_budget_wait(turn: &mut Turn<'_>, i: StepIndex, waiting: &SuspendedCall) {
    let failure = call_too_large(turn, i, waiting.wait.needs.unwrap_or_default());
    turn.emit_step(i, StepEvent::Ready);
    failure::give_up(turn, i, failure, Spent::default());
}

fn call_too_large(turn: &Turn<'_>, i: StepIndex, needs: CallNeeds) -> Failure {
    let room = call_budget::unreserved(turn.state, i);
    let tokens = room.tokens.map(|room| format!("{} tokens, and {room} are left", needs.tokens));
    let cost = room.cost.map(|room| format!("{} dollars, and {room} are left", needs.cost));
    let parts: Vec<String> = tokens.into_iter().chain(cost).collect();
    let message = format!("the next call may use up {}", parts.join("; "));
    Failure::new(FailureClass::ConstraintViolation, BUDGET_EXCEEDED, message)
}
