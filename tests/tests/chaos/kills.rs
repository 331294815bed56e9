//! `kill -9` of owners, workers and Redis at random times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use goalmill_broker::Broker;
use goalmill_common::id::PlanId;
use goalmill_common::number::to_usize;
use goalmill_common::random::Random;
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::installation::read_log;
use goalmill_tests::redis_server::{self, Fsync};
use goalmill_tests::wait::{SOON, until};
use goalmill_tests::workload::{Shape, sleeps, workflow};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::at_rest::verify_counts_at_rest;
use crate::{machine, number};

const LIMIT: Duration = Duration::from_mins(3);
const PLANS: usize = 4;
const KILLS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_killed_every_plan_ends_and_no_finished_step_is_lost_or_done_twice() -> Result<()> {
    let _machine = machine().await;
    let seeds = match number("GOALMILL_CHAOS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("GOALMILL_CHAOS_SEEDS").unwrap_or(6),
    };
    for seed in seeds {
        let begun = tokio::time::Instant::now();
        let told = run(seed).await.with_context(|| format!("again with GOALMILL_CHAOS_SEED={seed}"))?;
        eprintln!("seed {seed}: {told}, {} ms", begun.elapsed().as_millis());
    }
    Ok(())
}

/// Every second seed syncs each write, and then nothing that was once read may ever be gone. With `everysec` a killed
/// Redis may lose what it had not handed to the system while the disk was behind.
async fn run(seed: u64) -> Result<String> {
    let random = Random::seeded(seed);
    let fsync = if seed.is_multiple_of(2) { Fsync::Always } else { Fsync::EverySecond };
    let redis = redis_server::Options { fsync, ..redis_server::Options::default() };
    // Four kills of everything may meet the same step four times; that step is not what kills its workers.
    let settings = format!("[limits]\nlost_max = {}\n", KILLS + 1);
    let mut cluster = Cluster::start(Options { redis, settings, ..Options::default() }).await?;
    let mut plans = Vec::new();
    for n in 0..PLANS {
        let shape = Shape { steps: 30 + to_usize(random.below(60)), width: 6, parents_max: 3, seconds_max: 0.8 };
        let plan = workflow(shape, random.draw()).plan(&format!("seed {seed} plan {n}"));
        let id = cluster.submit(&format!("seed-{seed}-{n}"), &plan, LIMIT).await?;
        plans.push((id, plan));
    }
    let watch = Watch::start(cluster.broker.clone(), plans.iter().map(|(id, _)| id.clone()).collect());
    let mut told = Vec::new();
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(100 + random.below(900))).await;
        told.push(kill(&mut cluster, &random, &plans[0].0).await?);
    }
    for (n, (id, plan)) in plans.iter().enumerate() {
        if fsync == Fsync::EverySecond {
            // The submission itself may have been in what was lost.
            cluster.submit(&format!("seed-{seed}-{n}"), plan, LIMIT).await?;
        }
        cluster.await_end(id, LIMIT).await?;
        cluster.verify_completed(id).await?;
    }
    let seen = watch.stop().await;
    if fsync == Fsync::Always {
        for (id, lines) in &seen {
            let log = cluster.lines(id).await?;
            ensure!(log.starts_with(lines), "plan {id}: what was recorded has changed");
        }
    }
    until(SOON, async || cluster.is_idle().await.unwrap_or(false)).await;
    verify_counts_at_rest(&cluster, &cluster.redis.url()).await?;
    Ok(format!("killed {}", told.join(", ")))
}

/// Kills something, and starts it again at once or a little later.
async fn kill(cluster: &mut Cluster, random: &Random, plan: &PlanId) -> Result<String> {
    match random.below(4) {
        0 => {
            let place = cluster.owner(plan).await.unwrap_or(0);
            let name = cluster.schedulers[place].id.clone();
            cluster.replace_scheduler(place).await?;
            Ok(name)
        }
        1 => {
            let place = to_usize(random.below(cluster.workers.len() as u64));
            let name = cluster.workers[place].id.clone();
            cluster.replace_worker(place).await?;
            Ok(name)
        }
        2 => {
            cluster.redis.kill9();
            tokio::time::sleep(Duration::from_millis(random.below(1_500))).await;
            cluster.redis.restart().await?;
            Ok("redis".into())
        }
        _ => {
            cluster.replace_everything().await?;
            Ok("everything".into())
        }
    }
}

/// Reads logs all the time, and remembers the longest that was seen of each plan.
struct Watch {
    stop: CancellationToken,
    task: JoinHandle<BTreeMap<PlanId, Vec<Value>>>,
}

impl Watch {
    fn start(broker: Arc<dyn Broker>, plans: Vec<PlanId>) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and awaited at the end")]
        let task = tokio::spawn(async move {
            let mut seen = BTreeMap::new();
            while !stopped.is_cancelled() {
                for plan in &plans {
                    let Ok(log) = read_log(broker.as_ref(), plan).await else { continue };
                    let lines = log.iter().map(|r| serde_json::from_str(&r.to_line()).expect("a line is JSON"));
                    let lines: Vec<Value> = lines.collect();
                    let longest: &mut Vec<Value> = seen.entry(plan.clone()).or_default();
                    if lines.len() > longest.len() {
                        *longest = lines;
                    }
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            seen
        });
        Self { stop, task }
    }

    async fn stop(self) -> BTreeMap<PlanId, Vec<Value>> {
        self.stop.cancel();
        self.task.await.expect("the watch only reads")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_inside_plans_survive_the_end_of_their_owner() -> Result<()> {
    let _machine = machine().await;
    let mut cluster = Cluster::start(Options::default()).await?;
    // Several, so that after a takeover at least one is read after the plan that waits for it.
    let steps: Vec<Value> = (0..8)
        .map(|n| json!({"id": format!("outer_{n}"), "kind": "plan", "agent_type": "echo", "plan": sleeps("inner", 3, 4.0)}))
        .collect();
    let plan = cluster.submit("nested", &json!({"name": "nested", "steps": steps}), LIMIT).await?;
    let shard = plan.shard().context("a plan id names its shard")?;
    until(LIMIT, async || cluster.broker.active(shard).await.is_ok_and(|active| active.len() > 4)).await;
    let place = cluster.owner(&plan).await.context("the shard has an owner")?;
    cluster.replace_scheduler(place).await?;
    cluster.await_end(&plan, LIMIT).await?;
    cluster.verify_completed(&plan).await?;
    let words: Vec<String> = cluster.schedulers.iter().map(|node| node.process.output()).collect();
    ensure!(!words.iter().any(|log| log.contains("COMMIT_GAP")), "{}", cluster.log_tails());
    until(SOON, async || cluster.is_idle().await.unwrap_or(false)).await;
    Ok(())
}
