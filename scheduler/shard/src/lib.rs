//! The loop of a shard without I/O: which inputs a turn takes, what it decides, what it writes, what happens afterwards.
//!
//! A driver gives it inputs and runs what comes out: the scheduler with a store, [`VirtualShard`] in virtual time.

mod active_plan;
mod counts;
mod ignored_entries;
mod message;
mod observer;
mod parked_plans;
mod post_commit;
mod quota;
mod ready_set;
mod recently_finished;
mod state;
mod task_scan;
mod timers;
mod turn;
mod turns;
mod virtual_shard;

pub mod stream_answers;

pub use counts::ShardCounts;
pub use message::{
    InboxPlace, LoopInput, Reply, RequestReply, RequestResult, ShardMessage, WaitQuestion, WaitState, plans_of,
};
pub use observer::{NamespaceCounter, ShardObserver};
pub use post_commit::{PostCommit, StoreUpdate};
pub use quota::Quota;
pub use recently_finished::{BegunPlan, StatusSnapshot};
pub use state::{ShardState, UnreadPlan};
pub use task_scan::{Scan, Suspects, TaskHead, TaskOnStream};
pub use turns::{TurnInput, TurnOutput, Turns};
pub use virtual_shard::{PlanningRequest, VirtualShard};

/// The key of a plan in its owner's memory; never reused.
pub type Slot = u64;
