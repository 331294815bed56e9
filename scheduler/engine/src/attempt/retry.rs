//! Retries of failed attempts: backoff, and waits that an agent asks for.

use goalmill_common::event::{StepEvent, StepRetrying};
use goalmill_common::failure::{Failure, WAIT_EXCEEDED};
use goalmill_common::plan::{Jitter, Retry};
use goalmill_common::retry_after::RETRY_AFTER_MS_MAX;

use crate::attempt::spent::Spent;
use crate::attempt::step_state::ToldToWait;
use crate::graph::StepIndex;
use crate::turn::Turn;

/// The least wait when an agent asks to wait until a time, by how often it has asked in a row.
const ASKED_AGAIN: Retry = Retry { max: u32::MAX, initial_ms: 50, factor: 2.0, max_ms: 60_000, jitter: Jitter::None };
/// The same when it names no time.
const ASKED_FOR_NO_TIME: Retry = Retry { initial_ms: 1_000, ..ASKED_AGAIN };
/// The longest time over which the ends of waits are spread, in milliseconds.
const SPREAD_MS_MAX: u64 = 30_000;

/// The attempt after a failed one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Next {
    pub(crate) wait_ms: u64,
    /// It is the first of the fallback.
    pub(crate) fallback: bool,
    /// The failed one was asked to wait.
    pub(crate) told_to_wait: bool,
}

/// Makes the step wait because its agent asks so, without using a retry. Returns the failure of a step that has
/// waited for too long.
///
/// An agent that asks again and again is asked less and less often, so that the log stays short.
pub(crate) fn wait_as_requested(turn: &mut Turn<'_>, i: StepIndex, failure: Failure, spent: Spent) -> Option<Failure> {
    let ToldToWait { since_ms, times } = ToldToWait::again(turn.state.steps[i].told_to_wait(), turn.now_ms);
    let least = if failure.retry_after_ms.is_some() { ASKED_AGAIN } else { ASKED_FOR_NO_TIME };
    let asked = failure.retry_after_ms.unwrap_or(0).min(RETRY_AFTER_MS_MAX).max(least.ceiling_ms(times));
    let wait_ms = asked.saturating_add(spread_ms(asked, turn.draw()));
    let most_ms = turn.context.limits.queue_ms_max;
    if turn.after(wait_ms) > since_ms.saturating_add(most_ms) {
        let message =
            format!("asked to wait for longer than {most_ms} ms (`limits.queue_ms_max`): {}", failure.message);
        return Some(Failure { code: WAIT_EXCEEDED.into(), message, retry_after_ms: None, ..failure });
    }
    schedule_retry(turn, i, failure, Next { wait_ms, told_to_wait: true, ..Next::default() }, spent);
    None
}

pub(crate) fn schedule_retry(turn: &mut Turn<'_>, i: StepIndex, failure: Failure, next: Next, spent: Spent) {
    let Next { wait_ms, fallback, told_to_wait } = next;
    let due_ms = turn.after(wait_ms);
    let Spent { cost, tokens, split: usage, duration_ms } = spent;
    let retrying = StepRetrying { failure, due_ms, fallback, told_to_wait, cost, tokens, usage, duration_ms };
    turn.emit_step(i, StepEvent::Retrying(Box::new(retrying)));
    if wait_ms == 0 {
        turn.emit_step(i, StepEvent::Ready);
    }
}

/// How much later than asked the next attempt begins, so that steps that wait for the same agent do not return together.
///
/// - `random`: uniform over `u64`.
fn spread_ms(asked_ms: u64, random: u64) -> u64 {
    let spread = Retry { initial_ms: (asked_ms / 2).min(SPREAD_MS_MAX), jitter: Jitter::Full, ..ASKED_AGAIN };
    spread.wait_ms(1, random)
}
