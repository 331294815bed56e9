//! The broker interface and its two back ends: Redis (no other package speaks Redis), and an embedded one.
//!
//! All other packages work on `Arc<dyn Broker>` and cannot tell the back ends apart.

mod error;
mod inbox;
mod refusal;
mod store_clock;
mod values;
mod verbs;

pub mod embedded;
pub mod redis;

pub use error::{BrokerError, KeyTypeMismatch};
pub use goalmill_common::commit::{Activity, Commit, DeadLetter, PlanWrite, RefusedEntry, StreamResult, TaskWrite};
pub use goalmill_common::park_mark::ParkMark;
pub use inbox::{InboxCursor, InboxEntry};
pub use refusal::RedisRefusal;
pub use store_clock::StoreClock;
pub use values::{
    Broadcast, Claim, Committed, Delivery, Entry, FieldsPage, Health, Install, Keeping, KeptEvent, KeptHead,
    LiveSchedulers, LogEntry, Meta, Ownership, QueueState, RefusedCard, Registry,
};
pub use verbs::{Broker, Reader, Waker};
