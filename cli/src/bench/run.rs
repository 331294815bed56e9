//! One measurement: starts everything, submits, waits, collects the figures.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use goalmill_broker::{Broker, redis};
use goalmill_common::clock;
use goalmill_common::config::RedisSettings;
use goalmill_common::event::{Event, StepEvent, read_entry};
use goalmill_common::id::{Namespace, PlanId};
use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_common::random::Random;
use goalmill_common::status::PlanStatus;
use goalmill_common::wire::{Submission, SubmissionKind};
use tokio::time::Instant;

use super::processes::{self, Workplace};
use super::report::{BenchReport, Latency};
use super::shapes::size;
use super::{BenchArgs, usage};

/// Entries of the raw probe, in each of its rounds.
const RAW_ENTRIES: usize = 200_000;
/// Round trips of the raw probe.
const RAW_HOPS: usize = 1_000;
/// Concurrent submissions.
const SUBMITTING: usize = 200;
/// Timeout of each part.
const LIMIT: Duration = Duration::from_mins(5);
/// Plans per read.
const LOOK_AT_ONCE: usize = 64;
/// Poll interval of the end.
pub const LOOK: Duration = Duration::from_millis(20);

/// Runs one shape.
pub async fn measure(args: &BenchArgs) -> Result<BenchReport> {
    let plans = args.shape.plans(args.steps.unwrap_or_else(|| args.shape.steps()));
    let (largest, limit) = (plans.iter().map(size).max().unwrap_or(0), Limits::default().steps_max);
    if largest > limit {
        bail!(
            "a plan of {largest} steps would be refused: `--shape {}` takes `--steps` up to {limit}",
            args.shape.name()
        );
    }
    let workplace = Workplace::new(args.logs.as_deref(), args.shape.name())?;
    let (_server, url) = processes::redis_at(args.redis.as_deref(), &workplace)?;
    let settings = RedisSettings { url: url.clone(), allow_unsafe: true, ..RedisSettings::default() };
    let broker = redis::connect(&settings).await?;
    wait_for(|| async { redis::probe::stats(&url).await.is_ok() }).await.context("redis does not answer")?;
    let raw_hop_us = redis::probe::raw_hop_us(&url, RAW_HOPS).await?;
    let listen = ["--redis", &url, "--listen", "127.0.0.1:0", "--metrics", "off"];
    let scheduler = processes::role(&workplace, "scheduler", &listen)?;
    let slots = args.slots.to_string();
    let worker =
        processes::role(&workplace, "worker", &["--redis", &url, "--demo", "--agents", "stamp", "--slots", &slots])?;
    let bench = Bench { broker, random: Random::system(), shards: shards_of(&url, &settings).await? };
    bench.warm_up().await?;

    let before =
        (redis::probe::stats(&url).await?, usage::process_usage(scheduler.id()), usage::process_usage(worker.id()));
    let steps: usize = plans.iter().map(size).sum();
    let run = bench.run_plans(&plans).await?;
    // Measured before the summaries and logs are read: that load is not part of the steps.
    let after =
        (redis::probe::stats(&url).await?, usage::process_usage(scheduler.id()), usage::process_usage(worker.id()));
    let seconds = bench.seconds(&run, &plans).await?;

    let hops = if plans.len() == 1 { bench.hops(&run.ids[0], &plans[0]).await? } else { Latency::default() };
    let submit_to_start = bench.submit_to_start(args.latency_samples).await?;
    // Last: what it leaves to be synced and rewritten would be paid for by the steps.
    let raw = redis::probe::raw_xadds_per_second(&url, RAW_ENTRIES).await?;
    let cpu_us =
        (after.0.cpu_us - before.0.cpu_us) + (after.1.cpu_us - before.1.cpu_us) + (after.2.cpu_us - before.2.cpu_us);
    let per_step = |n: u64| n as f64 / steps as f64;
    Ok(BenchReport {
        shape: args.shape.name(),
        steps,
        plans: plans.len(),
        seconds,
        steps_per_second: steps as f64 / seconds,
        raw_xadds_per_second: raw,
        raw_hop_us,
        ratio: steps as f64 / seconds / raw,
        submit_to_start,
        report_to_unlock: hops,
        cpu_us_per_step: per_step(cpu_us),
        scheduler_cpu_us_per_step: per_step(after.1.cpu_us - before.1.cpu_us),
        worker_cpu_us_per_step: per_step(after.2.cpu_us - before.2.cpu_us),
        redis_cpu_us_per_step: per_step(after.0.cpu_us - before.0.cpu_us),
        redis_commands_per_step: per_step(after.0.commands - before.0.commands),
        scheduler_peak_bytes: after.1.peak_bytes,
        worker_peak_bytes: after.2.peak_bytes,
    })
}

