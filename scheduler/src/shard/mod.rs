//! Shards. Each has a share of all plans, one inbox, one owner and one loop, whose part without I/O is `goalmill-shard`.

mod counts;
mod event_counters;
mod event_waits;
mod fenced_commit;
mod inbox_reader;
mod loop_inputs;
mod membership;
mod outbox;
mod ownership_status;
mod presence;
mod recover;
mod shard_handle;
mod shard_loop;
pub(crate) mod suspect_trial;
mod takeover;
mod written_events;

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use goalmill_common::id::ShardId;
use goalmill_shard::{Reply, ShardMessage};
use tokio::sync::{mpsc, oneshot};

use counts::CountsByShard;
use ownership_status::OwnershipStatus;
use suspect_trial::Trial;

use crate::watchdog::Decisions;

pub(crate) use membership::Membership;
pub(crate) use presence::Presence;
pub(crate) use shard_handle::ShardHandle;

/// A reply that arrives at the receiver; an error there means that none comes.
pub(crate) fn reply_channel<T: Send + 'static>() -> (Reply<T>, oneshot::Receiver<T>) {
    let (sender, receiver) = oneshot::channel();
    // Who waits may be gone.
    (Reply::new(move |answer| drop(sender.send(answer))), receiver)
}

/// The shards that this process owns, and what their loops share.
#[derive(Default)]
pub(crate) struct OwnedShards {
    loops: RwLock<BTreeMap<ShardId, mpsc::Sender<ShardMessage>>>,
    pub(crate) ownership: OwnershipStatus,
    /// Plans and steps by shard, for metrics and autoscaling.
    pub(crate) counts: CountsByShard,
    /// The decision that each loop is computing, for the watchdog.
    pub(crate) decisions: Decisions,
    /// How a suspected plan is tried; `None` if it cannot be.
    trial: Option<Trial>,
    /// The format of the logs that the loops write.
    log_format: u32,
}

impl OwnedShards {
    pub(crate) fn new(trial: Option<Trial>, log_format: u32) -> Self {
        Self { trial, log_format, ..Self::default() }
    }

    /// The loop of `shard`, if this process owns it.
    pub(crate) fn get(&self, shard: ShardId) -> Option<mpsc::Sender<ShardMessage>> {
        self.loops.read().unwrap_or_else(PoisonError::into_inner).get(&shard).cloned()
    }

    /// The shards owned here.
    pub(crate) fn ids(&self) -> Vec<ShardId> {
        self.loops.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    fn insert(&self, shard: ShardId, sender: mpsc::Sender<ShardMessage>) {
        self.loops.write().unwrap_or_else(PoisonError::into_inner).insert(shard, sender);
    }

    fn remove(&self, shard: ShardId) {
        self.loops.write().unwrap_or_else(PoisonError::into_inner).remove(&shard);
    }
}
