//! Fencing: the store accepts a commit only under the token of the shard's owner.

use std::sync::Arc;

use goalmill_broker::{BrokerError, Commit, Committed};
use tokio::time::Instant;

use super::shard_loop::LoopEnd;
use crate::quarantine;
use crate::scheduler::Scheduler;

/// How often a commit whose reply is lost is sent again; it is idempotent.
const RESENDS_MAX: u32 = 3;

/// Writes a commit. An owner that was fenced off has lost its shard.
pub(super) async fn write_commit(
    scheduler: Arc<Scheduler>,
    seconds: metrics::Histogram,
    commit: Commit,
) -> Result<(), LoopEnd> {
    let mut resends = 0;
    let begun = Instant::now();
    loop {
        match scheduler.broker.commit(&commit).await {
            Ok(Committed::Applied | Committed::Duplicate) => {
                seconds.record(begun.elapsed());
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
