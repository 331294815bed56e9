//! The I/O half of the brain: API, planners, router, shards, effects.

use std::net::SocketAddr;
use std::sync::Arc;

use goalmill_broker::{Broker, BrokerError};
use goalmill_common::clock::Clock;
use goalmill_common::config::Settings;
use goalmill_common::random::Random;

pub mod planner;
pub mod router;

/// What a scheduler is made of.
pub struct Options {
    pub settings: Settings,
    pub broker: Arc<dyn Broker>,
    pub clock: Clock,
    pub random: Random,
}

/// Why a scheduler cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: String, reason: String },
    #[error("planner `{name}`: {reason}")]
    Planner { name: String, reason: String },
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

/// A running scheduler.
pub struct Running {
    api: SocketAddr,
    metrics: Option<SocketAddr>,
}

/// Starts a scheduler.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let _ = options;
    Err(StartError::Planner { name: "none".into(), reason: "nothing runs yet".into() })
}

impl Running {
    pub fn api(&self) -> SocketAddr {
        self.api
    }

    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Finishes the commits under way, gives the shards up and stops.
    pub async fn stop(self) {}
}
