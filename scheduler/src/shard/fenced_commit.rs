//! Fencing: the store accepts a commit only under the token of the shard's owner.

use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{BrokerError, Commit, Committed};
use goalmill_common::json::Json;
use tokio::time::Instant;

use super::shard_loop::LoopEnd;
use crate::quarantine;
use crate::scheduler::Scheduler;

/// How often a commit whose reply is lost is sent again; it is idempotent.
const RESENDS_MAX: u32 = 3;

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

/// Stores inputs for their record, for the longest lifetime of a plan. Storing them again changes nothing.
async fn store_inputs(scheduler: &Scheduler, key: &str, inputs: &Json, resends: &mut u32) -> Result<(), LoopEnd> {
    let kept_ms = scheduler.settings.limits.plan_ms_max.max(scheduler.settings.scheduler.retention_ms);
    loop {
        match scheduler.broker.put_blob(key, inputs.text().as_bytes(), kept_ms).await {
            Ok(()) => return Ok(()),
            Err(BrokerError::Unavailable(_)) if *resends < RESENDS_MAX => *resends += 1,
            Err(error) => return Err(LoopEnd::Lost(error.to_string())),
        }
    }
}

/// Writes a commit, after the inputs that it refers to. An owner that was fenced off has lost its shard.
pub(super) async fn write_commit(
    scheduler: Arc<Scheduler>,
    metrics: CommitMetrics,
    commit: Commit,
    inputs: Vec<(String, Json)>,
) -> Result<(), LoopEnd> {
    let mut resends = 0;
    for (key, inputs) in inputs {
        store_inputs(&scheduler, &key, &inputs, &mut resends).await?;
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
            Err(BrokerError::Unavailable(_)) if resends < RESENDS_MAX => resends += 1,
            Err(error) => {
                quarantine::isolate_failed_commit(&scheduler, &commit, &error);
                return Err(LoopEnd::Lost(error.to_string()));
            }
        }
    }
}
