//! The shell around the engine: API, intake, shards, effects, hooks.
//!
//! `start` runs one scheduler. Run as many as you like: they find each other and share the shards.

mod admit;
mod api;
mod app;
mod ask;
mod directory;
mod effects;
mod gauges;
mod heavy;
mod intake;
mod janitor;
mod journal;
mod outage;
mod outcomes;
mod pulse;
mod quarantine;
mod reconcile;
mod scaling;
mod shard;
mod site;
mod spin;
mod traces;
mod unused;

pub mod hooks;
pub mod trial;
pub mod watchdog;

pub use app::{Extras, Options, Running, StartError, start, start_with};
pub use traces::{Exporter, ExporterError};
