//! Pulls tasks by agent type, runs executors, sends reports.
//!
//! ```text
//! stream ─▶ pull ─▶ held tasks ─▶ run ─▶ executor
//!                     │  ▲                    │
//!             lease ──┘  └── cancel           └─▶ report ─▶ {s<n>}:reports
//! ```
//!
//! One loop each pulls, sends reports, renews leases, listens for cancellations, reports progress and sends
//! heartbeats. They share the state in `worker.rs`. `run.rs` is the life of one task.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use goalmill_broker::{Broker, BrokerError};
use goalmill_common::clock::Clock;
use goalmill_common::config::WorkerSettings;
use goalmill_common::id::{AgentType, WorkerId};
use goalmill_common::limits::Limits;
use goalmill_common::random::Random;
use goalmill_common::supervisor::Supervisor;

pub mod executor;

mod agent_hold;
mod call_store;
mod cancel;
mod connection;
mod drain;
mod heartbeat;
mod held_tasks;
mod lease;
mod metrics;
mod payload;
mod progress;
mod pull;
mod report;
mod run;
mod serve;
mod worker;

use worker::Worker;

/// Settings and dependencies of a worker.
pub struct WorkerOptions {
    pub settings: WorkerSettings,
    pub limits: Limits,
    pub broker: Arc<dyn Broker>,
    pub clock: Clock,
    pub random: Random,
    /// Executors besides those that `settings.agents` names.
    pub executors: BTreeMap<AgentType, Arc<dyn executor::Executor>>,
    /// Kinds of executors that `settings.agents` may name besides those of this crate.
    pub kinds: executor::Kinds,
}

/// Why a worker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerStartError {
    #[error("agent type `{agent_type}`: {reason}")]
    Executor { agent_type: AgentType, reason: String },
    #[error("the worker serves no agent type: name some with `--agents`, `--demo` or in the settings")]
    NoAgents,
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: String, reason: String },
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

/// A running worker; dropping it ends its loops without releasing its tasks.
pub struct RunningWorker {
    worker: Arc<Worker>,
    address: Option<SocketAddr>,
}

/// Checks all that a start refuses before it waits for the store. It listens nowhere, and calls no agent.
pub fn check(options: WorkerOptions) -> Result<(), WorkerStartError> {
    // Within a runtime, executors would connect to their servers.
    let checked = std::thread::spawn(|| Worker::new(options).map(drop)).join();
    checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Starts a worker.
///
/// Returns once the executors are built and the port is bound. While Redis cannot be reached, `/readyz` gives the
/// reason and the worker retries.
pub async fn start(options: WorkerOptions) -> Result<RunningWorker, WorkerStartError> {
    let listener = serve::bind(&options.settings.listen).await?;
    let address = listener.as_ref().and_then(|l| l.local_addr().ok());
    let recorder = listener.as_ref().and_then(|_| goalmill_common::telemetry::metrics());
    let (worker, outgoing) = Worker::new(options)?;
    let worker = Arc::new(worker);
    worker.spawn_loop("heartbeats", heartbeat::send_heartbeats(worker.clone()));
    worker.spawn_loop("cancellations", cancel::listen_for_cancellations(worker.clone()));
    worker.spawn_loop("leases", lease::renew_leases(worker.clone()));
    worker.spawn_loop("progress", progress::report_progress(worker.clone()));
    worker.spawn_loop("reports", report::send_reports(worker.clone(), outgoing));
    worker.spawn_watched(&worker.pulling, &worker.draining, "pull", pull::pull_tasks(worker.clone()));
    worker.pulling.close();
    if let Some(listener) = listener {
        worker.spawn_loop("health", serve::serve(worker.clone(), listener, recorder));
    }
    Ok(RunningWorker { worker, address })
}

impl RunningWorker {
    pub fn id(&self) -> &WorkerId {
        &self.worker.id
    }

    /// The address of `/livez`, `/readyz` and `/metrics`; `None` when they are not served.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Waits until the store answers and the agent types of the worker are registered.
    pub async fn ready(&self) {
        self.worker.connection.wait_up().await;
    }

    /// Waits until a background loop has ended, which it must not; returns the reason. The worker works no more then,
    /// `/livez` fails, and the process should end.
    pub async fn failed(&self) -> String {
        self.supervisor().failed().await
    }

    /// What watches the background loops.
    pub fn supervisor(&self) -> &Supervisor {
        &self.worker.supervisor
    }

    /// Stops pulling, finishes running tasks within `drain_ms` and releases the rest.
    ///
    /// Returns when everything has ended; dropping the future does not stop the drain.
    pub async fn drain(&self) {
        drain::begin(&self.worker);
        self.worker.ended.cancelled().await;
    }

    /// Waits until the worker drains; a drain may also be requested through Redis.
    pub async fn draining(&self) {
        self.worker.draining.cancelled().await;
    }

    /// Releases all tasks immediately; also ends a `drain` that is in progress.
    pub async fn release_all(&self) {
        self.worker.force.cancel();
        self.drain().await;
    }
}

impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.worker.draining.cancel();
        self.worker.stop.cancel();
    }
}
