//! Broker health: the last check and the last write probe, shared by all parts of a scheduler.

use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use goalmill_broker::{Broker, BrokerError, Health};
use goalmill_common::problem::{ErrorCode, Problem};
use tokio::time::Instant;

/// Interval between checks.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Stands for no answer.
const SILENT: &str = "silent";
/// OwnershipStatus of the memory limit above which nothing new is taken.
const MEMORY_USED_MAX: f64 = 0.8;

/// The latest results.
#[derive(Debug, Default)]
pub(crate) struct HealthMonitor {
    check: RwLock<Option<Result<Health, BrokerError>>>,
    /// Time and result of the last write probe.
    probe: Mutex<Option<(Instant, Result<(), BrokerError>)>>,
    /// What was logged last; `None` while all is well.
    logged: Mutex<Option<&'static str>>,
    /// Why finished plans cannot be archived now.
    archive: Mutex<Option<String>>,
}

impl HealthMonitor {
    /// Notes whether the archive can be written.
    pub(crate) fn set_archive(&self, trouble: Option<String>) {
        *self.archive.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// The warning that the archive cannot be written.
    pub(crate) fn archive_warning(&self) -> Option<String> {
        let trouble = self.archive.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(format!(
            "finished plans cannot be archived, and are kept in the store until then: {trouble}; check the server of the \
             archive, and `archive` in the settings"
        ))
    }

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

    /// Logs what is wrong with Redis, once for each change of the reason. Returns whether it changed.
    pub(crate) fn log_change(&self, trouble: Option<&BrokerError>) -> bool {
        let reason = trouble.map(|error| error.reason().unwrap_or(SILENT));
        let before = std::mem::replace(&mut *self.logged.lock().unwrap_or_else(PoisonError::into_inner), reason);
        if before == reason {
            return false;
        }
        match trouble {
            None => tracing::info!("redis is well again"),
            Some(error) => {
                let code = Problem::from(error).code.as_str();
                tracing::error!(code, "{code}: {error}");
            }
        }
        true
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_what_is_wrong_with_redis_is_logged_once() {
        let monitor = HealthMonitor::default();
        let lost = BrokerError::DataLost("the installation `a` is gone".into());
        let silent = BrokerError::Unavailable("timed out".into());
        let told = [None, Some(&lost), Some(&lost), Some(&silent), Some(&lost), None, None];
        let logged = told.map(|trouble| monitor.log_change(trouble));
        assert_eq!(logged, [false, true, false, true, true, true, false]);
    }
}
