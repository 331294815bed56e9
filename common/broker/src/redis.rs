//! The Redis back end.

use std::sync::Arc;

use goalmill_common::config::RedisSettings;

use crate::{Broker, BrokerError};

/// Prepares connections; nothing is sent before the first verb.
pub async fn connect(settings: &RedisSettings) -> Result<Arc<dyn Broker>, BrokerError> {
    Err(BrokerError::Unavailable(format!("{} has no back end yet", settings.url)))
}