/// An installation to submit to.
pub struct Bench {
    pub broker: Arc<dyn Broker>,
    pub random: Random,
    pub shards: u16,
}

/// Plans that were submitted and have ended.
pub struct Run {
    ids: Vec<PlanId>,
    begun_ms: u64,
}

impl Bench {
    /// Runs one plan to its end, to open connections and warm up.
    async fn warm_up(&self) -> Result<()> {
        let plans = super::Shape::Small.plans(50);
        let run = self.run_plans(&plans).await.context("the warm-up plans did not end")?;
        self.seconds(&run, &plans).await.map(|_| ())
    }

    /// Submits all plans and waits for their ends.
    pub async fn run_plans(&self, plans: &[Plan]) -> Result<Run> {
        let begun_ms = clock::Clock::system().now_ms();
        let ids = self.submit(plans).await?;
        self.await_ends(&ids).await?;
        Ok(Run { ids, begun_ms })
    }

    /// Submits all plans; returns their ids.
    pub async fn submit(&self, plans: &[Plan]) -> Result<Vec<PlanId>> {
        let submissions: Vec<Submission> = plans.iter().map(|plan| self.submission(plan)).collect();
        let ids: Vec<PlanId> =
            submissions.iter().map(|s| PlanId::derive(self.shards, &Namespace::default(), &s.id)).collect();
        let sent = submissions.iter().map(|submission| {
            let fields = submission.fields();
            async move { self.broker.submit(&fields).await }
        });
        stream::iter(sent).buffer_unordered(SUBMITTING).try_for_each(async |_| Ok(())).await?;
        Ok(ids)
    }

    /// From the first submission to the recorded end of the last plan.
    async fn seconds(&self, run: &Run, plans: &[Plan]) -> Result<f64> {
        let mut ended_ms = run.begun_ms;
        for (id, plan) in run.ids.iter().zip(plans) {
            ended_ms = ended_ms.max(self.ended_ms(id, plan.steps.len()).await?);
        }
        Ok(ended_ms.saturating_sub(run.begun_ms).max(1) as f64 / 1_000.0)
    }

    fn submission(&self, plan: &Plan) -> Submission {
        Submission {
            id: self.random.token(),
            source: "urn:goalmill:bench".into(),
            kind: SubmissionKind::Plan,
            data: serde_json::to_string(plan).expect("a plan always has a JSON text"),
            inputs: None,
            traceparent: None,
            namespace: None,
        }
    }

    /// Waits until every plan is final, with few reads: they load the measured Redis.
    async fn await_ends(&self, ids: &[PlanId]) -> Result<()> {
        let begun = Instant::now();
        let mut left: VecDeque<PlanId> = ids.iter().cloned().collect();
        // What was submitted last ends among the last: one read tells, as long as it has not.
        let last: Vec<PlanId> = ids.last().cloned().into_iter().collect();
        let mut look_at_last = ids.len() > 1;
        while !left.is_empty() {
            let looked: Vec<PlanId> =
                if look_at_last { last.clone() } else { left.iter().take(LOOK_AT_ONCE).cloned().collect() };
            let statuses = self.broker.statuses(&looked).await?;
            let ended = statuses.iter().take_while(|status| status.is_some_and(PlanStatus::is_final)).count();
            if !look_at_last {
                left.drain(..ended);
            }
            look_at_last &= ended == 0;
            if begun.elapsed() > LIMIT {
                bail!("{} of {} plans have not ended", left.len(), ids.len());
            }
            if ended < looked.len() {
                tokio::time::sleep(LOOK).await;
            }
        }
        Ok(())
    }

