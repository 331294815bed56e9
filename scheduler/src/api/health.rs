//! Whether the process lives, and whether it can work.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use goalmill_common::problem::{ErrorCode, Problem};
use serde::Serialize;

use super::Api;
use super::answer::Refusal;

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
    let answer = Ready {
        scheduler: api.site.id.clone(),
        store: health.version,
        memory_used: health.memory_used,
        warnings: health.warnings,
        shards: api.loops.owned().iter().map(|shard| shard.0).collect(),
        shards_total: api.site.shards,
    };
    Ok(Json(answer).into_response())
}
