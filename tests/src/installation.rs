//! An installation within the test's process: schedulers and workers over one back end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use goalmill_broker::{Broker, embedded, redis};
use goalmill_common::clock::Clock;
use goalmill_common::config::Settings;
use goalmill_common::event::{Record, read_entry};
use goalmill_common::id::{AgentType, PlanId};
use goalmill_common::random::Random;
use goalmill_scheduler::{Extras, RunningScheduler as Scheduler};
use goalmill_worker::RunningWorker as Worker;
use serde_json::Value;

use crate::redis_server::RedisServer;
use crate::wait::{SOON, until_some};

/// Schedulers and workers in this process; stop them before dropping it.
pub struct Installation {
    pub broker: Arc<dyn Broker>,
    pub schedulers: Vec<Scheduler>,
    pub workers: Vec<Worker>,
    pub settings: Settings,
    pub http: reqwest::Client,
}

/// Settings for tests: free ports, looks in quick succession; and leases and limits that a machine which stands
/// still for a while does not break.
pub fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.api.listen = "127.0.0.1:0".into();
    settings.api.answer_ms = 60_000;
    settings.metrics.listen = String::new();
    settings.scheduler.heartbeat_ms = 200;
    settings.scheduler.shard_lease_ms = 60_000;
    settings.scheduler.task_lease_ms = 60_000;
    settings.scheduler.reclaim_ms = 200;
    settings
}

impl Installation {
    /// One scheduler and one worker with the demo agents, over the embedded back end.
    pub async fn embedded() -> Result<Self> {
        Self::start(embedded::open(None, Clock::system())?, settings()).await
    }

    /// The same over Redis.
    pub async fn over(server: &RedisServer) -> Result<Self> {
        Self::start(redis::connect(&server.settings()).await?, settings()).await
    }

    pub async fn start(broker: Arc<dyn Broker>, settings: Settings) -> Result<Self> {
        let http = http_client();
        let mut made = Self { broker, schedulers: Vec::new(), workers: Vec::new(), settings, http };
        made.add_scheduler().await?;
        made.add_worker(16).await?;
        Ok(made)
    }

    pub async fn add_scheduler(&mut self) -> Result<()> {
        self.add_scheduler_with_clock(Clock::system()).await
    }

    /// Adds a scheduler on a machine with this clock.
    pub async fn add_scheduler_with_clock(&mut self, clock: Clock) -> Result<()> {
        self.add_scheduler_with(clock, Extras::default()).await
    }

    /// Adds a scheduler of another build, which writes logs of this format.
    pub async fn add_scheduler_of_format(&mut self, log_format: u32) -> Result<()> {
        self.add_scheduler_with(Clock::system(), Extras { log_format: Some(log_format), ..Extras::default() }).await
    }

    async fn add_scheduler_with(&mut self, clock: Clock, extras: Extras) -> Result<()> {
        let options = goalmill_scheduler::SchedulerOptions {
            settings: self.settings.clone(),
            broker: self.broker.clone(),
            clock,
            random: Random::system(),
        };
        self.schedulers.push(Box::pin(goalmill_scheduler::start_with(options, extras)).await?);
        Ok(())
    }

    pub async fn add_worker(&mut self, slots: u32) -> Result<()> {
        self.add_worker_with_clock(slots, Clock::system()).await
    }

    /// Adds a worker on a machine with this clock.
    pub async fn add_worker_with_clock(&mut self, slots: u32, clock: Clock) -> Result<()> {
        let mut settings = self.settings.worker.clone();
        settings.slots = slots;
        let options = goalmill_worker::WorkerOptions {
            settings,
            limits: self.settings.limits.clone(),
            broker: self.broker.clone(),
            clock,
            random: Random::system(),
            executors: goalmill_demo::agents::executors(),
            kinds: Default::default(),
        };
        self.workers.push(goalmill_worker::start(options).await?);
        Ok(())
    }

    /// The address of an API path, at the first scheduler.
    pub fn url(&self, path: &str) -> String {
        let api = self.schedulers[0].api_url().expect("the settings name an address");
        format!("{api}{path}")
    }

    /// The addresses of all schedulers.
    pub fn urls(&self) -> Vec<String> {
        self.schedulers.iter().filter_map(|scheduler| scheduler.api_url()).collect()
    }

    /// `GET`, as JSON.
    pub async fn get(&self, path: &str) -> Result<Value> {
        Ok(self.http.get(self.url(path)).send().await?.json().await?)
    }

