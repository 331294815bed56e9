//! Tells of executions that take longer: `started` once, then the newest progress, at most once per interval.

use std::sync::Arc;
use std::time::Duration;

use goalmill_common::report::What;
use tokio::time::{Instant, MissedTickBehavior};

use crate::worker::Worker;

/// Looks at the held tasks every `flush_ms` until the worker stops.
pub(crate) async fn flush(worker: Arc<Worker>) {
    let interval = Duration::from_millis(worker.settings.flush_ms.max(1));
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = ticks.tick() => tell(&worker, interval),
            () = worker.stop.cancelled() => return,
        }
    }
}

/// Reports inside the table's lock, so that an attempt's last report comes last.
fn tell(worker: &Worker, interval: Duration) {
    let now = Instant::now();
    for held in worker.table.lock().values_mut() {
        if now.duration_since(held.pulled_at) < interval || held.assignment.stopped().is_some() {
            continue;
        }
        if !held.told {
            held.told = true;
            worker.outbox.push(held.assignment.report(&worker.id, What::Started));
        }
        if let Some((share, message)) = held.assignment.progress.take() {
            let mut report = held.assignment.report(&worker.id, What::Progress);
            report.progress = Some(share.clamp(0.0, 1.0));
            report.message = Some(message);
            worker.outbox.push(report);
        }
    }
}
