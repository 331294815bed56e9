//! Retention: removes plans from the archive when the time of their namespace is over.
//!
//! One scheduler does it, the owner of shard 0, in small batches, and waits after each one while plans run.

use std::sync::Arc;
use std::time::Duration;

use goalmill_archive::{ArchiveError, ArchiveStore, PlanSelection, PrunedRows};
use goalmill_common::id::{Namespace, ShardId};
use goalmill_common::number::milliseconds;
use metrics::counter;
use tokio::time::Instant;

use super::CommitPause;
use crate::scheduler::Scheduler;
use crate::shard::OwnedShards;

/// Plans removed in one transaction.
const BATCH: usize = 20;
/// Longest time until a scheduler notices that shard 0 is its own.
const LOOK: Duration = Duration::from_secs(10);
/// Longest wait after a failure.
const RETRY_MAX: Duration = Duration::from_mins(5);

/// Removes plans whose time is over.
pub(crate) struct ArchiveRetention {
    scheduler: Arc<Scheduler>,
    shards: Arc<OwnedShards>,
    store: Arc<dyn ArchiveStore>,
    pause: CommitPause,
}

impl ArchiveRetention {
    /// `None` if every plan is kept.
    pub(crate) fn new(
        scheduler: Arc<Scheduler>,
        shards: Arc<OwnedShards>,
        store: Arc<dyn ArchiveStore>,
    ) -> Option<Self> {
        let is_on = scheduler.settings.archive.retention_ms.values().any(|time_ms| *time_ms > 0);
        is_on.then(|| Self { scheduler, shards, store, pause: CommitPause::default() })
    }

    /// Runs until stopped: at the start, and once in each interval.
    pub(crate) async fn run(mut self) {
        let scheduler = self.scheduler.clone();
        let interval = Duration::from_millis(scheduler.settings.archive.retention_interval_ms);
        while let Some(done) = scheduler.stop.run_until_cancelled(self.round()).await {
            let wait = match done {
                Ok(_) if !self.is_mine() => interval.min(LOOK),
                Ok(PrunedRows { plans: 0, .. }) => interval,
                Ok(PrunedRows { plans, events }) => {
                    tracing::info!(
                        "{plans} plans with {events} events are removed from the archive: their time is over"
                    );
                    interval
                }
                Err(error) => {
                    tracing::warn!("plans whose time is over stay in the archive: {error}");
                    interval.min(RETRY_MAX)
                }
            };
            // Schedulers that were started together do not ask together.
            let jitter = Duration::from_millis(scheduler.random.below(milliseconds(wait) / 10 + 1));
            tokio::select! {
                biased;
                () = scheduler.stop.cancelled() => return,
                () = tokio::time::sleep(wait + jitter) => {}
            }
        }
    }

    /// Removes everything whose time is over.
    async fn round(&mut self) -> Result<PrunedRows, ArchiveError> {
        let mut all = PrunedRows::default();
        if !self.is_mine() {
            return Ok(all);
        }
        for namespace in self.store.namespaces().await? {
            let Some(kept_ms) = self.scheduler.settings.archive.retention_of(&namespace) else { continue };
            let PrunedRows { plans, events } = self.prune(namespace, kept_ms).await?;
            all.plans += plans;
            all.events += events;
        }
        Ok(all)
    }

    /// Removes the plans of a namespace that ended longer ago.
    async fn prune(&mut self, namespace: Namespace, kept_ms: u64) -> Result<PrunedRows, ArchiveError> {
        let ended_before_ms = Some(self.scheduler.clock.now_ms().saturating_sub(kept_ms));
        let selection = PlanSelection { namespace: Some(namespace), ended_before_ms };
        let mut all = PrunedRows::default();
        while self.is_mine() {
            let begun = Instant::now();
            let PrunedRows { plans, events } = self.store.prune(&selection, BATCH).await?;
            counter!("goalmill_archive_pruned_plans_total").increment(plans);
            all.plans += plans;
            all.events += events;
            if plans < BATCH as u64 {
                break;
            }
            self.pause.wait(&self.scheduler, begun.elapsed()).await;
        }
        Ok(all)
    }

    fn is_mine(&self) -> bool {
        self.shards.get(ShardId(0)).is_some()
    }
}