    /// `POST` with a JSON body: the status and the answer.
    pub async fn post(&self, path: &str, body: &Value) -> Result<(u16, Value)> {
        let answer = self.http.post(self.url(path)).json(body).send().await?;
        let status = answer.status().as_u16();
        Ok((status, answer.json().await?))
    }

    /// Submits a plan and returns its id.
    pub async fn submit(&self, plan: &Value) -> Result<PlanId> {
        self.accept("/v1/plans", plan).await
    }

    /// Submits a document to a path of the API, and returns the id of its plan.
    pub async fn accept(&self, path: &str, document: &Value) -> Result<PlanId> {
        submit_to(&self.http, &self.url(path), document).await
    }

    /// Waits until a plan is final and returns how it is served.
    pub async fn await_end(&self, plan: &PlanId, limit: Duration) -> Result<Value> {
        let ended = until_some(limit, async || {
            let summary = self.broker.summary(plan).await.ok()?;
            summary.contains_key("finished").then_some(())
        });
        if ended.await.is_none() {
            let explained = self.get(&format!("/v1/plans/{plan}/explain")).await?;
            bail!("plan {plan} has not ended within {limit:?}: {explained:#}");
        }
        self.get(&format!("/v1/plans/{plan}")).await
    }

    /// A plan's log, as it stands in the journal.
    pub async fn log(&self, plan: &PlanId) -> Result<Vec<Record>> {
        read_log(self.broker.as_ref(), plan).await
    }

    /// Stops everything, workers first.
    pub async fn stop(self) {
        for worker in &self.workers {
            worker.drain().await;
        }
        for scheduler in self.schedulers {
            scheduler.stop().await;
        }
    }
}

/// Submits a document to an address until a scheduler accepts it; fails when it is refused.
///
/// An answer of 503 is no refusal: a shard has no owner for a moment when schedulers start, or when a busy machine lets a
/// lease run out. All attempts have one key, so that one plan begins.
pub async fn submit_to(http: &reqwest::Client, url: &str, document: &Value) -> Result<PlanId> {
    let key = Random::system().token();
    let mut last = Value::Null;
    let accepted = until_some(SOON, async || {
        let attempt = async {
            let answer = http.post(url).header("Idempotency-Key", &key).json(document).send().await?;
            anyhow::Ok((answer.status().as_u16(), answer.json::<Value>().await?))
        };
        match attempt.await {
            Ok((202, answer)) => Some(answer["plan_id"].as_str().map(PlanId::from).context("a plan has an id")),
            Ok((503, answer)) => {
                last = answer;
                None
            }
            Ok((status, answer)) => Some(Err(anyhow!("refused with {status}: {answer:#}"))),
            Err(error) => Some(Err(error)),
        }
    });
    let accepted = accepted.await;
    accepted.unwrap_or_else(|| bail!("not accepted within {SOON:?}: {last:#}"))
}

/// A client for the API; sets the process-wide TLS provider when there is none.
pub fn http_client() -> reqwest::Client {
    goalmill_http::install_tls();
    // Long before the server ends an idle connection: a request must not meet its end.
    let builder = reqwest::Client::builder().pool_idle_timeout(Duration::from_secs(2));
    builder.build().expect("nothing is asked of it that it may not have")
}

/// A plan's whole log.
pub async fn read_log(broker: &dyn Broker, plan: &PlanId) -> Result<Vec<Record>> {
    let mut records: Vec<Record> = Vec::new();
    loop {
        let after = records.last().map_or(0, |record| record.seq);
        let entries = broker.log(plan, after, 1_000).await?;
        for entry in &entries {
            let time = goalmill_common::clock::parse_rfc3339(&entry.time).context("an entry has a time")?;
            records.extend(read_entry(&entry.events, time)?);
        }
        if entries.len() < 1_000 {
            return Ok(records);
        }
    }
}

/// A step of a plan document.
pub fn step(id: &str, agent_type: &str, dependencies: &[&str], inputs: Value) -> Value {
    serde_json::json!({"id": id, "agent_type": AgentType::from(agent_type), "dependencies": dependencies, "inputs": inputs})
}

/// A plan of one step for an agent type.
pub fn one_step_plan(agent_type: &str) -> Value {
    serde_json::json!({"steps": [step("a", agent_type, &[], serde_json::json!({}))]})
}
