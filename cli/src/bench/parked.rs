//! Plans that only wait: their memory, their CPU at rest, and how soon a new owner takes them over.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use goalmill_broker::redis;
use goalmill_common::config::RedisSettings;
use goalmill_common::id::PlanId;
use goalmill_common::random::Random;
use tokio::time::Instant;

use super::processes::{self, Process, Workplace};
use super::report::ParkedReport;
use super::run::{Bench, LOOK, shards_of};
use super::{BenchArgs, Shape, usage};

/// How long the scheduler is watched while all plans wait.
const REST: Duration = Duration::from_secs(10);
/// Plans whose marks are read together.
const MARKS_AT_ONCE: usize = 1_000;
/// Timeout of each part.
const LIMIT: Duration = Duration::from_mins(10);
/// Plans that show that every shard has an owner: so many that each shard gets one.
const PROBES: usize = 256;

/// Runs the shape `parked`.
pub async fn measure(args: &BenchArgs) -> Result<ParkedReport> {
    let plans = Shape::Parked.plans(args.steps.unwrap_or_else(|| Shape::Parked.steps()));
    let workplace = Workplace::new(args.logs.as_deref(), Shape::Parked.name())?;
    let (_server, url) = processes::redis_at(args.redis.as_deref(), &workplace)?;
    let settings = RedisSettings { url: url.clone(), allow_unsafe: true, ..RedisSettings::default() };
    let listen = ["--redis", &url, "--listen", "127.0.0.1:0", "--metrics", "off"];
    let mut scheduler = processes::role(&workplace, "scheduler", &listen)?;
    let shards = shards_of(&url, &settings).await?;
    let bench = Bench { broker: redis::connect(&settings).await?, random: Random::system(), shards };
    bench.probe_shards().await?;
    // `kill -9`, so that the next owner has to wait for the last one and takes over with care.
    let replace = async |former: Process| {
        drop(former);
        let begun = Instant::now();
        let next = processes::role(&workplace, "scheduler", &listen)?;
        bench.probe_shards().await?;
        anyhow::Ok((next, begun.elapsed().as_secs_f64()))
    };
    let empty_recovery_seconds;
    (scheduler, empty_recovery_seconds) = replace(scheduler).await?;

    let before = usage::resident_bytes(scheduler.id());
    let (stored, begun) = (redis::probe::stats(&url).await?.memory_bytes, Instant::now());
    let ids = bench.submit(&plans).await?;
    bench.await_marks(ids).await?;
    let parked_seconds = begun.elapsed().as_secs_f64();
    // The allocator gives back what reading and folding took.
    tokio::time::sleep(REST).await;
    let memory = usage::resident_bytes(scheduler.id()).saturating_sub(before);
    let stored = redis::probe::stats(&url).await?.memory_bytes.saturating_sub(stored);
    let cpu_us = usage::process_usage(scheduler.id()).cpu_us;
    tokio::time::sleep(REST).await;
    let cpu_us = usage::process_usage(scheduler.id()).cpu_us - cpu_us;

    let (_next, recovery_seconds) = replace(scheduler).await?;
    let per_plan = |bytes: u64| bytes as f64 / plans.len().max(1) as f64;
    Ok(ParkedReport {
        shape: Shape::Parked.name(),
        plans: plans.len(),
        parked_seconds,
        scheduler_bytes_per_plan: per_plan(memory),
        redis_bytes_per_plan: per_plan(stored),
        rest_cpu_share: cpu_us as f64 / REST.as_micros() as f64,
        empty_recovery_seconds,
        recovery_seconds,
    })
}

impl Bench {
    /// Waits until every shard works: runs plans that need no worker.
    async fn probe_shards(&self) -> Result<()> {
        let plans: Vec<_> = std::iter::repeat_n(Shape::waiting(1), PROBES).collect();
        self.run_plans(&plans).await.context("the shards have no owner").map(drop)
    }

    /// Waits until every plan is parked.
    async fn await_marks(&self, ids: Vec<PlanId>) -> Result<()> {
        let (begun, all) = (Instant::now(), ids.len());
        let mut left: VecDeque<PlanId> = ids.into();
        while !left.is_empty() {
            let looked: Vec<PlanId> = left.iter().take(MARKS_AT_ONCE).cloned().collect();
            let marks = self.broker.park_marks(&looked).await?;
            let marked = marks.iter().take_while(|mark| mark.is_some()).count();
            left.drain(..marked);
            if begun.elapsed() > LIMIT {
                bail!("{} of {all} plans are not parked", left.len());
            }
            if marked < looked.len() {
                tokio::time::sleep(LOOK).await;
            }
        }
        Ok(())
    }
}
