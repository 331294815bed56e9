//! Whether the process lives, and whether it can work.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use goalmill_common::problem::{ErrorCode, Problem};
use serde_json::json;

use super::Api;
use super::answer::Refusal;

/// Always true while the process answers.
pub(crate) async fn livez() -> &'static str {
    "ok\n"
}

/// True while Redis answers with the installation we know, and every shard that is ours runs.
pub(crate) async fn readyz(State(api): State<Api>) -> Result<Response, Refusal> {
    let health = api.site.broker.check().await?;
    if api.site.stop.is_cancelled() {
        return Err(Problem::new(ErrorCode::NotReady, "the scheduler is stopping").into());
    }
    let shards: Vec<u16> = api.loops.owned().iter().map(|shard| shard.0).collect();
    let answer = json!({
        "scheduler": api.site.id,
        "store": health.version,
        "memory_used": health.memory_used,
        "warnings": health.warnings,
        "shards": shards,
        "shards_total": api.site.shards,
    });
    Ok(Json(answer).into_response())
}
