//! Roles whose log cannot be written work on; roles one of whose loops ends say so and end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::future::pending;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::net::TcpListener;
use std::panic::catch_unwind;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use futures_util::future::try_join_all;
use goalmill_broker::embedded;
use goalmill_common::agent::Agent;
use goalmill_common::clock::Clock;
use goalmill_common::config::{ArchiveKind, NamespaceSettings, WorkerSettings, environment};
use goalmill_common::failure::Failure;
use goalmill_common::limits::Limits;
use goalmill_common::random::Random;
use goalmill_common::supervisor::Supervisor;
use goalmill_common::task::Task;
use goalmill_common::telemetry::{self, LogFormat};
use goalmill_scheduler::{
    Exporter, Extras, Hook, HookCall, HookError, Point, Ruling, SchedulerOptions, SchedulerStartError,
};
use goalmill_tests::dev::program;
use goalmill_tests::installation::{http_client, one_step_plan, settings, submit_to};
use goalmill_tests::redis_server::{RedisServer, free_port, send};
use goalmill_tests::wait::{SOON, until, until_some};
use goalmill_worker::WorkerOptions;
use goalmill_worker::executor::{ExecutionResult, Executor, Progress};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A role whose log goes to a file of the test's choice.
struct Role {
    child: Child,
    base: String,
}

impl Role {
    fn start(words: &[&str], redis: &RedisServer, log: impl Into<Stdio>) -> Result<Self> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let mut command = program();
        command.args(words).args(["--redis", &redis.url(), "--listen", &address]);
        let child = command.stdout(Stdio::null()).stderr(log).spawn()?;
        Ok(Self { child, base: format!("http://{address}") })
    }

    fn scheduler(redis: &RedisServer, log: impl Into<Stdio>) -> Result<Self> {
        Self::start(&["scheduler", "--metrics", "off"], redis, log)
    }

    fn worker(redis: &RedisServer, log: impl Into<Stdio>) -> Result<Self> {
        Self::start(&["worker", "--demo", "-v"], redis, log)
    }

    async fn becomes_ready(&mut self) -> Result<()> {
        let (url, http) = (format!("{}/readyz", self.base), http_client());
        let ready = until_some(SOON, async || {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return Some(false);
            }
            http.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()).then_some(true)
        });
        anyhow::ensure!(ready.await == Some(true), "{url} is not ready, or its process has ended");
        Ok(())
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Runs a plan of one step.
async fn run_step(scheduler: &Role) -> Result<()> {
    let http = http_client();
    let plan = submit_to(&http, &format!("{}/v1/plans", scheduler.base), &one_step_plan("echo")).await?;
    let url = format!("{}/v1/plans/{plan}", scheduler.base);
    let mut seen = Value::Null;
    let completed = until_some(SOON, async || {
        seen = http.get(&url).send().await.ok()?.json().await.ok()?;
        (seen["status"] == "completed").then_some(())
    });
    completed.await.with_context(|| format!("the plan never ended: {seen:#}"))
}

