//! Schedulers of two builds side by side: one of them runs the plans, so that nobody finds a log that it cannot read.

use anyhow::{Context, Result};
use goalmill_broker::{Install, redis};
use goalmill_common::event::LOG_FORMAT;
use goalmill_common::id::{PlanId, ShardId};
use goalmill_common::limits::TaskLimits;
use goalmill_tests::installation::{Installation, http_client, settings, step};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

/// So many that each shard has some.
const PLANS: usize = 16;

async fn installation(server: &RedisServer) -> Result<Installation> {
    let mut it = Installation {
        broker: redis::connect(&server.settings()).await?,
        schedulers: Vec::new(),
        workers: Vec::new(),
        settings: settings(),
        http: http_client(),
    };
    it.add_worker(16).await?;
    Ok(it)
}

/// What `/readyz` of a scheduler says, once it is ready.
async fn ready(it: &Installation, n: usize) -> Option<Value> {
    let url = it.urls().into_iter().nth(n)?;
    let answer = it.http.get(format!("{url}/readyz")).send().await.ok()?;
    let is_ready = answer.status().is_success();
    answer.json().await.ok().filter(|_| is_ready)
}

/// Waits until a scheduler is ready and owns so many shards; returns its warnings.
async fn owns(it: &Installation, n: usize, shards: usize) -> String {
    let mut warnings = String::new();
    until(SOON, async || {
        let Some(ready) = ready(it, n).await else { return false };
        warnings = ready["warnings"].to_string();
        ready["shards"].as_array().is_some_and(|owned| owned.len() == shards)
    })
    .await;
    warnings
}

/// Under which tokens the shards are owned.
async fn tokens(it: &Installation) -> Result<Vec<Option<String>>> {
    let mut tokens = Vec::new();
    for shard in (0..it.settings.scheduler.shards).map(ShardId) {
        tokens.push(it.broker.owner(shard).await?.map(|owner| owner.token));
    }
    Ok(tokens)
}

/// Submits plans at a scheduler that end when their signal comes.
async fn submit(it: &Installation) -> Result<Vec<PlanId>> {
    let signal = json!({"id": "wait", "kind": "wait", "wait": {"event": "go_on", "key": "all"}});
    let plan = json!({"steps": [signal, step("a", "echo", &["wait"], json!({"x": 1}))]});
    let mut plans = Vec::new();
    for _ in 0..PLANS {
        plans.push(it.submit(&plan).await?);
    }
    Ok(plans)
}

/// Lets the plans go on, and checks that each completes.
async fn finish(it: &Installation, plans: &[PlanId]) -> Result<()> {
    for plan in plans {
        let (status, answer) =
            it.post(&format!("/v1/plans/{plan}/events"), &json!({"name": "go_on", "key": "all"})).await?;
        anyhow::ensure!(status == 200, "{status}: {answer:#}");
    }
    for plan in plans {
        let ended = it.await_end(plan, SOON).await?;
        anyhow::ensure!(ended["status"] == "completed", "{ended:#}");
    }
    Ok(())
}

/// One scheduler of each format; the second one waits for the first one, and takes its plans over.
async fn replaces(first: u32, second: u32) -> Result<()> {
    let server = RedisServer::start().await?;
    let mut it = installation(&server).await?;
    it.add_scheduler_of_format(first).await?;
    let shards = usize::from(it.settings.scheduler.shards);
    assert!(!owns(&it, 0, shards).await.contains("log format"));
    let (before, mut plans) = (tokens(&it).await?, submit(&it).await?);
    it.add_scheduler_of_format(second).await?;
    let said = owns(&it, 1, 0).await;
    assert!(said.contains(&format!("owns no shard, because it writes log format {second}")), "{said}");
    assert!(said.contains(&format!("(log format {first})")), "{said}");
    it.schedulers.swap(0, 1);
    plans.extend(submit(&it).await.context("the second one serves the API")?);
    finish(&it, &plans[..PLANS / 2]).await?;
    assert_eq!(tokens(&it).await?, before, "a shard has changed hands");
    it.schedulers.remove(1).stop().await;
    let said = owns(&it, 0, shards).await;
    assert!(!said.contains("log format") && !said.contains("quarantine"), "{said}");
    finish(&it, &plans[PLANS / 2..]).await?;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_scheduler_waits_for_the_older_one_and_takes_its_plans_over() -> Result<()> {
    replaces(LOG_FORMAT, LOG_FORMAT + 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_scheduler_takes_no_shard_of_a_newer_one() -> Result<()> {
    replaces(LOG_FORMAT, LOG_FORMAT - 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_of_another_build_that_has_died_is_not_awaited() -> Result<()> {
    let server = RedisServer::start().await?;
    let mut it = installation(&server).await?;
    let shards = it.settings.scheduler.shards;
    it.broker.open(&Install { instance: "i".into(), shards, limits: TaskLimits::default() }).await?;
    for id in ["dead", "alive"] {
        it.broker.record_scheduler_heartbeat(id, LOG_FORMAT - 1, 60_000).await?;
    }
    it.broker.announce_presence("alive").await?;
    it.add_scheduler().await?;
    until(SOON, async || ready(&it, 0).await.is_some_and(|ready| !ready["warnings"].to_string().contains("dead")))
        .await;
    let said = owns(&it, 0, 0).await;
    assert!(said.contains(&format!("alive (log format {})", LOG_FORMAT - 1)), "{said}");
    it.broker.deregister_scheduler("alive").await?;
    owns(&it, 0, usize::from(shards)).await;
    it.stop().await;
    Ok(())
}
