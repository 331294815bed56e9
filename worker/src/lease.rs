//! Renews the leases of the held tasks, and stops the tasks whose lease cannot be renewed in time.
//!
//! A lease may be trusted while
//!
//! ```text
//! now < trusted_until = renewal_sent_at + lease - margin
//! ```
//!
//! It counts from the sending: Redis counts from a moment between sending and reply, and only the sending is a safe
//! bound. A task's first lease counts from its arrival, because a blocking read is sent long before; a reply later
//! than its wait plus the margin is verified by an extension before its tasks run.
//!
//! Every third of `lease_ms` one call extends all leases of that age. `false` means that another worker has the task:
//! the execution is cancelled without a report. When no extension succeeds before `trusted_until`, the worker stops
//! the execution: the scheduler may have given the task to another worker.

use std::sync::Arc;
use std::time::Duration;

use goalmill_common::id::{AgentType, EntryId};
use tokio::time::{Instant, sleep_until};

use crate::held_tasks::{HeldTask, StopReason};
use crate::worker::Worker;

/// Longest pause between two checks of the held tasks.
const CHECK_MS_MAX: u64 = 5_000;
/// Pause after an extension that failed.
const RETRY_MS: u64 = 100;

/// Extends leases until the worker stops.
pub(crate) async fn renew_leases(worker: Arc<Worker>) {
    loop {
        let pause = if extend_due(&worker).await {
            check_interval_ms(&worker)
        } else {
            RETRY_MS.min(check_interval_ms(&worker))
        };
        let wake = Instant::now() + Duration::from_millis(pause);
        tokio::select! {
            biased;
            () = worker.stop.cancelled() => return,
            () = worker.held_tasks.wait_shorter() => {}
            () = sleep_until(wake) => {}
        }
        stop_untrusted(&worker);
    }
}

/// A sixth of the shortest lease: with renewal at a third, no lease gets older than a half.
fn check_interval_ms(worker: &Worker) -> u64 {
    worker.held_tasks.lease_ms_min().map_or(CHECK_MS_MAX, |lease_ms| (lease_ms / 6).clamp(1, CHECK_MS_MAX))
}

/// Extends every lease older than a third of its length; `false` when the call failed.
async fn extend_due(worker: &Worker) -> bool {
    let now = Instant::now();
    let (serials, leases): (Vec<u64>, Vec<(AgentType, EntryId)>) = {
        let held = worker.held_tasks.lock();
        let due = held.iter().filter(|(_, h)| now.duration_since(h.renewed_at) >= h.lease() / 3);
        due.map(|(n, h)| (*n, (h.assignment.agent_type.clone(), h.assignment.entry.clone()))).unzip()
    };
    if leases.is_empty() {
        return true;
    }
    let sent_at = Instant::now();
    let mut call = std::pin::pin!(worker.broker.extend(&worker.id, &leases));
    // The call may take longer than a lease can be trusted.
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut call => break answer,
            () = sleep_until(next_untrusted_at(worker)) => stop_untrusted(worker),
        }
    };
    match answer {
        Ok(ours) => {
            renew(worker, sent_at, serials.into_iter().zip(ours));
            true
        }
        Err(e) => {
            worker.connection.set_lost(&e);
            false
        }
    }
}

fn renew(worker: &Worker, sent_at: Instant, answers: impl Iterator<Item = (u64, bool)>) {
    let mut table = worker.held_tasks.lock();
    for (serial, ours) in answers {
        let Some(held) = table.get_mut(&serial) else { continue };
        if ours {
            held.renewed_at = sent_at;
        } else {
            tracing::warn!(
                plan_id = %held.assignment.task.plan, step_id = %held.assignment.task.step, trace_id = held.assignment.task.trace_id(),
                "the lease on step `{}` is lost, its execution is cancelled", held.assignment.task.step
            );
            held.assignment.stop(StopReason::LeaseLost);
        }
    }
}

/// The end of trust in a lease. The margin is at most half of the lease.
fn trusted_until(worker: &Worker, held: &HeldTask) -> Instant {
    let margin = Duration::from_millis(worker.settings.lease_margin_ms).min(held.lease() / 2);
    held.renewed_at + held.lease() - margin
}

/// The next end of trust among running tasks; far in the future when there is none.
fn next_untrusted_at(worker: &Worker) -> Instant {
    let running = |held: &&HeldTask| held.assignment.stopped().is_none();
    let table = worker.held_tasks.lock();
    let next = table.values().filter(running).map(|held| trusted_until(worker, held)).min();
    next.unwrap_or_else(|| Instant::now() + Duration::from_hours(1))
}

fn stop_untrusted(worker: &Worker) {
    let now = Instant::now();
    for held in worker.held_tasks.lock().values() {
        if held.assignment.stopped().is_none() && now >= trusted_until(worker, held) {
            tracing::warn!(
                plan_id = %held.assignment.task.plan, step_id = %held.assignment.task.step, trace_id = held.assignment.task.trace_id(),
                "the lease on step `{}` could not be extended, its execution is stopped", held.assignment.task.step
            );
            held.assignment.stop(StopReason::LeaseLost);
        }
    }
}
