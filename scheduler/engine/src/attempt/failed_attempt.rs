//! What follows a failed attempt: the next one, a fallback agent, or the failure of its step.

use goalmill_common::failure::{Failure, FailureClass, WAIT_EXCEEDED};
use goalmill_common::retry_after::RETRY_AFTER_MS_MAX;

use crate::attempt::lost;
use crate::attempt::retry;
use crate::attempt::retry::Next;
use crate::attempt::spent::Spent;
use crate::attempt::{failure, fallback};
use crate::graph::StepIndex;
use crate::turn::Turn;

/// Handles a failed attempt: retries it, uses the fallback, or fails the step.
pub(crate) fn fail_attempt(turn: &mut Turn<'_>, i: StepIndex, failure: Failure, spent: Spent) {
    if failure.class == FailureClass::Lost {
        return lost::lose_attempt(turn, i, failure, spent);
    }
    let waits = failure.class == FailureClass::RateLimited;
    let failure = if waits { retry::wait_as_requested(turn, i, failure, spent) } else { Some(failure) };
    let Some(failure) = failure else { return };
    let retry = turn.state.plan.step(i).retry;
    let failed = turn.state.steps[i].failures() + 1;
    if failure.class.is_retryable()
        && failure.code != WAIT_EXCEEDED
        && failed <= retry.max.min(turn.context.limits.retries_max)
    {
        let asked = failure.retry_after_ms.unwrap_or(0).min(RETRY_AFTER_MS_MAX);
        let wait_ms = retry.wait_ms(failed, turn.draw()).max(asked);
        return retry::schedule_retry(turn, i, failure, Next { wait_ms, ..Next::default() }, spent);
    }
    if fallback::may_fall_back(turn, i, &failure) {
        return retry::schedule_retry(turn, i, failure, Next { fallback: true, ..Next::default() }, spent);
    }
    failure::give_up(turn, i, failure, spent);
}
