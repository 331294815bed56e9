//! Measures how close workflows come to the shortest time that is possible: `cargo run --release -p goalmill-tests
//! --example makespan -- FILE_OR_DIR… [--time-scale 0.001] [--workers 3] [--slots 8]`.
//!
//! For each WfFormat file: makespan (first start to last finish, by the log) over the larger of the critical path and the
//! total work divided by the slots. Two schedulers over a private Redis; `GOALMILL_BIN` names the binary.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use goalmill_common::clock::parse_rfc3339;
use goalmill_common::config::environment;
use goalmill_tests::cluster::{Cluster, Options};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(600);

struct Arguments {
    files: Vec<PathBuf>,
    time_scale: f64,
    workers: usize,
    slots: u32,
}

fn arguments() -> Result<Arguments> {
    let mut read = Arguments { files: Vec::new(), time_scale: 0.001, workers: 3, slots: 8 };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().with_context(|| format!("`{argument}` needs a value"));
        match argument.as_str() {
            "--time-scale" => read.time_scale = value()?.parse()?,
            "--workers" => read.workers = value()?.parse()?,
            "--slots" => read.slots = value()?.parse()?,
            path if PathBuf::from(path).is_dir() => {
                read.files.extend(std::fs::read_dir(path)?.flatten().map(|entry| entry.path()));
            }
            path => read.files.push(path.into()),
        }
    }
    read.files.sort();
    if read.files.is_empty() {
        bail!("name a WfFormat file or a directory of them");
    }
    Ok(read)
}

#[tokio::main]
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command prints")]
async fn main() -> ExitCode {
    match run().await {
        Ok(table) => {
            println!("{table}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<String> {
    let Arguments { files, time_scale, workers, slots } = arguments()?;
    let options = Options {
        workers,
        slots,
        binary: environment("GOALMILL_BIN").map(Into::into),
        environment: vec![
            ("GOALMILL__SCHEDULER__HEARTBEAT_MS", "1000".into()),
            ("GOALMILL__SCHEDULER__SHARD_LEASE_MS", "10000".into()),
            ("GOALMILL__SCHEDULER__TASK_LEASE_MS", "30000".into()),
        ],
        ..Options::default()
    };
    let cluster = Cluster::start(options).await?;
    let head = ["workflow", "steps", "critical path", "work / slots", "makespan", "ratio", "from submission"];
    let mut table = format!("| {} |\n|---|---|---|---|---|---|---|\n", head.join(" | "));
    for file in files {
        let path = file.to_str().context("a path is text")?;
        let scale = time_scale.to_string();
        let output = cluster.command(&["import", "wfformat", path, "--time-scale", &scale, "-o", "json"]).output()?;
        ensure!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        let plan: Value = serde_json::from_slice(&output.stdout)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let id = cluster.submit(&name, &plan, LIMIT).await?;
        cluster.await_end(&id, LIMIT).await?;
        cluster.verify_completed(&id).await?;
        let lines = cluster.lines(&id).await?;
        let bound = Bound::of(&plan)?;
        let shared = bound.work_seconds / (workers as f64 * f64::from(slots));
        let least = bound.path_seconds.max(shared);
        let times = Times::of(&lines)?;
        let row = format!(
            "| {name} | {} | {:.3} s | {shared:.3} s | {:.3} s | {:.3} | {:.3} |\n",
            bound.steps,
            bound.path_seconds,
            times.work_seconds,
            times.work_seconds / least,
            times.whole_seconds / least,
        );
        table.push_str(&row);
    }
    Ok(table)
}

/// What no schedule can beat.
struct Bound {
    steps: usize,
    path_seconds: f64,
    work_seconds: f64,
}

impl Bound {
    fn of(plan: &Value) -> Result<Self> {
        let steps = plan["steps"].as_array().context("a plan has steps")?;
        let mut ends = std::collections::BTreeMap::<&str, f64>::new();
        let mut left: Vec<&Value> = steps.iter().collect();
        let mut work_seconds = 0.0;
        while !left.is_empty() {
            let before = left.len();
            left.retain(|step| {
                let parents = step["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
                let begin = parents.iter().map(|parent| ends.get(parent.as_str().unwrap_or_default()).copied());
                let Some(begin) = begin.collect::<Option<Vec<f64>>>() else { return true };
                let seconds = step["inputs"]["seconds"].as_f64().unwrap_or(0.0);
                work_seconds += seconds;
                let end = begin.into_iter().fold(0.0, f64::max) + seconds;
                ends.insert(step["id"].as_str().unwrap_or_default(), end);
                false
            });
            ensure!(left.len() < before, "the plan has a cycle");
        }
        let path_seconds = ends.values().copied().fold(0.0, f64::max);
        Ok(Self { steps: steps.len(), path_seconds, work_seconds })
    }
}

/// How long it took.
struct Times {
    /// From the first dispatch to the last recorded completion.
    work_seconds: f64,
    /// From the acceptance of the plan to its recorded end.
    whole_seconds: f64,
}

impl Times {
    fn of(lines: &[Value]) -> Result<Self> {
        let ms = |line: &Value| line["time"].as_str().and_then(parse_rfc3339);
        let of = |kind: &'static str| lines.iter().filter(move |line| line["type"] == kind).filter_map(ms);
        let first = of("step_queued").min().context("no step was queued")?;
        let last = of("step_completed").max().context("no step completed")?;
        let accepted = lines.first().and_then(ms).context("the log is empty")?;
        let ended = lines.last().and_then(ms).context("the log is empty")?;
        let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1_000.0;
        Ok(Self { work_seconds: seconds(first, last), whole_seconds: seconds(accepted, ended) })
    }
}
