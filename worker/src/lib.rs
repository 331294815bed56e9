//! Pulls tasks by agent type, runs executors, reports.
//!
//! ```text
//! stream ─▶ pull ─▶ table (leases) ─▶ run ─▶ executor
//!                     │  ▲                      │
//!             lease ──┘  └── cancel             └─▶ report ─▶ {s<n>}:reports
//! ```
//!
//! One loop each pulls, reports, keeps the leases, listens for cancelled attempts, flushes progress and shows
//! life. They meet in `worker.rs` only. A task's own life is `run.rs`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use goalmill_broker::{Broker, BrokerError};
use goalmill_common::clock::Clock;
use goalmill_common::config::WorkerSettings;
use goalmill_common::id::{AgentType, WorkerId};
use goalmill_common::limits::Limits;
use goalmill_common::random::Random;

pub mod executor;

mod beat;
mod cancel;
mod drain;
mod flush;
mod lease;
mod link;
mod meter;
mod payload;
mod pull;
mod report;
mod run;
mod serve;
mod table;
mod worker;

use worker::Worker;

/// What a worker is made of.
pub struct Options {
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
pub enum StartError {
    #[error("agent type `{agent_type}`: {reason}")]
    Executor { agent_type: AgentType, reason: String },
    #[error("the worker serves no agent type: name some with `--agents`, `--demo` or in the settings")]
    NoAgents,
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: String, reason: String },
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

/// A running worker; dropping it ends its loops without handing anything back.
pub struct Running {
    worker: Arc<Worker>,
    address: Option<SocketAddr>,
}

/// Starts a worker; it waits for Redis by itself.
///
/// Returns once the executors are built and the port is bound. Redis may come later: until then `/readyz`
/// says so, and the worker keeps trying.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let listener = serve::bind(&options.settings.listen).await?;
    let address = listener.as_ref().and_then(|l| l.local_addr().ok());
    let recorder = listener.as_ref().and_then(|_| goalmill_common::telemetry::metrics());
    let (worker, outgoing) = Worker::new(options)?;
    let worker = Arc::new(worker);
    worker.loops.spawn(beat::beat(worker.clone()));
    worker.loops.spawn(cancel::listen(worker.clone()));
    worker.loops.spawn(lease::keep(worker.clone()));
    worker.loops.spawn(flush::flush(worker.clone()));
    worker.loops.spawn(report::report(worker.clone(), outgoing));
    worker.pulling.spawn(pull::pull(worker.clone()));
    worker.pulling.close();
    if let Some(listener) = listener {
        worker.loops.spawn(serve::serve(worker.clone(), listener, recorder));
    }
    Ok(Running { worker, address })
}

impl Running {
    pub fn id(&self) -> &WorkerId {
        &self.worker.id
    }

    /// Where `/livez`, `/readyz` and `/metrics` are served, if they are.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Takes nothing new, finishes what runs within `drain_ms`, hands back the rest.
    ///
    /// Returns when everything has ended; dropping the future ends nothing.
    pub async fn drain(&self) {
        drain::begin(&self.worker);
        self.worker.ended.cancelled().await;
    }

    /// Waits until the worker drains, for whatever reason: it may be asked to from afar.
    pub async fn draining(&self) {
        self.worker.draining.cancelled().await;
    }

    /// Hands back everything at once. A `drain` that is under way ends too.
    pub async fn hand_back(&self) {
        self.worker.hurry.cancel();
        self.drain().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.worker.draining.cancel();
        self.worker.stop.cancel();
    }
}
