//! Reaper: reports tasks with expired leases as lost, trims streams, sweeps indexes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{BrokerError, Delivery, QueueState};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::{AgentType, EntryId, ShardId, WorkerId};
use goalmill_common::report::{Report, What};
use goalmill_common::task::Task;
use goalmill_common::wire::{Inbox, read_task};
use tokio::time::Instant;

use crate::quarantine;
use crate::scheduler::Scheduler;
use crate::unused_agent_types::Unused;

/// Expired tasks of an agent type that are claimed in one call.
const BATCH: usize = 100;

/// Idle queues trimmed per round, in rotation.
const IDLE_TRIMMED: usize = 50;

/// State between rounds.
#[derive(Default)]
struct Rounds {
    /// Position in the rotation of idle queues.
    turn: usize,
    unused: Unused,
}

impl Rounds {
    /// For each queue, whether to trim it: always if it has tasks, else in rotation.
    fn trims(&mut self, queues: &[QueueState]) -> Vec<bool> {
        let is_idle = |queue: &QueueState| queue.waiting == 0 && queue.pending == 0;
        let idle = queues.iter().filter(|queue| is_idle(queue)).count().max(1);
        let first = self.turn % idle;
        self.turn = (first + IDLE_TRIMMED) % idle;
        let mut place = 0;
        let mut is_due = |queue: &QueueState| {
            if !is_idle(queue) {
                return true;
            }
            place += 1;
            (place - 1 + idle - first) % idle < IDLE_TRIMMED
        };
        queues.iter().map(&mut is_due).collect()
    }
}

/// Runs until stopped, in every scheduler.
pub(crate) async fn run(scheduler: Arc<Scheduler>) {
    let settings = &scheduler.settings.scheduler;
    let (reclaim, trim) = (Duration::from_millis(settings.reclaim_ms), Duration::from_millis(settings.trim_ms));
    let mut trimmed = Instant::now();
    let mut rounds = Rounds::default();
    while !scheduler.stop.is_cancelled() {
        let jitter = scheduler.random.below(settings.reclaim_ms / 2 + 1);
        tokio::select! {
           biased;
            () = scheduler.stop.cancelled() => return,
            () = tokio::time::sleep(reclaim / 2 + Duration::from_millis(jitter)) => {}
        }
        let trim_now = trimmed.elapsed() >= trim;
        if let Err(error) = round(&scheduler, &mut rounds, trim_now).await {
            tracing::debug!("the reaper failed: {error}");
        }
        if trim_now {
            trimmed = Instant::now();
        }
    }
}

async fn round(scheduler: &Scheduler, rounds: &mut Rounds, trim: bool) -> Result<(), BrokerError> {
    quarantine::retry_queues(scheduler).await?;
    let queues = scheduler.directory.queues().await?;
    let trims = if trim { rounds.trims(&queues) } else { vec![false; queues.len()] };
    for (queue, trim) in queues.iter().zip(trims) {
        if let Some(mismatch) = &queue.wrong_type {
            scheduler.directory.quarantine(&queue.agent_type, mismatch);
            continue;
        }
        if let Err(error) = reap_queue(scheduler, queue, trim).await {
            skip_unusable(&format!("queue `{}`", queue.agent_type), error)?;
        }
    }
    rounds.unused.remove(scheduler, &queues).await?;
    if trim {
        let before = scheduler.clock.now_ms().saturating_sub(scheduler.settings.scheduler.retention_ms);
        for n in 0..scheduler.shards {
            if let Err(error) = scheduler.broker.sweep_index(ShardId(n), before).await {
                skip_unusable(&format!("the index of shard {n}"), error)?;
            }
        }
    }
    Ok(())
}

async fn reap_queue(scheduler: &Scheduler, queue: &QueueState, trim: bool) -> Result<(), BrokerError> {
    let agent_type = &queue.agent_type;
    if queue.pending > 0 {
        let expired = scheduler.broker.reclaim(agent_type, scheduler.settings.scheduler.task_lease_ms, BATCH).await?;
        report_lost(scheduler, expired).await?;
    }
    if trim {
        scheduler.broker.trim(agent_type).await?;
    }
    Ok(())
}

/// Skips an unusable key; an error of the whole store ends the round.
fn skip_unusable(what: &str, error: BrokerError) -> Result<(), BrokerError> {
    match error {
        BrokerError::Corrupt(_) | BrokerError::WrongType(_) => {
            tracing::warn!("the reaper skipped {what}: {error}");
            Ok(())
        }
        BrokerError::Unavailable(_)
        | BrokerError::Refused { .. }
        | BrokerError::OutOfMemory
        | BrokerError::DataLost(_)
        | BrokerError::Unsafe(_)
        | BrokerError::Unsupported(_)
        | BrokerError::InvalidAddress(_)
        | BrokerError::Archive(_) => Err(error),
    }
}

/// Reports lost tasks to their shards, which ignore those of finished attempts.
async fn report_lost(scheduler: &Scheduler, expired: Vec<Delivery>) -> Result<(), BrokerError> {
    let mut reports = BTreeMap::<ShardId, Vec<Report>>::new();
    for delivery in expired {
        let task = read_task(&delivery.data).ok();
        let shard = task.as_ref().and_then(|task| task.plan.shard()).filter(|shard| shard.0 < scheduler.shards);
        let (Some(task), Some(shard)) = (task, shard) else {
            tracing::warn!(entry = %delivery.entry, "task {} of `{}` is unreadable", delivery.entry, delivery.agent_type);
            reports.entry(ShardId(0)).or_default().push(lost_report(None, delivery.agent_type, delivery.entry));
            continue;
        };
        metrics::counter!("goalmill_tasks_lost_total").increment(1);
        reports.entry(shard).or_default().push(lost_report(Some(&task), delivery.agent_type, delivery.entry));
    }
    for (shard, reports) in reports {
        if let Err(error) = scheduler.broker.send(shard, &Inbox::Reports(reports).fields()).await {
            skip_unusable(&format!("the inbox of shard {shard}"), error)?;
        }
    }
    Ok(())
}

/// The report of a lost attempt; without a task, of an unreadable entry, which the shard acknowledges.
fn lost_report(task: Option<&Task>, agent_type: AgentType, entry: EntryId) -> Report {
    let worker = WorkerId::from("reaper");
    let head = match task {
        Some(task) => Report::on(task, agent_type, entry, worker, What::Lost),
        None => Report::on_none(agent_type, entry, worker, What::Lost),
    };
    let failure = Failure::new(FailureClass::Lost, "LEASE_EXPIRED", "the worker's lease ran out");
    Report { failure: Some(failure), ..head }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_without_tasks_are_trimmed_in_turn_and_those_with_tasks_always() {
        let queue = |n: usize| {
            let agent_type = AgentType::from(format!("q{n}"));
            QueueState { agent_type, waiting: u64::from(n == 7), pending: 0, dead_letters: 0, wrong_type: None }
        };
        let queues: Vec<QueueState> = (0..121).map(queue).collect();
        let mut rounds = Rounds::default();
        let mut counts = vec![0; queues.len()];
        for _ in 0..12 {
            let trims = rounds.trims(&queues);
            assert!(trims[7]);
            assert_eq!(trims.iter().filter(|due| **due).count(), IDLE_TRIMMED + 1);
            counts.iter_mut().zip(trims).for_each(|(count, due)| *count += u32::from(due));
        }
        counts.remove(7);
        assert!(counts.iter().all(|count| *count == 5), "{counts:?}");
    }
}