/// Closes all connections to Redis, so that each loop of each role has something to log, until all work again.
async fn interrupt(redis: &RedisServer, scheduler: &mut Role, worker: &mut Role) -> Result<()> {
    for _ in 0..3 {
        send(&mut redis.connection().await?, "CLIENT KILL TYPE normal SKIPME yes").await?;
        run_step(scheduler).await?;
        scheduler.becomes_ready().await?;
        worker.becomes_ready().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_whose_log_has_no_reader_any_more_work_on() -> Result<()> {
    let redis = RedisServer::start().await?;
    let (mut logs, log) = pipe()?;
    let (mut scheduler, mut worker) = (Role::scheduler(&redis, log.try_clone()?)?, Role::worker(&redis, log)?);
    // Reads as long as the roles start, and closes the pipe then.
    let read = std::thread::spawn(move || logs.read_exact(&mut [0]));
    scheduler.becomes_ready().await?;
    worker.becomes_ready().await?;
    assert!(read.join().expect("reading does not panic").is_ok(), "the roles log while they start");
    interrupt(&redis, &mut scheduler, &mut worker).await
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_whose_log_has_a_reader_that_hangs_work() -> Result<()> {
    let redis = RedisServer::start().await?;
    let (_reader, log) = hanging_log()?;
    let mut scheduler = Role::scheduler(&redis, log.try_clone()?)?;
    let mut worker = Role::worker(&redis, log)?;
    scheduler.becomes_ready().await?;
    worker.becomes_ready().await?;
    interrupt(&redis, &mut scheduler, &mut worker).await
}

/// A log that nobody reads, and that a thread leaves no room in; with the reader.
fn hanging_log() -> Result<(PipeReader, PipeWriter)> {
    let (reader, log) = pipe()?;
    let mut filling = log.try_clone()?;
    std::thread::spawn(move || while filling.write(b".").is_ok() {});
    Ok((reader, log))
}

/// The exit code of a process that ends soon.
async fn exit_code(mut child: Child) -> Result<Option<i32>> {
    let ended = until_some(END, async || child.try_wait().transpose()).await;
    child.kill().ok();
    Ok(ended.context("it does not end without a reader of its log")??.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_that_fail_end_although_the_reader_of_their_log_hangs() -> Result<()> {
    let (_reader, log) = hanging_log()?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    for role in ["scheduler", "worker --demo"] {
        let mut command = program();
        command.args(role.split(' ')).args(["--redis", "redis://127.0.0.1:1", "--listen", &address]);
        let child = command.stdout(Stdio::null()).stderr(log.try_clone()?).spawn()?;
        assert_eq!(exit_code(child).await?, Some(1), "{role}");
    }
    Ok(())
}

/// Runs itself as a process that panics.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_waits_for_no_reader_of_the_log_that_hangs() -> Result<()> {
    const CODE: i32 = 7;
    const IS_CHILD: &str = "GOALMILL_TEST_PANICS";
    if environment(IS_CHILD).is_some() {
        telemetry::log("error", LogFormat::Text);
        telemetry::log_panics();
        drop(catch_unwind(|| panic!("it was broken on purpose")));
        std::process::exit(CODE);
    }
    let (_reader, log) = hanging_log()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", "--nocapture", "supervision::a_panic_waits_for_no_reader_of_the_log_that_hangs"]);
    let child = command.env(IS_CHILD, "1").stdout(Stdio::null()).stderr(log).spawn()?;
    assert_eq!(exit_code(child).await?, Some(CODE));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_whose_log_is_on_a_full_disk_work() -> Result<()> {
    let redis = RedisServer::start().await?;
    let full = File::options().write(true).open("/dev/full")?;
    let mut scheduler = Role::scheduler(&redis, full.try_clone()?)?;
    let mut worker = Role::worker(&redis, full)?;
    scheduler.becomes_ready().await?;
    worker.becomes_ready().await?;
    interrupt(&redis, &mut scheduler, &mut worker).await
}

/// Panics when it is called.
struct Broken;

#[async_trait]
impl Hook for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn wants(&self, point: Point) -> bool {
        point == Point::OnStepComplete
    }

    async fn call(&self, _: &HookCall) -> Result<Ruling, HookError> {
        panic!("the hook is broken")
    }
}

#[async_trait]
impl Executor for Broken {
    async fn execute(&self, _: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        Ok(ExecutionResult::default())
    }

    fn card(&self) -> Option<Agent> {
        panic!("the card is broken")
    }
}

/// A worker with one agent, over a store of its own.
fn worker_options(executor: Arc<dyn Executor>) -> Result<WorkerOptions> {
    Ok(WorkerOptions {
        settings: WorkerSettings { listen: "127.0.0.1:0".into(), ..WorkerSettings::default() },
        limits: Limits::default(),
        broker: embedded::open(None, Clock::system())?,
        clock: Clock::system(),
        random: Random::system(),
        executors: BTreeMap::from([("broken".into(), executor)]),
        kinds: BTreeMap::default(),
    })
}

/// Waits until `/livez` fails, and returns why.
async fn liveness_failure(base: &str) -> Result<String> {
    // The certificate of a test is its own authority.
    let http = reqwest::Client::builder().tls_danger_accept_invalid_certs(true).build()?;
    let url = format!("{base}/livez");
    let failed = until_some(SOON, async || {
        let answer = http.get(&url).send().await.ok()?;
        (answer.status() == 500).then_some(answer)
    });
    Ok(failed.await.context("`/livez` never failed")?.text().await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_whose_loop_panics_fails_with_the_reason() -> Result<()> {
    let options = SchedulerOptions {
        settings: settings(),
        broker: embedded::open(None, Clock::system())?,
        clock: Clock::system(),
        random: Random::system(),
    };
    let extras = Extras { hooks: vec![Arc::new(Broken)], ..Extras::default() };
    let scheduler = goalmill_scheduler::start_with(options, extras).await?;
    let base = scheduler.api_url().context("it serves the API")?;
    let alive = http_client().get(format!("{base}/livez")).send().await?;
    assert_eq!(alive.status(), 200);
    submit_to(
        &http_client(),
        &format!("{base}/v1/plans"),
        &serde_json::json!({"steps": [
            {"id": "a", "kind": "finish", "outputs": {}},
        ]}),
    )
    .await?;
    let reason = tokio::time::timeout(SOON, scheduler.failed()).await?;
    assert_eq!(reason, "loop `hook` panicked: the hook is broken");
    assert!(liveness_failure(&base).await?.contains(&reason));
    scheduler.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_loop_panics_fails_with_the_reason() -> Result<()> {
    let worker = goalmill_worker::start(worker_options(Arc::new(Broken))?).await?;
    let reason = tokio::time::timeout(SOON, worker.failed()).await?;
    assert_eq!(reason, "loop `heartbeats` panicked: the card is broken");
    let address = worker.address().context("it serves `/livez`")?;
    assert!(liveness_failure(&format!("http://{address}")).await?.contains(&reason));
    Ok(())
}

/// The loops of a scheduler with one shard.
const SCHEDULER_LOOPS: &[&str] = &[
    "api", "archive_retention", "archiver", "certificate", "directory", "event_stream", "gauges", "goal_streams",
    "hook", "inbox", "intake", "membership", "metrics", "namespace_limits", "reaper", "reconcile", "router_training",
    "shard 0", "traces",
];
const WORKER_LOOPS: &[&str] = &["cancellations", "health", "heartbeats", "leases", "progress", "pull", "reports"];
/// Those of a worker that drains.
const DRAINING_LOOPS: &[&str] = &["cancellations", "drain", "health", "heartbeats", "leases", "progress", "reports"];
/// How long a process whose loop has ended may go on.
const END: Duration = Duration::from_secs(15);

/// Does nothing.
struct Idle;

#[async_trait]
impl Hook for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn wants(&self, _: Point) -> bool {
        true
    }

    async fn call(&self, _: &HookCall) -> Result<Ruling, HookError> {
        Ok(Ruling::Allowed)
    }
}

#[async_trait]
impl Executor for Idle {
    async fn execute(&self, _: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        Ok(ExecutionResult::default())
    }
}

/// Breaks a loop of a role that has these, and expects that the role fails with the reason, also in `/livez`.
async fn breaks(supervisor: &Supervisor, expected: &[&str], name: &str, base: &str) -> Result<()> {
    let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
    until(SOON, async || supervisor.loops() == expected).await;
    supervisor.break_loop(name);
    let reason = tokio::time::timeout(END, supervisor.failed()).await.with_context(|| format!("`{name}` is missed"))?;
    assert_eq!(reason, format!("loop `{name}` panicked: it was broken on purpose"));
    // Without the loop that answers, `/livez` has no answer.
    if name != "health" {
        assert!(liveness_failure(base).await?.contains(&reason), "of `{name}`");
    }
    Ok(())
}

async fn break_scheduler(name: &str) -> Result<()> {
    let files = tempfile::tempdir()?;
    let place = |name: &str| files.path().join(name).display().to_string();
    let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    std::fs::write(place("crt"), key.cert.pem())?;
    std::fs::write(place("key"), key.signing_key.serialize_pem())?;
    let mut settings = settings();
    (settings.api.tls.cert_file, settings.api.tls.key_file) = (place("crt"), place("key"));
    settings.metrics.listen = "127.0.0.1:0".into();
    settings.scheduler.shards = 1;
    settings.scheduler.goal_streams.insert("goals".into());
    settings.archive.store = ArchiveKind::Sqlite;
    settings.archive.path = place("archive");
    settings.archive.retention_ms.insert("*".into(), 1_000);
    settings.namespaces.insert("red".into(), NamespaceSettings { plans_max: Some(1), ..NamespaceSettings::default() });
    let broker = embedded::open(None, Clock::system())?;
    let options = SchedulerOptions { settings, broker, clock: Clock::system(), random: Random::system() };
    let traces = Some(Exporter::to_collector("http://127.0.0.1:1/v1/traces")?);
    let extras = Extras { hooks: vec![Arc::new(Idle)], traces, ..Extras::default() };
    let scheduler = goalmill_scheduler::start_with(options, extras).await?;
    let base = scheduler.api_url().context("it serves the API")?;
    breaks(scheduler.supervisor(), SCHEDULER_LOOPS, name, &base).await?;
    scheduler.stop().await;
    Ok(())
}

async fn break_worker(name: &str) -> Result<()> {
    let worker = goalmill_worker::start(worker_options(Arc::new(Idle))?).await?;
    let address = worker.address().context("it serves `/livez`")?;
    breaks(worker.supervisor(), WORKER_LOOPS, name, &format!("http://{address}")).await
}

/// Does not end.
struct Hangs;

#[async_trait]
impl Executor for Hangs {
    async fn execute(&self, _: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_ends_fails_its_worker() -> Result<()> {
    let options = worker_options(Arc::new(Hangs))?;
    let extras = Extras::default();
    let broker = options.broker.clone();
    let scheduler = SchedulerOptions { settings: settings(), broker, clock: Clock::system(), random: Random::system() };
    let scheduler = goalmill_scheduler::start_with(scheduler, extras).await?;
    let worker = goalmill_worker::start(options).await?;
    worker.ready().await;
    scheduler.refresh_agents().await?;
    let plans = format!("{}/v1/plans", scheduler.api_url().context("it serves the API")?);
    submit_to(&http_client(), &plans, &one_step_plan("broken")).await?;
    let base = format!("http://{}", worker.address().context("it serves `/livez`")?);
    // Only a worker with a task drains so long that its drain can be broken.
    until(SOON, async || metrics_of(&base).await.contains("\ngoalmill_worker_slots_busy 1\n")).await;
    let ended = tokio::select! {
        () = worker.drain() => bail!("it drains while a task runs"),
        ended = breaks(worker.supervisor(), DRAINING_LOOPS, "drain", &base) => ended,
    };
    scheduler.stop().await;
    ended
}

async fn metrics_of(base: &str) -> String {
    let Ok(answer) = http_client().get(format!("{base}/metrics")).send().await else { return String::new() };
    answer.text().await.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_of_a_start_that_ends_fails_the_start() -> Result<()> {
    let mut settings = settings();
    settings.redis.url = format!("redis://127.0.0.1:{}", free_port()?);
    let broker = goalmill_broker::redis::connect(&settings.redis).await?;
    let options = SchedulerOptions { settings, broker, clock: Clock::system(), random: Random::system() };
    let extras = Extras::default();
    let supervisor = extras.supervisor.clone();
    let breaking = async {
        until(SOON, async || supervisor.loops().contains("starting_api")).await;
        supervisor.break_loop("starting_api");
        pending::<()>().await;
    };
    let ended = tokio::select! {
        ended = tokio::time::timeout(END, goalmill_scheduler::start_with(options, extras)) => ended?.err(),
        () = breaking => None,
    };
    let expected = "loop `starting_api` panicked: it was broken on purpose";
    assert!(matches!(&ended, Some(SchedulerStartError::Loop(reason)) if reason == expected), "{ended:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_loop_that_ends_fails_its_role() -> Result<()> {
    try_join_all(SCHEDULER_LOOPS.iter().map(|name| break_scheduler(name))).await?;
    try_join_all(WORKER_LOOPS.iter().map(|name| break_worker(name))).await?;
    Ok(())
}
