//! Result cache: outputs of steps, for other steps with the same cache key.
//!
//! Without a cached result the step is dispatched, so nothing here is retried.

use std::time::Duration;

use goalmill_common::blob_ref;
use goalmill_common::id::PlanId;
use goalmill_common::json::Json;
use goalmill_engine::{Command, StepIndex};

use crate::scheduler::Scheduler;

/// Longest wait of a step for a lookup.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Looks up the outputs under `key`.
pub(crate) async fn cache_get(scheduler: &Scheduler, plan: &PlanId, step: StepIndex, key: String) -> Command {
    let found = match tokio::time::timeout(WAIT_MAX, scheduler.broker.cache_get(&key)).await {
        Ok(Ok(found)) => found.and_then(|text| Json::from_text(text).ok()),
        Ok(Err(error)) => {
            tracing::debug!(plan_id = %plan, "the result cache cannot be read: {error}");
            None
        }
        Err(_) => None,
    };
    let outcome = if found.is_some() { "hit" } else { "miss" };
    metrics::counter!("goalmill_step_cache_total", "outcome" => outcome).increment(1);
    Command::CacheLookedUp { step, key, outputs: found }
}

/// Stores outputs under `key` for `ttl_ms`.
pub(crate) async fn cache_put(scheduler: &Scheduler, key: String, outputs: Json, ttl_ms: u64) {
    // Offloaded fields are deleted with their plan, before the cached references to them.
    if outputs.text().len() > scheduler.settings.limits.payload_bytes_max || blob_ref::may_contain(&outputs) {
        return;
    }
    if let Err(error) = scheduler.broker.cache_put(&key, outputs.text(), ttl_ms).await {
        tracing::debug!("a result could not be cached: {error}");
    }
}
