//! The wait of a start for its dependencies, and its status.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goalmill_broker::BrokerError;
use goalmill_common::problem::{ErrorCode, Problem};
use tokio::time::Instant;

use crate::redis_gauges::set_redis;

/// Wait between two tries to reach the store. It does not grow: a scheduler is to be ready within 2 s of its store.
const RETRY: Duration = Duration::from_millis(500);
/// The log repeats an unchanged reason after this time.
const REPEAT: Duration = Duration::from_mins(1);

/// What a start waits for; [`crate::api::StartingApi`] answers with it.
#[derive(Clone, Debug)]
pub(crate) struct StartStatus(Arc<Mutex<StartWait>>);

#[derive(Debug)]
struct StartWait {
    waits_for: Problem,
    /// When the log said so.
    logged_at: Option<Instant>,
}

impl Default for StartStatus {
    fn default() -> Self {
        let detail = "the scheduler starts, and has had no answer from redis yet";
        let waits_for = Problem::new(ErrorCode::NotReady, detail);
        Self(Arc::new(Mutex::new(StartWait { waits_for, logged_at: None })))
    }
}

impl StartStatus {
    pub(crate) fn problem(&self) -> Problem {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).waits_for.clone()
    }

    /// Waits before the store is asked again.
    ///
    /// # Errors
    ///
    /// The error itself, if it does not pass: the store cannot be used as it is set up.
    pub(crate) async fn wait_after(&self, error: BrokerError) -> Result<(), BrokerError> {
        if !error.is_temporary() && !matches!(error, BrokerError::OutOfMemory) {
            return Err(error);
        }
        set_redis(Some(&error));
        self.report_wait(error.into());
        tokio::time::sleep(RETRY).await;
        Ok(())
    }

    /// Keeps the reason; logs a new one, and an old one from time to time.
    fn report_wait(&self, waits_for: Problem) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = waiting.waits_for.detail == waits_for.detail;
        if !is_old || waiting.logged_at.is_none_or(|at| at.elapsed() > REPEAT) {
            tracing::warn!("the start waits: {}", waits_for.detail);
            waiting.logged_at = Some(Instant::now());
        }
        waiting.waits_for = waits_for;
    }
}
