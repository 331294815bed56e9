//! Roles whose log cannot be written work on; roles one of whose loops ends say so and end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, pipe};
use std::process::{Child, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use goalmill_broker::embedded;
use goalmill_common::agent::Agent;
use goalmill_common::clock::Clock;
use goalmill_common::config::WorkerSettings;
use goalmill_common::failure::Failure;
use goalmill_common::limits::Limits;
use goalmill_common::random::Random;
use goalmill_common::task::Task;
use goalmill_scheduler::{Extras, Hook, HookCall, HookError, Point, Ruling, SchedulerOptions};
use goalmill_tests::dev::program;
use goalmill_tests::installation::{http_client, one_step_plan, settings, submit_to};
use goalmill_tests::redis_server::{RedisServer, free_port, send};
use goalmill_tests::wait::{SOON, until_some};
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

/// Waits until `/livez` fails, and returns why.
async fn liveness_failure(base: &str) -> Result<String> {
    let (url, http) = (format!("{base}/livez"), http_client());
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
    let executor: Arc<dyn Executor> = Arc::new(Broken);
    let options = WorkerOptions {
        settings: WorkerSettings { listen: "127.0.0.1:0".into(), ..WorkerSettings::default() },
        limits: Limits::default(),
        broker: embedded::open(None, Clock::system())?,
        clock: Clock::system(),
        random: Random::system(),
        executors: BTreeMap::from([("broken".into(), executor)]),
        kinds: BTreeMap::default(),
    };
    let worker = goalmill_worker::start(options).await?;
    let reason = tokio::time::timeout(SOON, worker.failed()).await?;
    assert_eq!(reason, "loop `heartbeats` panicked: the card is broken");
    let address = worker.address().context("it serves `/livez`")?;
    assert!(liveness_failure(&format!("http://{address}")).await?.contains(&reason));
    Ok(())
}
