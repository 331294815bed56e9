//! What the scheduler and the workers say to each other.
//!
//! No I/O and no async here: words (ids, goals, plans, steps, statuses), messages (submissions, tasks,
//! reports, events), where they live (keys), and the small pure functions both sides must agree on.

#![warn(missing_docs)]

pub mod agent;
pub mod aside;
pub mod backoff;
pub mod card;
pub mod clock;
pub mod command;
pub mod config;
pub mod event;
pub mod failure;
pub mod foreign;
pub mod goal;
pub mod hash;
pub mod id;
pub mod json;
pub mod keys;
pub mod limits;
pub mod load;
pub mod metric;
pub mod plan;
pub mod problem;
pub mod random;
pub mod report;
pub mod revision;
pub mod schema;
pub mod sse;
pub mod status;
pub mod task;
pub mod telemetry;
pub mod text;
pub mod trace;
pub mod trust;
pub mod view;
pub mod wire;
mod words;
