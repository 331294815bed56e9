//! Reconciles the task streams with the plans of the shards owned here.
//!
//! Tasks of finished attempts, for example of cancelled plans, are removed from their stream. Tasks that are missing on
//! their stream, for example after it was deleted, are sent again. A queue is scanned after an attempt was stopped, when
//! a step has waited for longer than a task lease, and when tasks wait without a worker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::BrokerError;
use goalmill_common::id::{AgentType, EntryId, ShardId};
use goalmill_shard::{Scan, ShardMessage, Suspects, TaskHead, TaskOnStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::scheduler::Scheduler;
use crate::shard::{OwnedShards, reply_channel};

/// Entries per read.
const PAGE: usize = 100;
/// Entries read of one stream. In a longer one, missing tasks are not detected.
const ENTRIES_MAX: usize = 20_000;
/// Queues scanned per round; the rest follow in the next.
const QUEUES_MAX: usize = 50;

/// Runs until stopped.
pub(crate) async fn run(scheduler: Arc<Scheduler>, shards: Arc<OwnedShards>) {
    let every = Duration::from_millis(scheduler.settings.scheduler.reclaim_ms);
    let mut due = Due::default();
    while !scheduler.stop.is_cancelled() {
        tokio::select! {
            biased;
            () = scheduler.stop.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        let round = round(&scheduler, &shards, &mut due);
        if let Some(Err(error)) = scheduler.stop.run_until_cancelled(round).await {
            tracing::debug!("the task streams could not be reconciled: {error}");
        }
    }
}

/// The queues to scan.
#[derive(Default)]
struct Due {
    /// Queues to scan in this round.
    now: BTreeSet<AgentType>,
    /// When each overdue queue was last scanned.
    scanned: BTreeMap<AgentType, Instant>,
    /// When unserved tasks were last searched for.
    searched: Option<Instant>,
}

/// A shard owned here, and when it last wrote its tasks.
struct OwnedShard {
    shard: ShardId,
    to_loop: mpsc::Sender<ShardMessage>,
    written_ms: u64,
}

async fn round(scheduler: &Scheduler, shards: &OwnedShards, due: &mut Due) -> Result<(), BrokerError> {
    let lease = Duration::from_millis(scheduler.settings.scheduler.task_lease_ms);
    let mut owned = Vec::new();
    due.scanned.retain(|_, at| at.elapsed() < lease);
    for shard in shards.ids() {
        let Some((to_loop, suspects)) = request_suspects(shards, shard).await else { continue };
        let Suspects { written_ms, overdue, stopped } = suspects;
        due.now.extend(stopped);
        due.now.extend(overdue.into_iter().filter(|queue| !due.scanned.contains_key(queue)));
        owned.push(OwnedShard { shard, to_loop, written_ms });
    }
    if owned.is_empty() {
        return Ok(());
    }
    if due.searched.is_none_or(|at| at.elapsed() >= lease) {
        due.searched = Some(Instant::now());
        let served: BTreeSet<AgentType> =
            scheduler.directory.workers().iter().flat_map(|worker| worker.agents.iter().cloned()).collect();
        let queues = scheduler.directory.queues().await?;
        let waits = queues.iter().filter(|queue| queue.waiting > 0).map(|queue| &queue.agent_type);
        due.now.extend(waits.filter(|queue| !served.contains(*queue)).cloned());
    }
    for _ in 0..QUEUES_MAX {
        let Some(agent_type) = due.now.pop_first() else { break };
        due.scanned.insert(agent_type.clone(), Instant::now());
        match scan(scheduler, &agent_type).await {
            Ok((tasks, is_whole)) => send_scan(&owned, &agent_type, tasks, is_whole).await,
            Err(BrokerError::WrongType(_) | BrokerError::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn request_suspects(shards: &OwnedShards, shard: ShardId) -> Option<(mpsc::Sender<ShardMessage>, Suspects)> {
    let to_loop = shards.get(shard)?;
    let (reply, suspects) = reply_channel();
    to_loop.send(ShardMessage::AskSuspects(reply)).await.ok()?;
    Some((to_loop, suspects.await.ok()?))
}

/// Reads a task stream; also returns whether it was read to its end.
async fn scan(
    scheduler: &Scheduler,
    agent_type: &AgentType,
) -> Result<(BTreeMap<ShardId, Vec<TaskOnStream>>, bool), BrokerError> {
    let (mut found, mut after, mut count) = (BTreeMap::<_, Vec<_>>::new(), EntryId::start(), 0);
    while count < ENTRIES_MAX {
        let page = scheduler.broker.tasks(agent_type, &after, PAGE).await?;
        let (is_last, last) = (page.len() < PAGE, page.last().map(|delivery| delivery.entry.clone()));
        count += page.len();
        for delivery in page {
            // Workers report unreadable tasks.
            let Ok(head) = serde_json::from_slice::<TaskHead>(&delivery.data) else { continue };
            let Some(shard) = head.plan.shard() else { continue };
            found.entry(shard).or_default().push(TaskOnStream { entry: delivery.entry, head });
        }
        match last {
            Some(last) if !is_last => after = last,
            Some(_) | None => return Ok((found, true)),
        }
    }
    Ok((found, false))
}

async fn send_scan(
    owned: &[OwnedShard],
    agent_type: &AgentType,
    mut tasks: BTreeMap<ShardId, Vec<TaskOnStream>>,
    is_whole: bool,
) {
    for OwnedShard { shard, to_loop, written_ms } in owned {
        let tasks = tasks.remove(shard).unwrap_or_default();
        let scan = Scan { agent_type: agent_type.clone(), written_ms: *written_ms, tasks, is_whole };
        // An error means that the loop has ended.
        drop(to_loop.send(ShardMessage::Reconcile(Box::new(scan))).await);
    }
}
