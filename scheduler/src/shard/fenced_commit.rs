//! Fencing: the store accepts a commit only under the token of the shard's owner.

use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{BrokerError, Commit, Committed, RedisRefusal};
use goalmill_common::json::Json;
use tokio::time::Instant;

use super::shard_loop::LoopEnd;
use crate::quarantine;
use crate::scheduler::Scheduler;

/// How often a commit whose reply is lost is sent again; it is idempotent.
const RESENDS_MAX: u32 = 3;

/// Wait before a commit is sent again that was refused because no replica follows the primary.
const REPLICA_WAIT: Duration = Duration::from_millis(50);

/// Whether a write was refused, or is not confirmed, because no replica follows the primary at the moment. The server and
/// this connection to it are sound, so the shard is not lost: the same commit is sent again.
pub(super) fn lacks_replica(error: &BrokerError) -> bool {
    matches!(error, BrokerError::Refused { reason: RedisRefusal::NoReplicas, .. })
}

/// Histograms of commits, in seconds.
#[derive(Clone)]
pub(super) struct CommitMetrics {
    commit: metrics::Histogram,
    /// From a report to the tasks of the commit that handles it.
    unlock: metrics::Histogram,
}

impl CommitMetrics {
    pub(super) fn new() -> Self {
        Self {
            commit: metrics::histogram!("goalmill_commit_seconds"),
            unlock: metrics::histogram!("goalmill_step_unlock_seconds"),
        }
    }
}

/// How often a write has been repeated, and until when it may be repeated for want of a replica.
struct Repeats {
    resends: u32,
    until: Instant,
}

impl Repeats {
    /// Waits if the write is to be sent again; gives the error back if not.
    async fn wait(&mut self, error: BrokerError) -> Result<(), BrokerError> {
        // No other scheduler can take the shard meanwhile, because that is a write, too.
        if lacks_replica(&error) && Instant::now() < self.until {
            tokio::time::sleep(REPLICA_WAIT).await;
            return Ok(());
        }
        if error.is_temporary() && self.resends < RESENDS_MAX {
            self.resends += 1;
            return Ok(());
        }
        Err(error)
    }
}

/// Stores inputs for their record, for the longest lifetime of a plan. Storing them again changes nothing.
async fn store_inputs(scheduler: &Scheduler, key: &str, inputs: &Json, repeats: &mut Repeats) -> Result<(), LoopEnd> {
    let kept_ms = scheduler.settings.limits.plan_ms_max.max(scheduler.settings.scheduler.retention_ms);
    while let Err(error) = scheduler.broker.put_blob(key, inputs.text().as_bytes(), kept_ms).await {
        repeats.wait(error).await?;
    }
    Ok(())
}

/// Writes a commit, after the inputs that it refers to. An owner that was fenced off has lost its shard.
pub(super) async fn write_commit(
    scheduler: Arc<Scheduler>,
    metrics: CommitMetrics,
    commit: Commit,
    inputs: Vec<(String, Json)>,
) -> Result<(), LoopEnd> {
    let lease = Duration::from_millis(scheduler.settings.scheduler.shard_lease_ms);
    let mut repeats = Repeats { resends: 0, until: Instant::now() + lease };
    for (key, inputs) in inputs {
        store_inputs(&scheduler, &key, &inputs, &mut repeats).await?;
    }
    let begun = Instant::now();
    loop {
        match scheduler.broker.commit(&commit).await {
            Ok(Committed::Applied | Committed::Duplicate) => {
                metrics.commit.record(begun.elapsed());
                if let Some(cursor) = &commit.cursor
                    && !commit.tasks.is_empty()
                {
                    let waited_ms = scheduler.clock.now_ms().saturating_sub(cursor.parts().0);
                    metrics.unlock.record(Duration::from_millis(waited_ms));
                }
                return Ok(());
            }
            Ok(Committed::Fenced) => {
                return Err(LoopEnd::Lost("another scheduler has taken it, a commit was fenced".into()));
            }
            Ok(Committed::Gap(what)) => {
                return Err(LoopEnd::Lost(format!("COMMIT_GAP: the commit does not follow the log: {what}")));
            }
            Err(error) => {
                if let Err(error) = repeats.wait(error).await {
                    quarantine::isolate_failed_commit(&scheduler, &commit, &error);
                    return Err(LoopEnd::Lost(error.to_string()));
                }
            }
        }
    }
}
