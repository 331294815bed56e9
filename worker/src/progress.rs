//! Reports long executions: `started` once, then the newest progress, at most once per interval.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use goalmill_common::report::What;
use tokio::time::{Instant, MissedTickBehavior};

use crate::worker::Worker;

/// Reports on the held tasks every `flush_ms` until the worker stops.
pub(crate) async fn report_progress(worker: Arc<Worker>) {
    let interval = Duration::from_millis(worker.settings.flush_ms.max(1));
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = ticks.tick() => push_reports(&worker, interval),
            () = worker.stop.cancelled() => return,
        }
    }
}

/// Pushes under the lock of the held tasks, so that an attempt's final report comes last.
fn push_reports(worker: &Worker, interval: Duration) {
    let now = Instant::now();
    for held in worker.held_tasks.lock().values_mut() {
        // What waits for its turn has not begun.
        let waits = held.assignment.started_ms.load(Ordering::Relaxed) == 0;
        if waits || now.duration_since(held.pulled_at) < interval || held.assignment.stopped().is_some() {
            continue;
        }
        if !held.started_reported {
            held.started_reported = true;
            worker.outbox.push(held.assignment.report(&worker.id, What::Started));
        }
        if let Some((share, message)) = held.assignment.progress.take_newest() {
            let mut report = held.assignment.report(&worker.id, What::Progress);
            report.progress = Some(share.clamp(0.0, 1.0));
            report.message = Some(message);
            worker.outbox.push(report);
        }
    }
}
