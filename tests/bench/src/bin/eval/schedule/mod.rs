//! AsyncHow plans through the real queue: how long do they take, held against the published optimum?
//!
//! A plan's steps sleep for their durations, scaled so that the optimum takes a few seconds. Two scheduler processes
//! and a private Redis; the workers run in this program. Makespans are from the first start of a step to the last end
//! of one, by the clock of the workers, as the log has them.
//!
//! - *free*: as many slots as there are steps.
//! - *two*: two workers with one slot each, for each plan its own; the plan says `max_parallel: 2`, so that its steps
//!   wait where they are ordered by their remaining path and not, first come first served, on the stream.
//!
//! Beside each measured figure stands the list schedule without any overhead, and for two workers the best schedule
//! there is: what the policy costs and what the queue costs are thus apart.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, stream};
use goalmill_bench::list_schedule::Graph;
use goalmill_bench::program::program;
use goalmill_bench::submit::Submitter;
use goalmill_broker::Broker;
use goalmill_common::config::WorkerSettings;
use goalmill_common::event::{Event, Record, StepEvent};
use goalmill_common::number::{to_usize, whole_u64};
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::installation::read_log;
use goalmill_tests::wait::{SOON, until_some};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::rows::{Out, read};

mod lanes;

use lanes::{Lane, Lanes};

const LIMIT: Duration = Duration::from_mins(10);
/// Between two looks at whether a plan has ended.
const LOOK: Duration = Duration::from_millis(250);

/// How plans are run.
struct Mode {
    prefix: &'static str,
    /// Seconds that a plan's optimum takes after scaling.
    optimum_seconds: f64,
    /// Plans beside each other.
    together: usize,
    lanes: usize,
    lane: Lane,
    max_parallel: Option<u32>,
}

const FREE: Mode = Mode {
    prefix: "free",
    optimum_seconds: 20.0,
    together: 300,
    lanes: 1,
    lane: Lane { workers: 1, slots: 20_000 },
    max_parallel: None,
};
const TWO: Mode = Mode {
    prefix: "two",
    optimum_seconds: 12.0,
    together: 80,
    lanes: 80,
    lane: Lane { workers: 2, slots: 1 },
    max_parallel: Some(2),
};

#[derive(Deserialize)]
struct Row {
    id: String,
    /// `async`, `seq` or `para`.
    kind: String,
    /// Step, counted from 1 → seconds, lowest and highest.
    dur_s: BTreeMap<String, (f64, f64)>,
    deps: Vec<(String, String)>,
    /// Published, in seconds, lowest and highest.
    optimal_s: (f64, f64),
}

/// A plan and what became of it.
struct Job {
    row: Row,
    names: Vec<String>,
    parents: Vec<Vec<usize>>,
    graph: Graph,
}

/// One run of one plan.
#[derive(Clone, Default)]
struct Measured {
    /// From the first start to the last end, in seconds of the plan's own time.
    makespan: f64,
    /// From acceptance to the recorded end, likewise.
    accepted_to_end: f64,
    /// From the end of the last dependency to a step's start, in real milliseconds.
    hops_ms: Vec<f64>,
}

#[derive(Serialize)]
struct Told<'a> {
    id: &'a str,
    kind: &'a str,
    /// Published, in seconds, as are all that follow.
    optimal: f64,
    makespan_free: f64,
    makespan_2: f64,
    list_2: f64,
    best_2: f64,
    accepted_to_end_free: f64,
    accepted_to_end_2: f64,
}

