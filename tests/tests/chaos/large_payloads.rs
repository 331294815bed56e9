//! Redis is killed while plans with payloads of megabytes run: they end, and nothing is counted that is not there.
//!
//! `GOALMILL_CHAOS_REDIS_KILLS` says how often, twice unless it is set.

use std::time::Duration;

use anyhow::Result;
use goalmill_common::number::to_usize;
use goalmill_common::random::Random;
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::redis_server::{self, Fsync};
use serde_json::{Value, json};

use crate::at_rest::verify_counts_at_rest;
use crate::{machine, number};

const LIMIT: Duration = Duration::from_mins(3);
/// Steps of a plan, and bytes of the payload of each: a plan has 1 to 7 MB.
const STEPS: usize = 4;
const BYTES_MIN: usize = 256 << 10;
const BYTES_MAX: usize = 1_800 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_killed_under_large_payloads_counts_nothing_at_rest() -> Result<()> {
    let _machine = machine().await;
    let random = Random::seeded(7);
    let redis = redis_server::Options { fsync: Fsync::Always, ..redis_server::Options::default() };
    let mut cluster = Cluster::start(Options { redis, ..Options::default() }).await?;
    for kill in 0..number("GOALMILL_CHAOS_REDIS_KILLS").unwrap_or(2) {
        let mut plans = Vec::new();
        for n in 0..3 {
            let key = format!("large-{kill}-{n}");
            plans.push(cluster.submit(&key, &large(&key, &random), LIMIT).await?);
        }
        cluster.await_end(&plans[0], LIMIT).await?;
        // What follows a rewrite of the append-only file is what a restart counts wrongly.
        let mut line = cluster.redis.connection().await?;
        let rewritten: redis::RedisResult<redis::Value> = redis::cmd("BGREWRITEAOF").query_async(&mut line).await;
        drop(rewritten);
        for n in 3..6 {
            let key = format!("large-{kill}-{n}");
            plans.push(cluster.submit(&key, &large(&key, &random), LIMIT).await?);
        }
        cluster.redis.kill9();
        cluster.redis.restart().await?;
        for plan in &plans {
            cluster.await_end(plan, LIMIT).await?;
            cluster.verify_completed(plan).await?;
        }
        verify_counts_at_rest(&cluster, &cluster.redis.url()).await?;
    }
    Ok(())
}

/// Steps that hand on what they get.
fn large(name: &str, random: &Random) -> Value {
    let step = |n: usize| {
        let bytes = BYTES_MIN + to_usize(random.below((BYTES_MAX - BYTES_MIN) as u64));
        json!({"id": format!("s{n}"), "agent_type": "echo", "inputs": {"text": "x".repeat(bytes)}})
    };
    json!({"name": name, "steps": (0..STEPS).map(step).collect::<Vec<_>>()})
}
