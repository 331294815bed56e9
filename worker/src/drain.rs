//! The end of a worker: take nothing new, finish, hand back the rest, tell everything, say good-bye.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::timeout;

use crate::table::Why;
use crate::worker::Worker;

/// How long the last reports may take once nothing runs any more, in milliseconds.
const FLUSH_MS: u64 = 5_000;
/// The same when there is a hurry.
const HURRY_MS: u64 = 2_000;
/// How long the loops and the good-bye may take, in milliseconds.
const GOOD_BYE_MS: u64 = 1_000;
/// How often a read is woken that may just have begun.
const WAKE_MS: u64 = 20;

/// Begins the end, once. It goes on whether or not somebody waits for it.
pub(crate) fn begin(worker: &Arc<Worker>) {
    worker.draining.cancel();
    if !worker.ending.swap(true, Ordering::SeqCst) {
        worker.tasks.spawn(end(worker.clone()));
    }
}

async fn end(worker: Arc<Worker>) {
    tracing::info!("worker `{}` drains", worker.id);
    stop_pulling(&worker).await;
    let patience = Duration::from_millis(worker.settings.drain_ms);
    tokio::select! {
        biased;
        () = idle(&worker) => {}
        () = tokio::time::sleep(patience) => {}
        () = worker.hurry.cancelled() => {}
    }
    hand_back(&worker).await;
    let patience = if worker.hurry.is_cancelled() { HURRY_MS } else { FLUSH_MS };
    if timeout(Duration::from_millis(patience), worker.outbox.wait_empty()).await.is_err() {
        tracing::warn!("{} reports could not be sent before the end", worker.outbox.unsent());
    }
    say_good_bye(&worker).await;
    worker.ended.cancel();
    tracing::info!("worker `{}` has ended", worker.id);
}

/// Waits for the puller, waking its read until it has seen the signal.
async fn stop_pulling(worker: &Worker) {
    worker.wake().await;
    while timeout(Duration::from_millis(WAKE_MS), worker.pulling.wait()).await.is_err() {
        worker.wake().await;
    }
}

async fn idle(worker: &Worker) {
    while worker.table.len() > 0 {
        worker.table.wait_removed().await;
    }
}

/// Stops what still runs; each says `released`, which costs no attempt.
async fn hand_back(worker: &Worker) {
    worker.table.stop(Why::HandedBack, |_| true);
    if timeout(Duration::from_millis(GOOD_BYE_MS), idle(worker)).await.is_err() {
        tracing::warn!("{} executions do not stop", worker.table.len());
    }
}

async fn say_good_bye(worker: &Worker) {
    worker.stop.cancel();
    worker.loops.close();
    let ended = async {
        while timeout(Duration::from_millis(WAKE_MS), worker.loops.wait()).await.is_err() {
            worker.wake().await;
        }
    };
    let patience = Duration::from_millis(GOOD_BYE_MS);
    if timeout(patience, ended).await.is_err() {
        tracing::debug!("a loop of worker `{}` still waits for redis", worker.id);
    }
    match timeout(patience, worker.broker.forget_worker(&worker.id)).await {
        Ok(Ok(())) => {}
        Ok(Err(e)) => tracing::warn!("worker `{}` could not say good-bye: {e}", worker.id),
        Err(_) => tracing::warn!("worker `{}` could not say good-bye in time", worker.id),
    }
}
