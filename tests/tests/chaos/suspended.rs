//! Processes that are suspended beyond their leases and then resume.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use goalmill_tests::cluster::{Cluster, Options, gated};
use goalmill_tests::proxy::Proxy;
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until};
use goalmill_tests::workload::{Shape, sleeps, workflow};
use serde_json::{Value, json};

use crate::machine;

const LIMIT: Duration = Duration::from_mins(2);

/// Steps behind each other, so that workers alone cannot end the plan, and a gate, so that schedulers cannot.
fn layers(name: &str) -> Value {
    gated(workflow(Shape { steps: 60, width: 8, parents_max: 3, seconds_max: 0.8 }, 11).plan(name))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_late_report_of_a_held_worker_changes_nothing() -> Result<()> {
    let _machine = machine().await;
    let cluster = Cluster::start(Options { schedulers: 1, workers: 2, slots: 1, ..Options::default() }).await?;
    let plan = cluster.submit("held", &sleeps("held", 1, 6.0), LIMIT).await?;
    let started = cluster.wait_event(&plan, |line| line["type"] == "step_started").await?;
    let place = cluster.workers.iter().position(|node| started["data"]["worker"] == node.id.as_str());
    let held = &cluster.workers[place.context("the step runs on one of the workers")?];
    held.process.stop_process()?;
    cluster.await_end(&plan, LIMIT).await?;
    let log = cluster.lines(&plan).await?;
    held.process.cont()?;
    // Both workers are busy with this one only when the held one takes tasks again; its late report went out before.
    let other = cluster.submit("after", &sleeps("after", 2, 8.0), LIMIT).await?;
    cluster.wait_event(&other, |l| l["type"] == "step_started" && l["data"]["worker"] == held.id.as_str()).await?;
    let (status, answer) = cluster.post_to(0, &format!("/v1/plans/{other}:cancel"), "enough", &json!({})).await?;
    ensure!(status == 200, "{status}: {answer}");
    cluster.await_end(&other, LIMIT).await?;
    ensure!(cluster.lines(&plan).await? == log, "a late report changed the log");
    cluster.verify_completed(&plan).await?;
    let completed: Vec<&Value> = log.iter().filter(|line| line["type"] == "step_completed").collect();
    ensure!(completed.len() == 1 && completed[0]["attempt"] != 1, "{completed:?}");
    until(SOON, async || cluster.is_idle().await.unwrap_or(false)).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_scheduler_finds_its_shard_taken_and_writes_nothing() -> Result<()> {
    let _machine = machine().await;
    let mut cluster = Cluster::start(Options { workers: 1, ..Options::default() }).await?;
    let plan = cluster.submit("held", &layers("held"), LIMIT).await?;
    cluster.wait_event(&plan, |line| line["type"] == "step_completed").await?;
    let place = cluster.owner(&plan).await.context("the shard has an owner")?;
    let id = cluster.schedulers[place].id.clone();
    cluster.schedulers[place].process.stop_process()?;
    let before = cluster.log(&plan).await?.len();
    until(LIMIT, async || cluster.owner(&plan).await.is_some_and(|owner| owner != place)).await;
    until(LIMIT, async || cluster.log(&plan).await.is_ok_and(|log| log.len() > before)).await;
    cluster.schedulers[place].process.cont()?;
    cluster.schedulers[place].process.wait_line("another scheduler has taken it", LIMIT).await.context(id)?;
    cluster.open_gate(&plan).await?;
    cluster.await_end(&plan, LIMIT).await?;
    cluster.verify_completed(&plan).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_arrives_after_the_takeover_is_refused_whole() -> Result<()> {
    let _machine = machine().await;
    let redis = RedisServer::start().await?;
    let proxy = Proxy::start(redis.port()).await?;
    // The first scheduler is cut off by the proxy, the second one and the workers are not.
    let options = Options {
        schedulers: 1,
        workers: 0,
        through: Some(proxy.url()),
        environment: vec![
            ("GOALMILL__REDIS__RESPONSE_MS", "60000".into()),
            ("GOALMILL__REDIS__CONNECT_MS", "60000".into()),
        ],
        ..Options::default()
    };
    let mut cluster = Cluster::over(redis, options).await?;
    cluster.options.through = None;
    let worker = cluster.start_worker().await?;
    cluster.workers.push(worker);
    let plan = cluster.submit("late", &layers("late"), LIMIT).await?;
    cluster.wait_event(&plan, |line| line["type"] == "step_completed").await?;
    proxy.black_hole();
    let before = cluster.log(&plan).await?.len();
    let second = cluster.start_scheduler().await?;
    cluster.schedulers.push(second);
    until(LIMIT, async || cluster.owner(&plan).await == Some(1)).await;
    until(LIMIT, async || cluster.log(&plan).await.is_ok_and(|log| log.len() > before)).await;
    proxy.heal();
    cluster.schedulers[0].process.wait_line("another scheduler has taken it", LIMIT).await?;
    cluster.open_gate(&plan).await?;
    cluster.await_end(&plan, LIMIT).await?;
    cluster.verify_completed(&plan).await?;
    Ok(())
}
