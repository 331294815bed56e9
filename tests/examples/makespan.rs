//! Measures how close workflows come to the shortest time that is possible: `cargo run --release -p goalmill-tests
//! --example makespan -- FILE_OR_DIR… [--time-scale 0.001] [--workers 3] [--slots 8] [--rounds 1] [--logs DIR]`.
//!
//! For each WfFormat file: makespan (from acceptance to end, by the log) over the larger of the critical path and the
//! total work divided by the slots; the median of the rounds, and the worst. `--logs` keeps the logs. Two schedulers over a private Redis; `GOALMILL_BIN` names the binary.

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
    rounds: usize,
    logs: Option<PathBuf>,
}

fn arguments() -> Result<Arguments> {
    let mut read = Arguments { files: Vec::new(), time_scale: 0.001, workers: 3, slots: 8, rounds: 1, logs: None };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().with_context(|| format!("`{argument}` needs a value"));
        match argument.as_str() {
            "--time-scale" => read.time_scale = value()?.parse()?,
            "--workers" => read.workers = value()?.parse()?,
            "--slots" => read.slots = value()?.parse()?,
            "--rounds" => read.rounds = value()?.parse()?,
            "--logs" => read.logs = Some(value()?.into()),
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
    let Arguments { files, time_scale, workers, slots, rounds, logs } = arguments()?;
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
    let head = ["workflow", "steps", "critical path", "work / slots", "makespan", "ratio", "worst"];
    let mut table = format!("| {} |\n|---|---|---|---|---|---|---|\n", head.join(" | "));
    for file in files {
        let path = file.to_str().context("a path is text")?;
        let scale = time_scale.to_string();
        let output = cluster.command(&["import", "wfformat", path, "--time-scale", &scale, "-o", "json"]).output()?;
        ensure!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        let plan: Value = serde_json::from_slice(&output.stdout)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let bound = Bound::of(&plan)?;
        let shared = bound.work_seconds / (workers as f64 * f64::from(slots));
        let least = bound.path_seconds.max(shared);
        let mut seconds = Vec::new();
        for round in 0..rounds.max(1) {
            let id = cluster.submit(&format!("{name}-{round}"), &plan, LIMIT).await?;
            cluster.await_end(&id, LIMIT).await?;
            cluster.verify_completed(&id).await?;
            let lines = cluster.lines(&id).await?;
            seconds.push(makespan(&lines)?);
            if let Some(dir) = &logs {
                let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
                std::fs::write(dir.join(format!("{name}-{round}.jsonl")), text)?;
            }
        }
        seconds.sort_by(f64::total_cmp);
        let (median, worst) = (seconds[seconds.len() / 2], seconds[seconds.len() - 1]);
        let row = format!(
            "| {name} | {} | {:.3} s | {shared:.3} s | {median:.3} s | {:.3} | {:.3} |\n",
            bound.steps,
            bound.path_seconds,
            median / least,
            worst / least,
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

/// From the plan's acceptance to its recorded end, in seconds.
fn makespan(lines: &[Value]) -> Result<f64> {
    let ms = |line: Option<&Value>| line.and_then(|line| line["time"].as_str()).and_then(parse_rfc3339);
    let (accepted, ended) = (ms(lines.first()), ms(lines.last()));
    let (accepted, ended) = accepted.zip(ended).context("the log is empty")?;
    Ok(ended.saturating_sub(accepted) as f64 / 1_000.0)
}