pub async fn run(dir: &Path, out: &mut Out) -> Result<Value> {
    let jobs = read_jobs(dir)?;
    let environment = vec![
        ("GOALMILL__SCHEDULER__HEARTBEAT_MS", "1000".into()),
        ("GOALMILL__SCHEDULER__SHARD_LEASE_MS", "30000".into()),
        ("GOALMILL__SCHEDULER__TASK_LEASE_MS", "30000".into()),
        // As often as the lanes do: a scheduler that expects them sooner counts them as gone in between.
        ("GOALMILL__WORKER__HEARTBEAT_MS", WorkerSettings::default().heartbeat_ms.to_string()),
    ];
    let options = Options { workers: 0, environment, binary: Some(program()?), ..Options::default() };
    let cluster = Cluster::start(options).await?;
    let free = run_all(&cluster, &jobs, &FREE).await?;
    let two = run_all(&cluster, &jobs, &TWO).await?;
    let (mut lists, mut bests) = (Vec::new(), Vec::new());
    for (n, job) in jobs.iter().enumerate() {
        lists.push(job.graph.list_schedule(2));
        bests.push(job.graph.best(2));
        out.row(&Told {
            id: &job.row.id,
            kind: &job.row.kind,
            optimal: job.row.optimal_s.0,
            makespan_free: free[n].makespan,
            makespan_2: two[n].makespan,
            list_2: lists[n],
            best_2: bests[n],
            accepted_to_end_free: free[n].accepted_to_end,
            accepted_to_end_2: two[n].accepted_to_end,
        })?;
    }
    let ratios = |kind: Option<&str>| {
        let of = |value: &dyn Fn(usize) -> f64| {
            let rows = jobs.iter().enumerate().filter(|(_, job)| kind.is_none_or(|kind| job.row.kind == kind));
            let ratios: Vec<f64> = rows.map(|(n, job)| value(n) / job.row.optimal_s.0).collect();
            json!({"plans": ratios.len(), "mean": round(mean(&ratios)), "max": round(ratios.iter().copied().fold(0.0, f64::max))})
        };
        json!({
            "free": of(&|n| free[n].makespan),
            "free_from_acceptance": of(&|n| free[n].accepted_to_end),
            "two": of(&|n| two[n].makespan),
            "two_from_acceptance": of(&|n| two[n].accepted_to_end),
            "two_list_without_overhead": of(&|n| lists[n]),
            "two_best_there_is": of(&|n| bests[n]),
        })
    };
    let over_list: Vec<f64> = two.iter().zip(&lists).map(|(two, list)| two.makespan / list).collect();
    Ok(json!({
        "eval": "schedule", "plans": jobs.len(),
        "optimum_takes_seconds": {"free": FREE.optimum_seconds, "two": TWO.optimum_seconds},
        "all": ratios(None), "async": ratios(Some("async")), "seq": ratios(Some("seq")), "para": ratios(Some("para")),
        "two_over_list": round(mean(&over_list)),
        "hop_ms": {"free": hops(&free), "two": hops(&two)},
    }))
}

fn read_jobs(dir: &Path) -> Result<Vec<Job>> {
    let rows: Vec<Row> = read(&dir.join("dag/asynchow.jsonl"))?;
    rows.into_iter().map(Job::new).collect()
}

impl Job {
    fn new(row: Row) -> Result<Self> {
        let mut names: Vec<String> = row.dur_s.keys().cloned().collect();
        names.sort_by_key(|name| name.parse::<u64>().unwrap_or(u64::MAX));
        let place = |name: &String| {
            names.iter().position(|n| n == name).with_context(|| format!("{}: `{name}` has no duration", row.id))
        };
        let mut parents = vec![Vec::new(); names.len()];
        for (before, after) in &row.deps {
            parents[place(after)?].push(place(before)?);
        }
        let seconds = names.iter().map(|name| row.dur_s[name].0).collect();
        let graph = Graph::new(seconds, &parents).with_context(|| row.id.clone())?;
        ensure!(row.optimal_s.0 > 0.0, "{}: the optimum is not above 0", row.id);
        Ok(Self { row, names, parents, graph })
    }

    /// Real seconds for one of the plan's own.
    fn scale(&self, mode: &Mode) -> f64 {
        mode.optimum_seconds / self.row.optimal_s.0
    }

