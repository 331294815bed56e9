//! The timer of a step.

use goalmill_common::event::StepEvent;
use goalmill_common::failure::{Failure, FailureClass};

use crate::attempt::failed_attempt;
use crate::attempt::spent::Spent;
use crate::attempt::step_run::StepRun;
use crate::attempt::{cancel, failure};
use crate::calls::suspension;
use crate::graph::StepIndex;
use crate::people::decider::Decider;
use crate::people::hook_answers;
use crate::sub_plan::orders;
use crate::turn::Turn;
use crate::wait::step_wait;
use crate::{Rejection, attempt, people, progress, sub_plan};

/// Handles a due timer of a step.
pub(crate) fn handle_step_timer(turn: &mut Turn<'_>, i: StepIndex) -> Result<(), Rejection> {
    let Some(step) = turn.state.steps.get(i.as_usize()) else { return Err(Rejection::NotDue) };
    if step.due_ms().is_none_or(|due_ms| turn.now_ms < due_ms) {
        return Err(Rejection::NotDue);
    }
    match step.run() {
        StepRun::Queued { .. } => {
            let message = "no worker took the task in time";
            time_out(turn, i, Failure::new(FailureClass::Timeout, "QUEUE_TIMEOUT", message));
        }
        StepRun::Running { .. } => time_out(turn, i, attempt::step_timeout()),
        StepRun::Waiting { .. } => step_wait::end_wait(turn, i),
        StepRun::Retrying { .. } => turn.emit_step(i, StepEvent::Ready),
        StepRun::Suspended(suspended) => suspension::resume_call_by_default(turn, i, suspended.call.clone()),
        StepRun::AwaitingApproval(Decider::Held { .. }) => hook_answers::ask_hooks_again(turn, i),
        StepRun::AwaitingApproval(Decider::Answer { .. }) => people::answer_step_by_default(turn, i),
        StepRun::AwaitingApproval(Decider::Approval { .. }) => people::decide_by_default(turn, i),
        StepRun::AwaitingApproval(Decider::Hooks(_) | Decider::Decided)
        | StepRun::Pending
        | StepRun::Blocked { .. }
        | StepRun::Ready { .. }
        | StepRun::Ended { .. } => return Err(Rejection::NotDue),
    }
    progress::propagate(turn);
    Ok(())
}

fn time_out(turn: &mut Turn<'_>, i: StepIndex, failure: Failure) {
    if sub_plan::has_sub_plan(turn.state, i) {
        // The step ends with its plan.
        return orders::stop_sub_plan(turn, i);
    }
    cancel::cancel_attempt(turn, i);
    if turn.state.runs_in_engine(i) {
        failure::give_up(turn, i, failure, Spent::default());
    } else {
        failed_attempt::fail_attempt(turn, i, failure, Spent::default());
    }
}
