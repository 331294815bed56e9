//! The shell around the engine: API, intake, shards, effects, hooks.
//!
//! [`start`] runs one scheduler. Several schedulers on one store find each other and share the shards.

mod agent_directory;
mod api;
mod app;
mod archiver;
mod busy_poll;
mod dead_letter_counter;
mod effects;
mod event_delivery;
mod event_log;
mod event_stream;
mod execution_stats;
mod gauges;
mod goal_streams;
mod health_monitor;
mod hooks;
mod inbox_poll;
mod intake;
mod loops;
mod namespace_limits;
mod payload_cache;
mod plan_reader;
mod planning_steps;
mod quality;
mod quarantine;
mod reaper;
mod reconcile;
mod redis_gauges;
mod run_blocking;
mod scaling;
mod scheduler;
mod shard;
mod shard_client;
mod start_status;
mod stored_plans;
mod submission;
mod token_secret;
#[cfg_attr(not(feature = "otel"), path = "traces_disabled.rs")]
mod traces;
mod unused_agent_types;
mod watchdog;

pub use app::{Extras, RunningScheduler, SchedulerOptions, SchedulerStartError, check_settings, start, start_with};
pub use hooks::{DecisionTerms, Hook, HookCall, HookError, Point, Ruling};
pub use shard::suspect_trial::{Trial, run_trial};
pub use traces::{Exporter, ExporterError};
pub use watchdog::Connect;