    fn plan(&self, mode: &Mode, agent_type: &str) -> Value {
        let scale = self.scale(mode);
        let step = |(n, name): (usize, &String)| {
            let seconds = self.row.dur_s[name].0 * scale;
            let dependencies: Vec<String> = self.parents[n].iter().map(|p| id(&self.names[*p])).collect();
            json!({
                "id": id(name), "agent_type": agent_type, "dependencies": dependencies,
                "inputs": {"seconds": seconds}, "estimates": {"seconds": seconds}, "timeout_ms": 600_000,
            })
        };
        let steps: Vec<Value> = self.names.iter().enumerate().map(step).collect();
        json!({"name": self.row.id, "max_parallel": mode.max_parallel, "steps": steps})
    }

    /// Reads a run's log.
    fn measure(&self, mode: &Mode, log: &[Record]) -> Result<Measured> {
        let (mut starts, mut ends) = (BTreeMap::new(), BTreeMap::new());
        for record in log {
            let Event::Step { step, event, .. } = &record.event else { continue };
            if let StepEvent::Started(started) = event {
                starts.insert(step.to_string(), started.started_ms as f64);
            } else if let StepEvent::Completed(completed) = event {
                let end = completed.finished_ms.context("a worker says when it has finished")?;
                ends.insert(step.to_string(), end as f64);
            }
        }
        ensure!(ends.len() == self.names.len(), "{}: {} steps completed", self.row.id, ends.len());
        let first = starts.values().copied().fold(f64::INFINITY, f64::min);
        let last = ends.values().copied().fold(0.0, f64::max);
        let mut hops_ms = Vec::new();
        for (n, name) in self.names.iter().enumerate() {
            let ready = self.parents[n].iter().map(|parent| ends[&id(&self.names[*parent])]).reduce(f64::max);
            hops_ms.extend(ready.map(|ready| starts[&id(name)] - ready));
        }
        let (accepted, ended) = (log.first().map_or(0, |r| r.time_ms), log.last().map_or(0, |r| r.time_ms));
        let own = |ms: f64| ms / 1_000.0 / self.scale(mode);
        let accepted_to_end = own(ended.saturating_sub(accepted) as f64);
        Ok(Measured { makespan: own(last - first), accepted_to_end, hops_ms })
    }
}

fn id(name: &str) -> String {
    format!("step_{name}")
}

/// Runs every plan, each in a lane.
async fn run_all(cluster: &Cluster, jobs: &[Job], mode: &Mode) -> Result<Vec<Measured>> {
    let lanes = Lanes::start(&cluster.redis, mode.prefix, mode.lanes, mode.lane, mode.together).await?;
    let site = Site { broker: cluster.broker.as_ref(), submitter: Submitter::new(cluster), lanes: &lanes, mode };
    // Long ones first, so that the last batch is not a single long plan.
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    let stretch = |n: &usize| jobs[*n].graph.work() / jobs[*n].row.optimal_s.0;
    order.sort_by(|a, b| stretch(b).total_cmp(&stretch(a)));
    let mut runs = Vec::new();
    for n in order {
        runs.push(run_one(&site, n, &jobs[n]));
    }
    let ended: Vec<Result<(usize, Measured)>> = stream::iter(runs).buffer_unordered(mode.together).collect().await;
    lanes.end().await;
    let mut measured = vec![Measured::default(); jobs.len()];
    for run in ended {
        let (n, one) = run?;
        measured[n] = one;
    }
    Ok(measured)
}

/// Where plans are run.
struct Site<'a> {
    broker: &'a dyn Broker,
    submitter: Submitter,
    lanes: &'a Lanes,
    mode: &'a Mode,
}

