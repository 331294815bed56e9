//! Pulls tasks, never more than free slots.
//!
//! The reader has its own connection, and its reads are always awaited: a dropped read may have pulled tasks that
//! would then not run. Drain wakes a blocking read.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use goalmill_broker::{BrokerError, DeadLetter, Delivery};
use goalmill_common::id::AgentType;
use goalmill_common::report::What;
use goalmill_common::wire;
use tokio::time::Instant;

use crate::cancel::{Superseded, supersede};
use crate::held_tasks::Assignment;
use crate::run;
use crate::worker::{BLOCK_MS, Worker};

/// Tasks requested in one call, so that one reply stays small.
const PULL_MAX: usize = 512;
/// The same while an agent has asked to wait: its tasks start one after the other.
const THROTTLED_PULL_MAX: usize = 4;
/// Milliseconds that a read waits, or a worker without a type to pull, while an agent has asked to wait.
const THROTTLED_MS: u64 = 50;

/// Pulls until the worker drains.
pub(crate) async fn pull_tasks(worker: Arc<Worker>) {
    let mut failures = 0;
    while wait_for_capacity(&worker).await {
        match pull_while_connected(&worker, &mut failures).await {
            Ok(()) => return,
            Err(e) => {
                failures += 1;
                worker.connection.set_lost(&e);
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(worker.backoff(failures)) => {}
                    () = worker.draining.cancelled() => return,
                }
            }
        }
    }
}

/// Waits for a connection, room for reports and a free slot; `false` when the worker drains.
async fn wait_for_capacity(worker: &Worker) -> bool {
    let capacity = async {
        worker.connection.wait_up().await;
        worker.outbox.wait_room().await;
        worker.held_tasks.wait_free_slot().await;
    };
    tokio::select! {
        biased;
        () = worker.draining.cancelled() => false,
        () = capacity => true,
    }
}

