//! Measures how close workflows come to the shortest possible time: `cargo run --release -p goalmill-bench
//! --bin makespan -- FILE_OR_DIR… [--time-scale 0.001] [--workers 3] [--slots 8] [--rounds 1] [--logs DIR] [--ideal]`.
//!
//! For each WfFormat file:
//!
//! - *bound*: the larger of the critical path and the total work divided by the slots. No schedule can beat it, and
//!   for many workflows none reaches it: slots stay idle at the end of a wide layer.
//! - *ideal list*: the list schedule that the engine follows (longest remaining path first) when nothing costs time.
//! - *makespan*: from acceptance to end, by the log; the median of the rounds, and what it is over the two above; and
//!   the worst round over the ideal.
//!
//! `--logs` keeps the logs; `--ideal` runs nothing and prints what would be ideal. Two schedulers over a private Redis;
//! `GOALMILL_BIN` names the binary.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use goalmill_bench::list_schedule::Graph;
use goalmill_bench::program::program;
use goalmill_common::clock::parse_rfc3339;
use goalmill_tests::cluster::{Cluster, Options};
use serde_json::Value;

const LIMIT: Duration = Duration::from_mins(10);

struct Arguments {
    files: Vec<PathBuf>,
    time_scale: f64,
    workers: usize,
    slots: u32,
    rounds: usize,
    logs: Option<PathBuf>,
    ideal: bool,
}

fn arguments() -> Result<Arguments> {
    let mut read =
        Arguments { files: Vec::new(), time_scale: 0.001, workers: 3, slots: 8, rounds: 1, logs: None, ideal: false };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().with_context(|| format!("`{argument}` needs a value"));
        match argument.as_str() {
            "--time-scale" => read.time_scale = value()?.parse()?,
            "--workers" => read.workers = value()?.parse()?,
            "--slots" => read.slots = value()?.parse()?,
            "--rounds" => read.rounds = value()?.parse()?,
            "--logs" => read.logs = Some(value()?.into()),
            "--ideal" => read.ideal = true,
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
    let arguments = arguments()?;
    let binary = program()?;
    let slots = arguments.workers * arguments.slots as usize;
    let cluster = if arguments.ideal { None } else { Some(start(&arguments, binary.clone()).await?) };
    let mut table = format!("| {} |\n|{}\n", HEAD.join(" | "), "---|".repeat(HEAD.len()));
    for file in &arguments.files {
        let plan = import(&binary, file, arguments.time_scale)?;
        let graph = Graph::of_plan(&plan).with_context(|| file.display().to_string())?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (path, shared) = (graph.critical_path(), graph.work() / slots as f64);
        let (bound, ideal) = (graph.bound(slots), graph.list_schedule(slots));
        let mut cells = vec![name.clone(), graph.steps().to_string()];
        cells.extend([path, shared, ideal].map(|seconds| format!("{seconds:.3} s")));
        cells.push(format!("{:.3}", ideal / bound));
        if let Some(cluster) = &cluster {
            let seconds = measure(cluster, &name, &plan, &arguments).await?;
            let (median, worst) = (seconds[seconds.len() / 2], seconds[seconds.len() - 1]);
            cells.push(format!("{median:.3} s"));
            cells.extend([median / bound, median / ideal, worst / ideal].map(|ratio| format!("{ratio:.3}")));
        } else {
            cells.extend(vec!["–".to_owned(); HEAD.len() - cells.len()]);
        }
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    Ok(table)
}

/// The columns; the last four are measured.
const HEAD: [&str; 10] = [
    "workflow", "steps", "critical path", "work / slots", "ideal list", "ideal / bound", "makespan", "/ bound",
    "/ ideal", "worst / ideal",
];

async fn start(arguments: &Arguments, binary: PathBuf) -> Result<Cluster> {
    let options = Options {
        workers: arguments.workers,
        slots: arguments.slots,
        binary: Some(binary),
        environment: vec![
            ("GOALMILL__SCHEDULER__HEARTBEAT_MS", "1000".into()),
            ("GOALMILL__SCHEDULER__SHARD_LEASE_MS", "10000".into()),
            ("GOALMILL__SCHEDULER__TASK_LEASE_MS", "30000".into()),
        ],
        ..Options::default()
    };
    Cluster::start(options).await
}

/// The trace as a plan, as `goalmill import wfformat` makes it.
fn import(binary: &Path, file: &Path, time_scale: f64) -> Result<Value> {
    let scale = time_scale.to_string();
    let mut command = Command::new(binary);
    command.args(["import", "wfformat"]).arg(file).args(["--time-scale", &scale, "-o", "json"]);
    let output = command.output().with_context(|| format!("`{}` cannot be started", binary.display()))?;
    ensure!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Seconds of each round, shortest first.
async fn measure(cluster: &Cluster, name: &str, plan: &Value, arguments: &Arguments) -> Result<Vec<f64>> {
    let mut seconds = Vec::new();
    for round in 0..arguments.rounds.max(1) {
        let id = cluster.submit(&format!("{name}-{round}"), plan, LIMIT).await?;
        cluster.await_end(&id, LIMIT).await?;
        cluster.verify_completed(&id).await?;
        let lines = cluster.lines(&id).await?;
        seconds.push(makespan(&lines)?);
        if let Some(dir) = &arguments.logs {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            std::fs::write(dir.join(format!("{name}-{round}.jsonl")), text)?;
        }
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds)
}

/// From the plan's acceptance to its recorded end, in seconds.
fn makespan(lines: &[Value]) -> Result<f64> {
    let ms = |line: Option<&Value>| line.and_then(|line| line["time"].as_str()).and_then(parse_rfc3339);
    let (accepted, ended) = (ms(lines.first()), ms(lines.last()));
    let (accepted, ended) = accepted.zip(ended).context("the log is empty")?;
    Ok(ended.saturating_sub(accepted) as f64 / 1_000.0)
}
