//! The turns in which the owner of shard 0 takes entries from streams that other programs write.

use std::time::Duration;

use goalmill_common::id::ShardId;

use crate::scheduler::Scheduler;
use crate::shard::OwnedShards;

/// Entries of a stream that are taken in one call: one stream does not delay the others for long.
pub(crate) const BATCH: usize = 100;
/// Interval of looking at the streams.
const INTERVAL: Duration = Duration::from_millis(200);

/// Turns that follow immediately while entries are left, and after an interval otherwise.
pub(crate) struct InboxPoll<'a> {
    scheduler: &'a Scheduler,
    shards: &'a OwnedShards,
    is_left: bool,
    is_failing: bool,
}

impl<'a> InboxPoll<'a> {
    /// Has its first turn after an interval.
    pub(crate) fn new(scheduler: &'a Scheduler, shards: &'a OwnedShards) -> Self {
        InboxPoll { scheduler, shards, is_left: false, is_failing: false }
    }

    /// Waits for the next turn of the owner of shard 0; `false` when the scheduler stops.
    pub(crate) async fn next_turn(&mut self) -> bool {
        loop {
            if !std::mem::take(&mut self.is_left) {
                tokio::select! {
                    biased;
                    () = self.scheduler.stop.cancelled() => {}
                    () = tokio::time::sleep(INTERVAL) => {}
                }
            }
            if self.scheduler.stop.is_cancelled() {
                return false;
            }
            if self.shards.get(ShardId(0)).is_some() {
                return true;
            }
        }
    }

    /// Takes note of how many entries a turn took, or what cannot be read and why. A failure is logged once, until it
    /// is over.
    pub(crate) fn end_turn(&mut self, taken: Result<usize, String>) {
        match taken {
            Ok(taken) => (self.is_left, self.is_failing) = (taken >= BATCH, false),
            Err(reason) => {
                if !self.is_failing {
                    tracing::warn!("{reason}");
                }
                self.is_failing = true;
            }
        }
    }
}
