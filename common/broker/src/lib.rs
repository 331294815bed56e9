//! The broker interface and its two back ends: Redis (no other package speaks Redis), and an embedded one.
//!
//! All other packages work on `Arc<dyn Broker>` and cannot tell the back ends apart.

mod commit;
mod error;
mod inbox;
mod park_mark;
mod refusal;
mod store_clock;
mod values;
mod verbs;

pub mod embedded;
pub mod redis;

pub use commit::{Activity, Commit, Committed, PlanWrite, RefusedEntry, StreamResult, TaskWrite};
pub use error::{BrokerError, KeyTypeMismatch};
pub use inbox::{InboxCursor, InboxEntry};
pub use park_mark::ParkMark;
pub use refusal::RedisRefusal;
pub use store_clock::StoreClock;
pub use values::{
    Broadcast, Claim, DeadLetter, Delivery, Entry, FieldsPage, Health, Install, Keeping, KeptEvent, KeptHead,
    LiveSchedulers, LogEntry, Meta, Ownership, QueueState, RefusedCard, Registry,
};
pub use verbs::{Broker, Reader, Waker};
