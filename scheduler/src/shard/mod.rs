//! Shards: a share of all plans each, with one inbox, one owner, one loop.

mod active_plan;
mod counts;
mod event_counters;
mod fenced_commit;
mod inbox_reader;
mod membership;
mod outbox;
mod ownership;
mod presence;
mod quota;
mod ready;
mod recently_finished;
mod recover;
mod shard_handle;
mod shard_loop;
mod state;
mod takeover;
mod task_scan;
mod timers;
pub(crate) mod trial;
mod turn;
mod turns;

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use goalmill_common::command::Request;
use goalmill_common::id::{EntryId, PlanId, ShardId};
use goalmill_common::problem::Problem;
use goalmill_common::status::PlanStatus;
use goalmill_engine::{Command, Rejection};
use tokio::sync::{mpsc, oneshot};

use counts::CountsByShard;
use ownership::OwnershipStatus;
use trial::Trial;

use crate::watchdog::Decisions;

pub(crate) use membership::Membership;
pub(crate) use presence::Presence;
pub(crate) use recently_finished::StatusSnapshot;
pub(crate) use state::ShardState;
pub(crate) use task_scan::{Scan, Suspects, TaskHead, TaskOnStream};

/// A plan's place in its owner's memory; never reused.
pub(crate) type Slot = u64;

/// What became of a request: the plan and its status, or why not.
pub(crate) type RequestResult = Result<(PlanId, PlanStatus), Problem>;

/// Something for a shard's loop from within this process.
#[derive(Debug)]
pub(crate) enum ShardMessage {
    /// From a client, or from the submissions stream.
    Request {
        request: Box<Request>,
        reply: Option<oneshot::Sender<RequestResult>>,
        /// The submission's entry, to be acknowledged once the plan is recorded.
        entry: Option<EntryId>,
        /// What the store says of the plan that is to begin, if it was asked already.
        snapshot: Option<StatusSnapshot>,
    },
    /// An effect's answer; `reply` is told whether it was taken.
    Command {
        plan: PlanId,
        command: Box<Command>,
        /// Which of the times that planners were asked for a revision it answers.
        request: Option<u32>,
        reply: Option<oneshot::Sender<Result<(), Rejection>>>,
    },
    /// Asks which queues are worth a scan; answered once all that was decided before is written.
    AskSuspects(oneshot::Sender<Suspects>),
    /// What a task stream holds.
    Reconcile(Box<Scan>),
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
}

impl OwnedShards {
    pub(crate) fn new(trial: Option<Trial>) -> Self {
        Self { trial, ..Self::default() }
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
