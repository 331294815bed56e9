//! Shards. Each has a share of all plans, one inbox, one owner and one loop.

mod active_plan;
mod counts;
mod event_counters;
mod event_waits;
mod fenced_commit;
mod ignored_entries;
mod inbox_reader;
mod loop_inputs;
mod membership;
mod outbox;
mod ownership;
mod parked_plans;
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
use goalmill_common::view::WaitView;
use goalmill_engine::{Command, Rejection};
use tokio::sync::{mpsc, oneshot};

use counts::CountsByShard;
use ownership::OwnershipStatus;
use trial::Trial;

use crate::watchdog::Decisions;

pub(crate) use membership::Membership;
pub(crate) use presence::Presence;
pub(crate) use recently_finished::{BegunPlan, StatusSnapshot};
pub(crate) use shard_handle::ShardHandle;
pub(crate) use state::{ShardState, UnreadPlan};
pub(crate) use task_scan::{Scan, Suspects, TaskHead, TaskOnStream};

/// The key of a plan in its owner's memory; never reused.
pub(crate) type Slot = u64;

/// The result of a request: the plan and its status, or a problem.
pub(crate) type RequestResult = Result<(PlanId, PlanStatus), Problem>;

/// What a loop gives back: the result of a request, or the request itself if the loop ended before it handled it.
pub(crate) type RequestReply = Result<RequestResult, Box<Request>>;

/// A message to a shard's loop from the same process.
#[derive(Debug)]
pub(crate) enum ShardMessage {
    /// A request of a client or a submission of the stream.
    Request {
        request: Box<Request>,
        reply: Option<oneshot::Sender<RequestReply>>,
        /// The entry of the submission, acknowledged once the plan is stored.
        entry: Option<EntryId>,
        /// The status of the plan in the store, if it was read already.
        snapshot: Option<StatusSnapshot>,
    },
    /// The answer of an effect; `reply` gets whether it was accepted.
    Command {
        plan: PlanId,
        command: Box<Command>,
        /// The number of the revision request that it answers.
        request: Option<u32>,
        reply: Option<oneshot::Sender<Result<(), Rejection>>>,
    },
    /// The wait of a step of this plan is registered, and the events that were kept for it are sent.
    WaitRegistered(PlanId),
    /// Asks about a wait for an event.
    AskWait(Box<WaitQuestion>),
    /// Asks which queues need a scan; answered once all earlier decisions are written.
    AskSuspects(oneshot::Sender<Suspects>),
    /// The result of a scan.
    Reconcile(Box<Scan>),
}

/// A question about a wait for an event.
#[derive(Debug)]
pub(crate) struct WaitQuestion {
    pub(crate) wait: WaitView,
    /// Of events.
    pub(crate) ids: Vec<String>,
    pub(crate) reply: oneshot::Sender<WaitState>,
}

/// How it stands with a wait for an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitState {
    /// Whether the step waits for the event.
    pub(crate) step_waits: bool,
    /// Whether any step of the plan does.
    pub(crate) plan_waits: bool,
    /// Those of the events that no plan of the family has.
    pub(crate) unknown_events: Vec<String>,
}

impl ShardMessage {
    /// Gives a request back to its sender, unhandled, who sends it to the next owner.
    fn give_back(self) {
        if let Self::Request { request, reply: Some(reply), .. } = self {
            // Its sender may be gone.
            drop(reply.send(Err(request)));
        }
    }
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
