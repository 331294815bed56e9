//! Redis is replaced by an older copy of itself while schedulers run: it is said, and plans go on from what is stored.

use anyhow::{Result, ensure};
use goalmill_common::id::PlanId;
use goalmill_common::keys::Keys;
use goalmill_tests::installation::{Installation, step};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, cmd, pipe};
use serde_json::json;

/// Every key and its value, as Redis dumps it.
type Copied = Vec<(Vec<u8>, Vec<u8>)>;

async fn copy(line: &mut MultiplexedConnection) -> Result<Copied> {
    let names: Vec<Vec<u8>> = cmd("KEYS").arg("*").query_async(line).await?;
    let mut dumps = pipe();
    for name in &names {
        dumps.atomic().cmd("DUMP").arg(name);
    }
    let values: Vec<Option<Vec<u8>>> = dumps.query_async(line).await?;
    Ok(names.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?))).collect())
}

async fn put_back(line: &mut MultiplexedConnection, copied: &Copied) -> Result<()> {
    let mut writes = pipe();
    writes.atomic().cmd("FLUSHALL").ignore();
    for (name, value) in copied {
        writes.cmd("RESTORE").arg(name).arg(0).arg(value).ignore();
    }
    Ok(writes.query_async(line).await?)
}

/// Sends the event that the plan waits for, and waits for the plan's end.
async fn finish(it: &Installation, plan: &PlanId) -> Result<()> {
    let (status, answer) = it.post(&format!("/v1/plans/{plan}/events"), &json!({"name": "go", "key": "on"})).await?;
    ensure!(status == 200, "{status}: {answer:#}");
    let ended = it.await_end(plan, SOON).await?;
    ensure!(ended["status"] == "completed", "{ended:#}");
    Ok(())
}

async fn warnings(it: &Installation) -> String {
    it.get("/readyz").await.map_or_else(|_| String::new(), |ready| ready["warnings"].to_string())
}

/// Waits until a heartbeat after this time is stored; returns its time.
async fn await_heartbeat(line: &MultiplexedConnection, after: f64) -> f64 {
    let mut last = after;
    until(SOON, async || {
        let beats: Vec<(String, f64)> =
            line.clone().zrange_withscores(Keys::default().schedulers(), 0, -1).await.expect("it answers");
        last = beats.first().map_or(0.0, |(_, time)| *time);
        last > after
    })
    .await;
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_replaced_by_an_older_copy_is_named_and_plans_go_on_from_it() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    let mut line = server.connection().await?;
    let signal = json!({"id": "wait", "kind": "wait", "wait": {"event": "go", "key": "on"}});
    let plan = json!({"steps": [signal, step("a", "echo", &["wait"], json!({"x": 1}))]});
    let plan = it.submit(&plan).await?;
    until(SOON, async || {
        let waits = it.get("/v1/waits").await.unwrap_or_default();
        waits["items"].as_array().is_some_and(|waits| waits.len() == 1)
    })
    .await;
    let before = await_heartbeat(&line, 0.0).await;
    let copied = copy(&mut line).await?;
    finish(&it, &plan).await?;
    await_heartbeat(&line, before).await;
    assert!(!warnings(&it).await.contains("STORE_WENT_BACK"), "nothing is lost so far");

    put_back(&mut line, &copied).await?;
    until(SOON, async || warnings(&it).await.contains("STORE_WENT_BACK: Redis has lost writes")).await;
    finish(&it, &plan).await?;
    let log = it.log(&plan).await?;
    let ends = log.iter().filter(|record| record.event.type_name() == "plan_completed").count();
    assert_eq!(ends, 1, "{log:#?}");
    it.stop().await;
    Ok(())
}
