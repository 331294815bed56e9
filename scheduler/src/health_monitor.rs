//! Broker health: the last check and the last write probe, shared by all parts of a scheduler.

use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use goalmill_broker::{Broker, BrokerError, Health};
use goalmill_common::problem::{ErrorCode, Problem};
use tokio::time::Instant;

/// Interval between checks.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// OwnershipStatus of the memory limit above which nothing new is taken.
const MEMORY_USED_MAX: f64 = 0.8;

/// The latest results.
#[derive(Debug, Default)]
pub(crate) struct HealthMonitor {
    check: RwLock<Option<Result<Health, BrokerError>>>,
    /// Time and result of the last write probe.
    probe: Mutex<Option<(Instant, Result<(), BrokerError>)>>,
}

impl HealthMonitor {
    /// Whether new plans may be accepted; running plans continue in any case.
    pub(crate) fn check_admission(&self) -> Result<(), Problem> {
        match self.check.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(Err(error)) => Err(error.into()),
            Some(Ok(health)) if health.memory_used > MEMORY_USED_MAX => {
                Err(Problem::new(ErrorCode::MemoryPressure, "redis is short of memory; running plans go on"))
            }
            Some(Ok(_)) | None => self.check_writes(),
        }
    }

    /// Whether the server refused the last probe as a whole. A key of a wrong type concerns some plans only.
    fn check_writes(&self) -> Result<(), Problem> {
        match self.probe.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some((_, Err(error))) if !matches!(error, BrokerError::WrongType(_)) => Err(error.into()),
            Some(_) | None => Ok(()),
        }
    }

    /// Probes whether commits can be written, at most once a second.
    pub(crate) async fn probe(&self, broker: &dyn Broker, shards: u16) -> Result<(), BrokerError> {
        let last = self.probe.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, probed)) = last
            && at.elapsed() < CHECK_INTERVAL
        {
            return probed;
        }
        let probed = broker.probe(shards).await;
        *self.probe.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), probed.clone()));
        probed
    }

    /// The error of the last check, if it failed.
    pub(crate) fn last_error(&self) -> Result<(), BrokerError> {
        match self.check.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(Err(error)) => Err(error.clone()),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Stores the result of a check.
    pub(crate) fn store_check(&self, check: Result<Health, BrokerError>) {
        *self.check.write().unwrap_or_else(PoisonError::into_inner) = Some(check);
    }
}
