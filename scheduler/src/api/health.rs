//! Whether the process lives, and whether it can work.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use goalmill_common::problem::{ErrorCode, Problem};
use serde::Serialize;

use super::Api;
use super::answer::Refusal;

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

/// True while Redis answers with the installation we know, and every shard that is ours runs.
pub(crate) async fn readyz(State(api): State<Api>) -> Result<Response, Refusal> {
    let health = api.site.broker.check().await?;
    if api.site.stop.is_cancelled() {
        return Err(Problem::new(ErrorCode::NotReady, "the scheduler is stopping").into());
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
