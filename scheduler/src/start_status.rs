//! What a start waits for, and the wait itself.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use goalmill_broker::BrokerError;
use goalmill_common::problem::{ErrorCode, Problem};
use metrics::gauge;
use tokio::time::Instant;

/// Wait between two tries to reach the store. It does not grow: a scheduler is to be ready within 2 s of its store.
const RETRY: Duration = Duration::from_millis(500);
/// The log repeats an unchanged reason after this time.
const REPEAT: Duration = Duration::from_mins(1);

/// What a start waits for; [`crate::api::StartingApi`] answers with it.
#[derive(Clone, Debug)]
pub(crate) struct StartStatus(Arc<RwLock<Problem>>);

impl Default for StartStatus {
    fn default() -> Self {
        let detail = "the scheduler starts, and has had no answer from redis yet";
        Self(Arc::new(RwLock::new(Problem::new(ErrorCode::NotReady, detail))))
    }
}

impl StartStatus {
    pub(crate) fn problem(&self) -> Problem {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tries until the store answers.
    ///
    /// # Errors
    ///
    /// What does not pass by itself: a store that cannot be used as it is set up.
    pub(crate) async fn wait_for_store<T>(
        &self,
        mut ask: impl AsyncFnMut() -> Result<T, BrokerError>,
    ) -> Result<T, BrokerError> {
        let mut told: Option<(String, Instant)> = None;
        loop {
            let error = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) if passes(&error) => error,
                Err(error) => return Err(error),
            };
            gauge!("goalmill_redis_up").set(0.0);
            let why = error.to_string();
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = error.into();
            if told.as_ref().is_none_or(|(last, at)| *last != why || at.elapsed() > REPEAT) {
                tracing::warn!("the start waits: {why}");
                told = Some((why, Instant::now()));
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Whether the store may answer later, without a change of the settings of Goalmill.
fn passes(error: &BrokerError) -> bool {
    match error {
        BrokerError::Unavailable(_) | BrokerError::OutOfMemory => true,
        BrokerError::DataLost(_)
        | BrokerError::Unsafe(_)
        | BrokerError::Unsupported(_)
        | BrokerError::InvalidAddress(_)
        | BrokerError::WrongType(_)
        | BrokerError::Corrupt(_)
        | BrokerError::Archive(_) => false,
    }
}
