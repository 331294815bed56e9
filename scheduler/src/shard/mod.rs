//! Shards: a share of all plans each, with one inbox, one owner, one loop.

mod caution;
mod counters;
mod held;
mod lately;
mod membership;
mod outlet;
mod owned;
mod poison;
mod presence;
mod ready;
mod reconcile;
mod recover;
mod run;
mod share;
mod tally;
mod timers;
mod turn;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use goalmill_common::command::Request;
use goalmill_common::id::{EntryId, PlanId, ShardId};
use goalmill_common::problem::Problem;
use goalmill_common::status::PlanStatus;
use goalmill_engine::{Command, Rejection};
use tokio::sync::{mpsc, oneshot};

pub(crate) use lately::Looked;
pub(crate) use membership::Membership;
pub(crate) use owned::Owned;
pub(crate) use poison::Poison;
pub(crate) use presence::Presence;
pub(crate) use reconcile::{Scan, Suspects, TaskHead, TaskOnStream};
pub(crate) use share::Share;
pub(crate) use tally::Tallies;

/// A plan's place in its owner's memory; never reused.
pub(crate) type Slot = u64;

/// What became of a request: the plan and its status, or why not.
pub(crate) type Verdict = Result<(PlanId, PlanStatus), Problem>;

/// Something for a shard's loop from within this process.
#[derive(Debug)]
pub(crate) enum Local {
    /// From a client, or from the submissions stream.
    Request {
        request: Box<Request>,
        reply: Option<oneshot::Sender<Verdict>>,
        /// The submission's entry, to be acknowledged once the plan is recorded.
        entry: Option<EntryId>,
        /// What the store says of the plan that is to begin, if it was asked already.
        looked: Option<Looked>,
    },
    /// An effect's answer; `reply` is told whether it was taken.
    Command {
        plan: PlanId,
        command: Box<Command>,
        /// Which of the times that planners were asked for a revision it answers.
        asked: Option<u32>,
        reply: Option<oneshot::Sender<Result<(), Rejection>>>,
    },
    /// Asks which queues are worth a scan; answered once all that was decided before is written.
    AskSuspects(oneshot::Sender<Suspects>),
    /// What a task stream holds.
    Reconcile(Box<Scan>),
}

/// The loops that run in this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loops(Arc<RwLock<BTreeMap<ShardId, mpsc::Sender<Local>>>>);

impl Loops {
    /// The loop that owns `shard`, if it is here.
    pub(crate) fn get(&self, shard: ShardId) -> Option<mpsc::Sender<Local>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&shard).cloned()
    }

    /// The shards owned here.
    pub(crate) fn owned(&self) -> Vec<ShardId> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    fn insert(&self, shard: ShardId, sender: mpsc::Sender<Local>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(shard, sender);
    }

    fn remove(&self, shard: ShardId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&shard);
    }
}