async fn run_one(site: &Site<'_>, n: usize, job: &Job) -> Result<(usize, Measured)> {
    let mode = site.mode;
    let lane = site.lanes.take().context("a place is free for each plan under way")?;
    let plan = site.submitter.submit(&format!("{}-{n}", mode.prefix), &job.plan(mode, &lane), LIMIT).await?;
    let slots = mode.max_parallel.map_or(job.names.len(), |slots| slots as usize);
    tokio::time::sleep(Duration::from_secs_f64(job.graph.list_schedule(slots) * job.scale(mode))).await;
    let mut has_looked = false;
    let status = until_some(LIMIT, async || {
        if std::mem::replace(&mut has_looked, true) {
            tokio::time::sleep(LOOK).await;
        }
        site.submitter.status_at_end(&plan).await
    });
    let id = &job.row.id;
    let status = status.await.with_context(|| format!("{id}: plan {plan} has not ended within {LIMIT:?}"))?;
    site.lanes.give_back(lane);
    ensure!(status == "completed", "{id}: plan {plan} is {status}");
    // All plans of this program share a few connections; for a look at a log there is time.
    let log = until_some(SOON, async || read_log(site.broker, &plan).await.ok()).await;
    Ok((n, job.measure(mode, &log.with_context(|| format!("{id}: the log of {plan} cannot be read"))?)?))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

/// From a dependency's end to the start of what waited for it; on two workers that includes waiting for a worker.
fn hops(runs: &[Measured]) -> Value {
    let mut all: Vec<f64> = runs.iter().flat_map(|run| run.hops_ms.iter().copied()).collect();
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all.get(to_usize(whole_u64(all.len() as f64 * share))).copied().unwrap_or(0.0);
    json!({"steps": all.len(), "mean": round(mean(&all)), "p50": at(0.5), "p95": at(0.95)})
}

#[cfg(test)]
mod tests {
    use goalmill_common::event::{StepCompleted, StepStarted};

    use super::*;

    const TRIAL: Mode = Mode { optimum_seconds: 8.0, ..TWO };

    fn job() -> Job {
        let dur_s = [("1", 60.0), ("2", 120.0), ("10", 60.0)].map(|(name, s)| (name.to_owned(), (s, s)));
        let deps = vec![("1".into(), "2".into()), ("2".into(), "10".into())];
        let row = Row { id: "r".into(), kind: "seq".into(), dur_s: dur_s.into(), deps, optimal_s: (240.0, 240.0) };
        Job::new(row).unwrap()
    }

    #[test]
    fn steps_keep_their_order_and_are_scaled_to_the_optimum() {
        let plan = job().plan(&TRIAL, "lane");
        assert_eq!(plan["steps"][2]["id"], "step_10");
        assert_eq!(plan["steps"][2]["dependencies"], json!(["step_2"]));
        assert_eq!(plan["steps"][1]["inputs"]["seconds"], 4.0);
        assert_eq!(plan["max_parallel"], 2);
    }

    #[test]
    fn a_makespan_is_from_the_first_start_to_the_last_end() {
        let at = |time_ms, step: &str, event| Record {
            seq: 1,
            time_ms,
            actor: None,
            event: Event::Step { step: step.into(), attempt: 1, phase: None, event },
        };
        let start = |ms| StepEvent::Started(Box::new(StepStarted { worker: None, started_ms: ms, due_ms: 0 }));
        let end = |ms| {
            let outputs = goalmill_common::json::Json::empty_object();
            StepEvent::Completed(Box::new(StepCompleted { outputs, finished_ms: Some(ms), ..StepCompleted::default() }))
        };
        let mut log = Vec::new();
        for (name, from, to) in [("step_1", 1_000, 3_000), ("step_2", 3_004, 7_004), ("step_10", 7_006, 9_000)] {
            log.extend([at(from, name, start(from)), at(to + 1, name, end(to))]);
        }
        let measured = job().measure(&TRIAL, &log).unwrap();
        assert_eq!(measured.makespan, 240.0);
        assert_eq!(round(measured.accepted_to_end), 240.03);
        assert_eq!(measured.hops_ms, [4.0, 2.0]);
        assert!(job().measure(&TRIAL, &log[..4]).is_err(), "a step has not completed");
    }
}
