//! Shares the counts of namespaces with other schedulers.

use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{Broker, BrokerError};
use tokio_util::sync::CancellationToken;

use super::NamespaceLimits;
use super::use_counts::{DAY_MS, PublishedUse};

/// Interval of publishing and reading counts.
const SHARE: Duration = Duration::from_secs(1);
/// Unchanged counts are published again after this time, in milliseconds.
const UNCHANGED_MS: u64 = 5_000;

/// Shares the counts with other schedulers until stopped.
///
/// - `id`: that of this scheduler.
pub(crate) async fn share(broker: Arc<dyn Broker>, id: String, limits: Arc<NamespaceLimits>, stop: CancellationToken) {
    let mut published = None;
    loop {
        if let Err(error) = share_once(broker.as_ref(), &id, &limits, &mut published).await {
            tracing::debug!("the use of namespaces could not be shared: {error}");
        }
        if stop.is_cancelled() {
            return;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = tokio::time::sleep(SHARE) => {}
        }
    }
}

async fn share_once(
    broker: &dyn Broker,
    own_id: &str,
    limits: &NamespaceLimits,
    last: &mut Option<PublishedUse>,
) -> Result<(), BrokerError> {
    let key = broker.keys().namespace_use();
    let now_ms = limits.clock.now_ms();
    let mut others = Vec::new();
    for (id, text) in broker.fields(&key).await? {
        let published: PublishedUse = serde_json::from_str(&text).unwrap_or_default();
        if id == own_id {
            if last.is_none() {
                limits.resume(published, now_ms);
            }
        } else if published.at_ms.saturating_add(DAY_MS) < now_ms {
            broker.remove_field(&key, &id).await?;
        } else {
            others.push(published);
        }
    }
    limits.set_others(others.into_iter(), now_ms);
    limits.set_gauges();
    let own = limits.publish(now_ms);
    let is_same = |last: &PublishedUse| last.namespaces == own.namespaces && own.at_ms < last.at_ms + UNCHANGED_MS;
    if !last.as_ref().is_some_and(is_same) {
        let text = serde_json::to_string(&own).expect("counts always have a JSON text");
        broker.put_field(&key, own_id, &text).await?;
        *last = Some(own);
    }
    Ok(())
}
