//! A primary that dies: Sentinel promotes its replica, every process finds it, and plans go on there.

use std::time::Duration;

use anyhow::{Result, ensure};
use goalmill_broker::redis::connect;
use goalmill_common::config::RedisSettings;
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::sentinel::Sentinel;
use goalmill_tests::wait::until;
use goalmill_tests::workload::{Shape, sleeps, workflow};

use crate::machine;

/// A Sentinel that was held up by a busy machine does nothing for half a minute ("tilt").
const LIMIT: Duration = Duration::from_mins(4);

#[tokio::test(flavor = "multi_thread")]
async fn plans_end_on_the_replica_when_the_primary_dies() -> Result<()> {
    let _machine = machine().await;
    let (primary, replica) = (RedisServer::start().await?, RedisServer::start().await?);
    let mut line = replica.connection().await?;
    redis::cmd("REPLICAOF").arg("127.0.0.1").arg(primary.port()).query_async::<()>(&mut line).await?;
    let sentinel = Sentinel::over(&primary).await?;
    let options = Options { workers: 2, through: Some(sentinel.url()), ..Options::default() };
    let mut cluster = Cluster::over(primary, options).await?;
    let shape = Shape { steps: 120, width: 8, parents_max: 3, seconds_max: 0.5 };
    let plan = cluster.submit("running", &workflow(shape, 7).plan("running"), LIMIT).await?;
    // The replica is behind by what is under way only.
    cluster.broker = connect(&replica.settings()).await?;
    until(LIMIT, async || cluster.log(&plan).await.is_ok_and(|log| log.len() > 20)).await;
    ensure!(!cluster.has_ended(&plan).await, "the plan ended before the primary died");
    cluster.redis.kill9();

    cluster.await_end(&plan, LIMIT).await.map_err(|error| error.context(sentinel.log_tails()))?;
    cluster.wait_ready().await?;
    cluster.verify_completed(&plan).await?;
    let through = RedisSettings { url: sentinel.url(), ..replica.settings() };
    ensure!(connect(&through).await?.summary(&plan).await?.contains_key("finished"), "sentinel leads elsewhere");
    let after = cluster.submit("after", &sleeps("after", 4, 0.0), LIMIT).await?;
    cluster.await_end(&after, LIMIT).await?;
    cluster.verify_completed(&after).await?;
    Ok(())
}
