//! Whether the process lives, and whether it can work.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use goalmill_broker::RefusedCard;
use goalmill_common::id::ShardId;
use goalmill_common::problem::{ErrorCode, Problem};
use serde::Serialize;

use super::Api;
use super::answer::Refusal;
use crate::directory::REFUSED_SHOWN;
use crate::shard::Poison;

/// A shard that was lost twice within so many heartbeats is not held.
const RECENT_HEARTBEATS: u32 = 3;

/// Always true while the process answers.
pub(crate) async fn livez() -> &'static str {
    "ok\n"
}

/// What a scheduler that can work says of itself.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Ready {
    scheduler: String,
    /// The store and its version.
    store: String,
    /// Share of the memory that the store may take, 0 to 1.
    memory_used: f64,
    warnings: Vec<String>,
    /// Those that this scheduler owns.
    shards: Vec<u16>,
    shards_total: u16,
}

/// True while Redis answers with the installation we know and takes commits, and every shard that is ours runs.
pub(crate) async fn readyz(State(api): State<Api>) -> Result<Response, Refusal> {
    let health = api.site.broker.check().await?;
    if api.site.stop.is_cancelled() {
        return Err(Problem::new(ErrorCode::NotReady, "the scheduler is stopping").into());
    }
    api.site.pulse.probe(&api.site).await?;
    let recent = RECENT_HEARTBEATS * Duration::from_millis(api.site.settings.scheduler.heartbeat_ms);
    if let Some(trouble) = api.site.share.trouble(&api.loops, recent) {
        return Err(Problem::new(ErrorCode::NotReady, trouble).into());
    }
    let mut warnings = health.warnings;
    warnings.extend(quarantined(&api).await?);
    warnings.extend(refused_cards(&api));
    let answer = Ready {
        scheduler: api.site.id.clone(),
        store: health.version,
        memory_used: health.memory_used,
        warnings,
        shards: api.loops.owned().iter().map(|shard| shard.0).collect(),
        shards_total: api.site.shards,
    };
    Ok(Json(answer).into_response())
}

/// A warning for each agent type whose card cannot be used, and how many more there are.
fn refused_cards(api: &Api) -> Vec<String> {
    let refused = api.site.directory.refused();
    let mut warnings: Vec<String> = refused.iter().take(REFUSED_SHOWN).map(RefusedCard::text).collect();
    if refused.len() > REFUSED_SHOWN {
        warnings.push(format!("{} more cards of agent types are refused", refused.len() - REFUSED_SHOWN));
    }
    warnings
}

/// A warning for each plan in quarantine, of all shards.
async fn quarantined(api: &Api) -> Result<Vec<String>, Refusal> {
    let mut warnings = Vec::new();
    for shard in (0..api.site.shards).map(ShardId) {
        let found = Poison::read(api.site.broker.as_ref(), shard).await?.quarantined;
        warnings.extend(found.keys().map(|plan| {
            format!("plan {plan} is in quarantine; goalmill explain {plan}, then goalmill plan resume {plan}")
        }));
    }
    Ok(warnings)
}
