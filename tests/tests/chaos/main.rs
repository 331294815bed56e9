//! Real processes killed, held and cut off: no finished step is lost, none applied twice, every plan ends.
//!
//! Sizes: `GOALMILL_CHAOS_SEEDS` (seeds of the kill tests, 6 unless told), `GOALMILL_CHAOS_SEED` (only this one),
//! `GOALMILL_CHAOS_FAILOVERS` (planned failovers, 1 unless told), `GOALMILL_CHAOS_REDIS_KILLS` (kills of Redis under large
//! payloads, 2 unless told), `GOALMILL_CHAOS_WAITS` (plans of the event storm, 100 unless told; ten events for each),
//! `GOALMILL_DATA` (a directory with `wfinstances/*.json`, WfFormat traces to run besides the made ones).

mod archive;
mod at_rest;
mod call_plans;
mod calls;
mod drain;
mod event_storm;
mod failover;
mod failovers;
mod hostile;
mod kill_points;
mod kills;
mod large_payloads;
mod losses;
mod network;
mod poison;
mod protocol;
mod saga;
mod stages;
mod suspended;
mod takeover;
mod upgrade;
mod workflows;

use std::sync::LazyLock;

use tokio::sync::{Mutex, MutexGuard};

/// One installation at a time: each is half a dozen processes, and a busy machine makes leases run out.
static MACHINE: LazyLock<Mutex<()>> = LazyLock::new(Mutex::default);

async fn machine() -> MutexGuard<'static, ()> {
    MACHINE.lock().await
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    goalmill_common::config::environment(name).and_then(|text| text.parse().ok())
}
