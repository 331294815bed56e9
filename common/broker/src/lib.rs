//! The only package that speaks Redis, and its embedded twin: the same verbs, the same answers.
//!
//! Everything above works on `Arc<dyn Broker>` and cannot tell the back ends apart.

mod commit;
mod error;
mod verbs;

pub mod embedded;
pub mod redis;

pub use commit::{Activity, Commit, Committed, PlanWrite, TaskWrite};
pub use error::{BrokerError, Misfit};
pub use verbs::{
    Broker, Claim, DeadLetter, Delivery, Entry, Health, Install, LogEntry, Message, Meta, Ownership, QueueState,
    Reader, RefusedCard, Registry, Waker,
};
