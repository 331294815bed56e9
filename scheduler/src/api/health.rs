//! Liveness and readiness probes.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use goalmill_broker::RefusedCard;
use goalmill_common::id::ShardId;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::supervisor::Supervisor;
use goalmill_llm::{ModelRegistry, ModelStats};
use serde::Serialize;

use super::Api;
use super::response::ApiError;
use crate::agent_directory::REFUSED_SHOWN;
use crate::quarantine::QuarantineRecord;

/// A shard that was lost twice within this many heartbeats counts as not owned.
const RECENT_HEARTBEATS: u32 = 3;

/// Succeeds while the process answers and all of its loops run.
pub(crate) async fn livez(State(api): State<Api>) -> Result<&'static str, ApiError> {
    liveness(&api.scheduler.loops.supervisor)
}

/// The answer of `/livez`, at any time of a scheduler's life.
pub(super) fn liveness(supervisor: &Supervisor) -> Result<&'static str, ApiError> {
    match supervisor.failure() {
        None => Ok("ok\n"),
        Some(reason) => Err(Problem::new(ErrorCode::Internal, reason).into()),
    }
}

/// The report of a ready scheduler.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Ready {
    scheduler: String,
    /// The id of the installation, as in `goalmill:meta`.
    instance: String,
    /// The store and its version.
    store: String,
    /// Used share of the memory limit of the store, 0 to 1.
    memory_used: f64,
    warnings: Vec<String>,
    /// Shards that this scheduler owns.
    shards: Vec<u16>,
    shards_total: u16,
}

/// Why steps with `callback: true` are refused.
pub(crate) const NO_CALLBACK_URL: &str =
    "steps with `callback: true` are refused: agents do not know where they reach the API; set `api.callback_url`";

/// Succeeds while the store accepts commits of this installation and all shards of this share are owned.
pub(crate) async fn readyz(State(api): State<Api>) -> Result<Response, ApiError> {
    let health = api.scheduler.broker.check_health().await?;
    if api.scheduler.stop.is_cancelled() {
        return Err(Problem::new(ErrorCode::NotReady, "the scheduler is stopping").into());
    }
    api.scheduler.health.probe(api.scheduler.broker.as_ref(), api.scheduler.shards).await?;
    let recent = RECENT_HEARTBEATS * Duration::from_millis(api.scheduler.settings.scheduler.heartbeat_ms);
    if let Some(trouble) = api.shards.ownership.trouble(&api.shards, recent) {
        return Err(Problem::new(ErrorCode::NotReady, trouble).into());
    }
    let mut warnings = health.warnings;
    warnings.extend(api.scheduler.store_clock.warning());
    warnings.extend(api.shards.ownership.builds_warning());
    warnings.extend(api.shards.ownership.lost_writes_warning());
    warnings.extend(quarantined(&api).await?);
    warnings.extend(api.scheduler.health.archive_warning());
    warnings.extend(api.scheduler.namespaces.as_ref().and_then(|namespaces| namespaces.warning()));
    warnings.extend(refused_cards(&api));
    warnings.extend(unusable_models(&api.scheduler.models));
    warnings.extend(api.tls.as_ref().and_then(|tls| tls.warning()));
    if api.scheduler.settings.api.callback_url.is_empty() {
        warnings.push(NO_CALLBACK_URL.into());
    }
    let answer = Ready {
        scheduler: api.scheduler.id.clone(),
        instance: api.scheduler.instance.clone(),
        store: health.version,
        memory_used: health.memory_used,
        warnings,
        shards: api.shards.ids().iter().map(|shard| shard.0).collect(),
        shards_total: api.scheduler.shards,
    };
    Ok(Json(answer).into_response())
}

/// A warning for each refused card, up to a limit.
fn refused_cards(api: &Api) -> Vec<String> {
    let refused = api.scheduler.directory.refused();
    let mut warnings: Vec<String> = refused.iter().take(REFUSED_SHOWN).map(RefusedCard::text).collect();
    if refused.len() > REFUSED_SHOWN {
        warnings.push(format!("{} more cards of agent types are refused", refused.len() - REFUSED_SHOWN));
    }
    warnings
}

/// A warning for each model that is not asked.
fn unusable_models(models: &ModelRegistry) -> Vec<String> {
    let reason = |model: &ModelStats| match &model.obstacle {
        Some(obstacle) => Some(obstacle.clone()),
        None if model.is_circuit_open => {
            Some("its last calls failed; check the provider, the key and the quota".into())
        }
        None => None,
    };
    let stats = models.stats();
    stats.iter().filter_map(|model| Some(format!("model `{}` is not asked: {}", model.model, reason(model)?))).collect()
}

/// A warning for each plan in quarantine: those of this scheduler, and those that are recorded of any shard.
async fn quarantined(api: &Api) -> Result<Vec<String>, ApiError> {
    let mut plans = api.scheduler.quarantined_plans();
    for shard in (0..api.scheduler.shards).map(ShardId) {
        plans.extend(QuarantineRecord::load(api.scheduler.broker.as_ref(), shard).await?.quarantined.into_keys());
    }
    let warning =
        |plan| format!("plan {plan} is in quarantine; goalmill explain {plan}, then goalmill plan resume {plan}");
    Ok(plans.into_iter().map(warning).collect())
}
