//! A network that loses replies, cuts connections and swallows everything; no process is started again.

use std::time::Duration;

use anyhow::{Result, ensure};
use goalmill_common::id::PlanId;
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::proxy::Proxy;
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until};
use goalmill_tests::workload::{Shape, sleeps, workflow};

use crate::machine;

const LIMIT: Duration = Duration::from_mins(3);

async fn behind_a_proxy() -> Result<(Cluster, Proxy)> {
    let redis = RedisServer::start().await?;
    let proxy = Proxy::start(redis.port()).await?;
    let environment =
        vec![("GOALMILL__REDIS__RESPONSE_MS", "1000".into()), ("GOALMILL__REDIS__BLOCK_MS", "500".into())];
    let cluster =
        Cluster::over(redis, Options { through: Some(proxy.url()), environment, ..Options::default() }).await?;
    Ok((cluster, proxy))
}

async fn busy(cluster: &Cluster, seed: u64) -> Result<PlanId> {
    let shape = Shape { steps: 150, width: 8, parents_max: 3, seconds_max: 0.6 };
    let plan = cluster.submit(&format!("busy-{seed}"), &workflow(shape, seed).plan("busy"), LIMIT).await?;
    until(LIMIT, async || cluster.log(&plan).await.is_ok_and(|log| log.len() > 40)).await;
    Ok(plan)
}

async fn finished(cluster: &mut Cluster, plan: &PlanId) -> Result<()> {
    cluster.wait_ready().await?;
    cluster.await_end(plan, LIMIT).await?;
    cluster.verify_completed(plan).await?;
    until(SOON, async || cluster.is_idle().await.unwrap_or(false)).await;
    Ok(())
}

async fn status(cluster: &Cluster, url: &str) -> u16 {
    let answer = cluster.http.get(format!("{url}/readyz")).timeout(Duration::from_secs(5)).send().await;
    answer.map_or(0, |answer| answer.status().as_u16())
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_whose_replies_are_lost_count_once() -> Result<()> {
    let _machine = machine().await;
    let (mut cluster, proxy) = behind_a_proxy().await?;
    let mut plans = vec![busy(&cluster, 1).await?];
    for n in 0..12 {
        proxy.lose_reply_to("goalmill_commit");
        // On a busy machine the first plan may have ended before the last reply is lost.
        plans.push(cluster.submit(&format!("more-{n}"), &sleeps("more", 4, 0.1), LIMIT).await?);
        until(SOON, async || !proxy.is_armed()).await;
    }
    for plan in &plans {
        finished(&mut cluster, plan).await?;
    }
    let words: Vec<String> = cluster.schedulers.iter().map(|node| node.process.output()).collect();
    ensure!(!words.iter().any(|log| log.contains("COMMIT_GAP")), "{}", cluster.log_tails());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_connections_are_made_again() -> Result<()> {
    let _machine = machine().await;
    let (mut cluster, proxy) = behind_a_proxy().await?;
    let mut plans = Vec::new();
    for round in 0..3 {
        plans.push(busy(&cluster, 20 + round).await?);
        proxy.cut();
        let urls: Vec<String> =
            cluster.schedulers.iter().chain(&cluster.workers).map(|node| node.url.clone()).collect();
        for url in &urls {
            until(SOON, async || status(&cluster, url).await == 503).await;
        }
        proxy.heal();
    }
    for plan in &plans {
        finished(&mut cluster, plan).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_swallows_everything_is_noticed_and_outlived() -> Result<()> {
    let _machine = machine().await;
    let (mut cluster, proxy) = behind_a_proxy().await?;
    let plan = busy(&cluster, 3).await?;
    proxy.black_hole();
    let urls: Vec<String> = cluster.schedulers.iter().chain(&cluster.workers).map(|node| node.url.clone()).collect();
    for url in &urls {
        until(SOON, async || status(&cluster, url).await == 503).await;
    }
    proxy.heal();
    finished(&mut cluster, &plan).await
}