async fn pull_while_connected(worker: &Arc<Worker>, failures: &mut u32) -> Result<(), BrokerError> {
    let mut reader = worker.broker.reader().await?;
    worker.set_waker("pull", reader.waker());
    while wait_for_capacity(worker).await {
        let free = worker.held_tasks.free_slots();
        let open = worker.open_agent_types();
        if open.as_ref().is_some_and(Vec::is_empty) {
            tokio::time::sleep(Duration::from_millis(THROTTLED_MS)).await;
            continue;
        }
        let (count, block_ms) = if open.is_some() { (THROTTLED_PULL_MAX, THROTTLED_MS) } else { (PULL_MAX, BLOCK_MS) };
        let agent_types = open.as_ref().unwrap_or(&worker.agent_types);
        let asked_at = Instant::now();
        let deliveries = reader.pull(&worker.id, agent_types, free.min(count), block_ms).await?;
        *failures = 0;
        if deliveries.is_empty() {
            continue;
        }
        let deliveries = if is_late(worker, asked_at) { keep_owned(worker, deliveries).await? } else { deliveries };
        // Without an answer they run: what was pulled here is not delivered elsewhere before its lease ends.
        if !worker.hears_cancellations.load(Ordering::Acquire)
            && let Ok(tokens) = worker.broker.cancelled().await
        {
            supersede(worker, tokens);
        }
        accept(worker, deliveries);
        // Lets short executions finish, so that the next pull finds their slots free.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Whether the reply is so late that its leases may have expired, as after a suspended process.
fn is_late(worker: &Worker, asked_at: Instant) -> bool {
    asked_at.elapsed() > Duration::from_millis(BLOCK_MS + worker.settings.lease_margin_ms)
}

/// Keeps the deliveries whose lease could be extended.
async fn keep_owned(worker: &Worker, deliveries: Vec<Delivery>) -> Result<Vec<Delivery>, BrokerError> {
    let leases: Vec<_> = deliveries.iter().map(|d| (d.agent_type.clone(), d.entry.clone())).collect();
    let ours = worker.broker.extend(&worker.id, &leases).await?;
    Ok(deliveries.into_iter().zip(ours).filter_map(|(delivery, ours)| ours.then_some(delivery)).collect())
}

fn accept(worker: &Arc<Worker>, deliveries: Vec<Delivery>) {
    let now = Instant::now();
    let mut batch: Vec<Arc<Assignment>> = Vec::with_capacity(deliveries.len());
    for delivery in deliveries {
        if let Some(assignment) = decode_or_dead_letter(worker, delivery) {
            batch.push(Arc::new(assignment));
        }
    }
    let first = {
        // HeldTask until the batch is in the table, where the listener looks for what it has to stop.
        let superseded = worker.superseded.lock().unwrap_or_else(PoisonError::into_inner);
        release_superseded(worker, &superseded, &mut batch);
        if worker.draining.is_cancelled() {
            release(worker, &mut batch);
        }
        worker.held_tasks.insert(&batch, now)
    };
    for (serial, assignment) in (first..).zip(batch) {
        worker.tasks.spawn(run::run_assignment(worker.clone(), assignment, serial));
    }
}

/// Releases superseded attempts without running them, so that their entries are acknowledged.
fn release_superseded(worker: &Worker, superseded: &Superseded, batch: &mut Vec<Arc<Assignment>>) {
    if superseded.is_empty() {
        return;
    }
    batch.retain(|assignment| {
        let is_superseded = superseded.contains(&assignment.task.token);
        if is_superseded {
            worker.served[&assignment.agent_type].metrics.superseded.increment(1);
            worker.outbox.push(assignment.report(&worker.id, What::Released));
        }
        !is_superseded
    });
}

/// Releases, without running it, a batch that arrived after the drain began.
fn release(worker: &Worker, batch: &mut Vec<Arc<Assignment>>) {
    for assignment in batch.drain(..) {
        worker.served[&assignment.agent_type].metrics.released.increment(1);
        worker.outbox.push(assignment.report(&worker.id, What::Released));
    }
}

/// Decodes a task. An invalid one becomes a dead letter; its entry stays pending until a scheduler reclaims it.
fn decode_or_dead_letter(worker: &Arc<Worker>, delivery: Delivery) -> Option<Assignment> {
    let Delivery { agent_type, entry, data } = delivery;
    let served = worker.served.get(&agent_type)?;
    if data.is_empty() {
        served.metrics.unreadable.increment(1);
        tracing::debug!("entry {entry} of queue `{agent_type}` is gone or holds no task");
        return None;
    }
    let reason = match wire::read_task(&data) {
        Ok(task) if task.plan.shard().is_none() => format!("`{}` is no plan id", task.plan),
        Ok(task) if task.lease_ms == 0 => "`lease_ms` is 0".into(),
        Ok(task) => return Some(Assignment::new(task, agent_type, entry)),
        Err(e) => e.to_string(),
    };
    served.metrics.unreadable.increment(1);
    tracing::warn!(agent_type = %agent_type, entry = %entry, "entry {entry} of queue `{agent_type}` is not a task: {reason}");
    let letter = dead_letter(agent_type, &data, reason);
    let worker_too = worker.clone();
    worker.tasks.spawn(async move {
        if let Err(e) = worker_too.broker.add_dead_letter(&letter).await {
            tracing::warn!("a dead letter for queue `{}` cannot be kept: {e}", letter.agent_type);
        }
    });
    None
}

fn dead_letter(agent_type: AgentType, data: &[u8], reason: String) -> DeadLetter {
    let loose: serde_json::Value = serde_json::from_slice(data).unwrap_or_default();
    let text = |field: &str| loose[field].as_str().unwrap_or_default().to_owned();
    DeadLetter {
        agent_type,
        plan: text("plan").into(),
        step: text("step"),
        attempt: loose["attempt"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        code: "TASK_UNREADABLE".into(),
        reason,
        task: String::from_utf8_lossy(data).into_owned(),
    }
}
