//! A Redis that loses its data or its memory under running processes.

use std::time::Duration;

use anyhow::{Result, ensure};
use goalmill_tests::cluster::{Cluster, Options, gated};
use goalmill_tests::wait::{SOON, until};
use goalmill_tests::workload::{Shape, sleeps, workflow};

use crate::machine;

const LIMIT: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread")]
async fn lost_data_is_said_and_nothing_is_made_anew() -> Result<()> {
    let _machine = machine().await;
    let cluster = Cluster::start(Options { workers: 1, ..Options::default() }).await?;
    let plan = cluster.submit("lost", &sleeps("lost", 40, 0.5), LIMIT).await?;
    until(LIMIT, async || cluster.log(&plan).await.is_ok_and(|log| log.len() > 10)).await;
    let mut connection = cluster.redis.connection().await?;
    redis::cmd("FLUSHALL").query_async::<()>(&mut connection).await?;
    for place in 0..cluster.schedulers.len() {
        let (status, problem) = cluster.get_from(place, "/readyz").await?;
        ensure!(status == 503 && problem["code"] == "REDIS_DATA_LOST", "{status}: {problem}");
        // It may take a look at the installation until the reason is told; nothing is accepted meanwhile.
        let mut answers = Vec::new();
        until(SOON, async || {
            let answer = cluster.post_to(place, "/v1/plans", "after", &sleeps("after", 1, 0.0)).await;
            answers.push(answer.expect("the scheduler answers"));
            answers.last().is_some_and(|(_, problem)| problem["code"] == "REDIS_DATA_LOST")
        })
        .await;
        ensure!(answers.iter().all(|(status, _)| *status == 503), "{answers:?}");
    }
    let worker = format!("{}/readyz", cluster.workers[0].url);
    until(SOON, async || cluster.http.get(&worker).send().await.is_ok_and(|answer| answer.status() == 503)).await;
    // Somebody who does not know goes on submitting. Long enough for takeovers, a lease over.
    let data = sleeps("unknown", 1, 0.0).to_string();
    let event = [("specversion", "1.0"), ("id", "unknown"), ("type", "goalmill.plan.submit.v1"), ("data", &data)];
    let mut add = redis::cmd("XADD");
    add.arg("goalmill:goals").arg("*").arg(&event);
    add.query_async::<String>(&mut connection).await?;
    let mut scheduler = cluster.schedulers.into_iter().next().expect("there are two");
    scheduler.process.wait_line("submissions cannot be read: redis holds other data", LIMIT).await?;
    let begun = tokio::time::Instant::now();
    until(LIMIT, async || begun.elapsed() > Duration::from_millis(2_500)).await;
    let keys: Vec<String> = redis::cmd("KEYS").arg("goalmill:*").query_async(&mut connection).await?;
    let anew = |key: &&String| ["meta", "plan:", "owner", "active", "answers"].iter().any(|part| key.contains(part));
    ensure!(!keys.iter().any(|key| anew(&key)), "made anew: {keys:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_memory_submissions_are_refused_and_running_plans_end() -> Result<()> {
    let _machine = machine().await;
    let cluster = Cluster::start(Options::default()).await?;
    let shape = Shape { steps: 120, width: 8, parents_max: 3, seconds_max: 0.3 };
    let plan = cluster.submit("running", &gated(workflow(shape, 5).plan("running")), LIMIT).await?;
    let mut connection = cluster.redis.connection().await?;
    let limit = |bytes: &str| {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg("maxmemory").arg(bytes);
        set
    };
    limit("1mb").query_async::<()>(&mut connection).await?;
    for place in 0..cluster.schedulers.len() {
        // Memory is looked at once a second; a key that was accepted before that would be answered again.
        let mut tries = 0;
        until(SOON, async || {
            tries += 1;
            let key = format!("try-{place}-{tries}");
            let answer = cluster.post_to(place, "/v1/plans", &key, &sleeps(&key, 1, 0.0)).await;
            let (status, problem) = answer.expect("the scheduler answers");
            status == 503 && problem["code"] == "REDIS_MEMORY_PRESSURE"
        })
        .await;
    }
    cluster.open_gate(&plan).await?;
    cluster.await_end(&plan, LIMIT).await?;
    cluster.verify_completed(&plan).await?;
    limit("0").query_async::<()>(&mut connection).await?;
    let after = cluster.submit("new", &sleeps("new", 1, 0.0), LIMIT).await?;
    cluster.await_end(&after, LIMIT).await
}
