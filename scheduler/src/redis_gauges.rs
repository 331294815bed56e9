//! Gauges of the store: whether Redis answers, and why it refuses.

use goalmill_broker::BrokerError;
use metrics::gauge;

/// Whether Redis answers, and why it refuses.
pub(crate) fn set_redis(trouble: Option<&BrokerError>) {
    let is_up = trouble.is_none_or(BrokerError::is_answer);
    gauge!("goalmill_redis_up").set(f64::from(u8::from(is_up)));
    let current = trouble.and_then(BrokerError::reason);
    for reason in BrokerError::reasons() {
        gauge!("goalmill_redis_refusing", "reason" => reason).set(f64::from(u8::from(current == Some(reason))));
    }
}
