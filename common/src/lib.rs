//! What the scheduler and the workers say to each other.
//!
//! No I/O and no async here: words (ids, goals, plans, steps, statuses), messages (submissions, tasks,
//! reports, events), where they live (keys), and the small pure functions both sides must agree on.

pub mod id;
pub mod json;
pub mod limits;
pub mod status;
pub mod failure;
pub mod goal;
pub mod plan;
pub mod task;
pub mod report;
pub mod event;
pub mod agent;
pub mod command;
pub mod problem;
pub mod wire;
pub mod view;
pub mod keys;
pub mod backoff;
pub mod clock;
pub mod random;
pub mod config;
pub mod schema;
pub mod telemetry;
