//! Keeps the leases of the held tasks, and gives up in time when that is not possible.
//!
//! A lease may be trusted while
//!
//! ```text
//! now < trusted_until = renewal_sent_at + lease - margin
//! ```
//!
//! It starts at the sending, because Redis counts from some moment between sending and reply and the sending is the
//! only bound on the safe side. A task's first lease counts from its arrival: a blocking read is sent long before,
//! and a reply that came later than its wait plus the margin is verified by an extension before anything runs.
//!
//! Every third of `lease_ms` one call extends all leases that are that old. `false` means that somebody else has the
//! task: the execution is cancelled and nothing reported. Where no extension got through until `trusted_until`, the
//! worker stops the work itself: the scheduler may have given it to another.

use std::sync::Arc;
use std::time::Duration;

use goalmill_common::id::{AgentType, EntryId};
use tokio::time::{Instant, sleep_until};

use crate::table::{Held, Why};
use crate::worker::Worker;

/// Longest pause between two looks at the table.
const LOOK_MS_MAX: u64 = 5_000;
/// Pause after an extension that failed.
const RETRY_MS: u64 = 100;

/// Extends leases until the worker stops.
pub(crate) async fn keep(worker: Arc<Worker>) {
    loop {
        let pause = if extend_due(&worker).await { look_ms(&worker) } else { RETRY_MS.min(look_ms(&worker)) };
        let wake = Instant::now() + Duration::from_millis(pause);
        tokio::select! {
            biased;
            () = worker.stop.cancelled() => return,
            () = worker.table.wait_shorter() => {}
            () = sleep_until(wake) => {}
        }
        stop_untrusted(&worker);
    }
}

/// A sixth of the shortest lease: together with renewal at a third, no lease grows older than a half.
fn look_ms(worker: &Worker) -> u64 {
    worker.table.lease_ms_min().map_or(LOOK_MS_MAX, |lease_ms| (lease_ms / 6).clamp(1, LOOK_MS_MAX))
}

/// Extends every lease that is a third over; `false` when that failed.
async fn extend_due(worker: &Worker) -> bool {
    let now = Instant::now();
    let (serials, leases): (Vec<u64>, Vec<(AgentType, EntryId)>) = {
        let held = worker.table.lock();
        let due = held.iter().filter(|(_, h)| now.duration_since(h.renewed_at) >= h.lease() / 3);
        due.map(|(n, h)| (*n, (h.assignment.agent_type.clone(), h.assignment.entry.clone()))).unzip()
    };
    if leases.is_empty() {
        return true;
    }
    let sent_at = Instant::now();
    let mut call = std::pin::pin!(worker.broker.extend(&worker.id, &leases));
    // The call may hang longer than a lease can be trusted.
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut call => break answer,
            () = sleep_until(next_end(worker)) => stop_untrusted(worker),
        }
    };
    match answer {
        Ok(ours) => {
            renew(worker, sent_at, serials.into_iter().zip(ours));
            true
        }
        Err(e) => {
            worker.link.lost(&e.to_string());
            false
        }
    }
}

fn renew(worker: &Worker, sent_at: Instant, answers: impl Iterator<Item = (u64, bool)>) {
    let mut table = worker.table.lock();
    for (serial, ours) in answers {
        let Some(held) = table.get_mut(&serial) else { continue };
        if ours {
            held.renewed_at = sent_at;
        } else {
            tracing::warn!(
                plan_id = %held.assignment.task.plan, step_id = %held.assignment.task.step, trace_id = held.assignment.task.trace_id(),
                "the lease on step `{}` is lost, its execution is cancelled", held.assignment.task.step
            );
            held.assignment.stop(Why::LeaseLost);
        }
    }
}

/// Until when the lease may be trusted. The margin is at most half the lease.
fn trusted_until(worker: &Worker, held: &Held) -> Instant {
    let margin = Duration::from_millis(worker.settings.lease_margin_ms).min(held.lease() / 2);
    held.renewed_at + held.lease() - margin
}

/// When the next lease that still runs stops being trusted; far away when there is none.
fn next_end(worker: &Worker) -> Instant {
    let running = |held: &&Held| held.assignment.stopped().is_none();
    let table = worker.table.lock();
    let next = table.values().filter(running).map(|held| trusted_until(worker, held)).min();
    next.unwrap_or_else(|| Instant::now() + Duration::from_hours(1))
}

fn stop_untrusted(worker: &Worker) {
    let now = Instant::now();
    for held in worker.table.lock().values() {
        if held.assignment.stopped().is_none() && now >= trusted_until(worker, held) {
            tracing::warn!(
                plan_id = %held.assignment.task.plan, step_id = %held.assignment.task.step, trace_id = held.assignment.task.trace_id(),
                "the lease on step `{}` could not be extended, its execution is stopped", held.assignment.task.step
            );
            held.assignment.stop(Why::LeaseLost);
        }
    }
}
