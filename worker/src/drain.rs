//! Graceful shutdown: stop pulling, finish, release, flush reports, deregister.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::timeout;

use crate::held_tasks::StopReason;
use crate::worker::Worker;

/// Time to flush the last reports after all executions have ended, in milliseconds.
const FLUSH_MS: u64 = 5_000;
/// The same in a forced shutdown.
const FORCED_FLUSH_MS: u64 = 2_000;
/// Time for the loops to end, and for the deregistration, in milliseconds.
const DEREGISTER_MS: u64 = 1_000;
/// Interval at which blocking reads are woken, in milliseconds: a read may have just begun.
const WAKE_MS: u64 = 20;

/// Starts the shutdown, once; it continues without a waiting caller.
pub(crate) fn begin(worker: &Arc<Worker>) {
    worker.draining.cancel();
    if !worker.ending.swap(true, Ordering::SeqCst) {
        worker.spawn_watched(&worker.tasks, &worker.ended, "drain", end(worker.clone()));
    }
}

async fn end(worker: Arc<Worker>) {
    tracing::info!("worker `{}` drains", worker.id);
    stop_pulling(&worker).await;
    let limit = Duration::from_millis(worker.settings.drain_ms);
    tokio::select! {
        biased;
        () = idle(&worker) => {}
        () = tokio::time::sleep(limit) => {}
        () = worker.force.cancelled() => {}
    }
    release(&worker).await;
    let limit = if worker.force.is_cancelled() { FORCED_FLUSH_MS } else { FLUSH_MS };
    if timeout(Duration::from_millis(limit), worker.outbox.wait_empty()).await.is_err() {
        tracing::warn!("{} reports could not be sent before the end", worker.outbox.unsent());
    }
    deregister(&worker).await;
    worker.ended.cancel();
    tracing::info!("worker `{}` has ended", worker.id);
}

/// Waits for the puller, waking its blocking read until it sees the signal.
async fn stop_pulling(worker: &Worker) {
    worker.wake().await;
    while timeout(Duration::from_millis(WAKE_MS), worker.pulling.wait()).await.is_err() {
        worker.wake().await;
    }
}

async fn idle(worker: &Worker) {
    while worker.held_tasks.len() > 0 {
        worker.held_tasks.wait_removed().await;
    }
}

/// Stops running executions; each reports `released`, which consumes no attempt.
async fn release(worker: &Worker) {
    worker.held_tasks.stop(StopReason::Released, |_| true);
    if timeout(Duration::from_millis(DEREGISTER_MS), idle(worker)).await.is_err() {
        tracing::warn!("{} executions do not stop", worker.held_tasks.len());
    }
}

async fn deregister(worker: &Worker) {
    worker.stop.cancel();
    worker.loops.close();
    let ended = async {
        while timeout(Duration::from_millis(WAKE_MS), worker.loops.wait()).await.is_err() {
            worker.wake().await;
        }
    };
    let limit = Duration::from_millis(DEREGISTER_MS);
    if timeout(limit, ended).await.is_err() {
        tracing::debug!("a loop of worker `{}` still waits for redis", worker.id);
    }
    match timeout(limit, worker.broker.deregister_worker(&worker.id)).await {
        Ok(Ok(())) => {}
        Ok(Err(e)) => tracing::warn!("worker `{}` could not deregister: {e}", worker.id),
        Err(_) => tracing::warn!("worker `{}` could not deregister in time", worker.id),
    }
}