    /// When a final plan ended, Unix milliseconds.
    async fn ended_ms(&self, id: &PlanId, steps: usize) -> Result<u64> {
        let summary = self.broker.summary(id).await?;
        let status = summary.get("status").map_or("", String::as_str);
        if status != PlanStatus::Completed.as_str() {
            bail!("plan {id} of {steps} steps ended as {status}");
        }
        let finished = summary.get("finished").and_then(|text| clock::parse_rfc3339(text));
        finished.with_context(|| format!("plan {id} does not say when it ended"))
    }

    /// From submitting a plan of one step to its handler running, on an otherwise idle system.
    async fn submit_to_start(&self, samples: usize) -> Result<Latency> {
        let plans = super::Shape::Chain.plans(1);
        let mut micros = Vec::with_capacity(samples);
        for _ in 0..samples {
            let submission = self.submission(&plans[0]);
            let id = PlanId::derive(self.shards, &Namespace::default(), &submission.id);
            let fields = submission.fields();
            let begun_us = clock::unix_us();
            self.broker.submit(&fields).await?;
            self.await_ends(std::slice::from_ref(&id)).await?;
            let stamps = self.stamps(&id).await?;
            micros.extend(stamps.values().map(|(started_us, _)| started_us.saturating_sub(begun_us)));
        }
        Ok(Latency::from_micros(micros))
    }

    /// From the end of each step to the start of the dependent it unlocked.
    async fn hops(&self, id: &PlanId, plan: &Plan) -> Result<Latency> {
        let stamps = self.stamps(id).await?;
        let mut micros = Vec::new();
        for step in &plan.steps {
            let unlocked_us = step.dependencies.iter().filter_map(|d| stamps.get(d.as_str())).map(|s| s.1).max();
            if let (Some(unlocked_us), Some((started_us, _))) = (unlocked_us, stamps.get(step.id.as_str())) {
                micros.push(started_us.saturating_sub(unlocked_us));
            }
        }
        Ok(Latency::from_micros(micros))
    }

    /// When each step's handler began and ended, Unix microseconds.
    async fn stamps(&self, id: &PlanId) -> Result<BTreeMap<String, (u64, u64)>> {
        let mut stamps = BTreeMap::new();
        let mut after = 0;
        loop {
            let entries = self.broker.log(id, after, 500).await?;
            let Some(last) = entries.last() else { return Ok(stamps) };
            after = last.last_seq;
            for entry in &entries {
                for record in read_entry(&entry.events, 0)? {
                    if let Event::Step { step, event: StepEvent::Completed(done), .. } = record.event {
                        let outputs = done.outputs.value();
                        let at = |name: &str| outputs.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
                        stamps.insert(step.to_string(), (at("started_us"), at("ended_us")));
                    }
                }
            }
        }
    }
}

/// Waits until the scheduler has created the installation; returns its number of shards.
pub async fn shards_of(url: &str, settings: &RedisSettings) -> Result<u16> {
    let begun = Instant::now();
    loop {
        let broker = redis::connect(settings).await?;
        if let Ok(Some(meta)) = broker.meta().await {
            return Ok(meta.shards);
        }
        if begun.elapsed() > LIMIT {
            bail!("the scheduler did not start with {url}");
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn wait_for<F: Future<Output = bool>>(mut check: impl FnMut() -> F) -> Result<()> {
    let begun = Instant::now();
    while !check().await {
        if begun.elapsed() > Duration::from_secs(10) {
            bail!("it took more than 10 s");
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
