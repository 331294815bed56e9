//! Time until the shards of a killed scheduler have another owner.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use goalmill_common::id::ShardId;
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::wait::until_some;
use goalmill_tests::workload::sleeps;
use tokio::time::Instant;

use crate::{machine, number};

const LIMIT: Duration = Duration::from_mins(2);

/// A lease that is not awaited in any test.
const LEASE_MS: &str = "3600000";

#[tokio::test(flavor = "multi_thread")]
async fn the_shards_of_a_killed_scheduler_do_not_wait_for_its_lease() -> Result<()> {
    let _machine = machine().await;
    let environment = vec![
        ("GOALMILL__SCHEDULER__HEARTBEAT_MS", "1000".into()),
        ("GOALMILL__SCHEDULER__SHARD_LEASE_MS", LEASE_MS.into()),
    ];
    let mut cluster = Cluster::start(Options { workers: 1, environment, ..Options::default() }).await?;
    let mut times = Vec::new();
    for round in 0..number("GOALMILL_TAKEOVER_ROUNDS").unwrap_or(2) {
        let name = format!("round-{round}");
        let plan = cluster.submit(&name, &sleeps(&name, 3, 0.2), LIMIT).await?;
        let place = cluster.owner(&plan).await.context("the shard has an owner")?;
        cluster.schedulers[place].process.kill9();
        let begun = Instant::now();
        let survivor = cluster.schedulers[1 - place].id.clone();
        let taken = until_some(LIMIT, async || is_all_of(&cluster, &survivor).await.then_some(())).await;
        taken.with_context(|| format!("the shards were not taken: {}", cluster.log_tails()))?;
        times.push(begun.elapsed().as_millis());
        cluster.await_end(&plan, LIMIT).await?;
        cluster.schedulers[place] = cluster.start_scheduler().await?;
        cluster.verify_completed(&plan).await?;
        cluster.wait_shared_out().await?;
    }
    times.sort_unstable();
    eprintln!("{} takeovers: median {} ms, longest {} ms", times.len(), times[times.len() / 2], times[times.len() - 1]);
    ensure!(!times.is_empty(), "no takeover was measured");
    Ok(())
}

async fn is_all_of(cluster: &Cluster, scheduler: &str) -> bool {
    for shard in 0..4 {
        let owner = cluster.broker.owner(ShardId(shard)).await.ok().flatten();
        if owner.is_none_or(|owner| owner.holder != scheduler) {
            return false;
        }
    }
    true
}
