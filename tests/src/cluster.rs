//! A cluster of real processes over a private Redis, to be killed, suspended and disconnected.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use goalmill_broker::{Broker, redis};
use goalmill_common::event::Record;
use goalmill_common::id::{PlanId, ShardId};
use goalmill_common::plan::Plan;
use goalmill_common::view::PlanSummary;
use goalmill_engine::{PlanState, replay};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::audit::{Expect, audit};
use crate::installation::{http_client, read_log};
use crate::process::{Process, binary};
use crate::redis_server::{self, RedisServer};
use crate::wait::{SOON, until_some};

/// Timeout of a process start.
const START_LIMIT: Duration = Duration::from_mins(2);
/// Timeout of one API call.
const CALL_LIMIT: Duration = Duration::from_mins(1);

/// Shards of a new installation.
pub const SHARDS: u16 = 4;

/// Short leases, so that tests need not wait long.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("GOALMILL__SCHEDULER__HEARTBEAT_MS", "200"),
    ("GOALMILL__SCHEDULER__SHARD_LEASE_MS", "2000"),
    ("GOALMILL__SCHEDULER__TASK_LEASE_MS", "3000"),
    ("GOALMILL__SCHEDULER__RECLAIM_MS", "200"),
    ("GOALMILL__WORKER__LEASE_MARGIN_MS", "500"),
    ("GOALMILL__WORKER__HEARTBEAT_MS", "300"),
];

/// The step that blocks a plan.
const GATE: &str = "gate";

/// The plan with one more step that awaits an answer: it cannot end before [`Cluster::open_gate`].
pub fn gated(mut plan: Value) -> Value {
    let gate = json!({"id": GATE, "agent_type": "echo", "ask": {"question": "go on?", "into": "answer"}});
    plan["steps"].as_array_mut().into_iter().for_each(|steps| steps.push(gate.clone()));
    plan
}

/// Options of a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    pub schedulers: usize,
    pub workers: usize,
    /// Concurrent tasks of each worker.
    pub slots: u32,
    pub redis: redis_server::Options,
    /// URL of Redis for the processes, such as that of a [`crate::proxy::Proxy`]; by default the server's.
    pub through: Option<String>,
    /// Further environment variables of all processes.
    pub environment: Vec<(&'static str, String)>,
    /// Settings file of all processes, TOML.
    pub settings: String,
    /// The program; by default the one built beside the test.
    pub binary: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            schedulers: 2,
            workers: 3,
            slots: 8,
            redis: redis_server::Options::default(),
            through: None,
            environment: Vec::new(),
            settings: String::new(),
            binary: None,
        }
    }
}

/// A scheduler or a worker.
pub struct Node {
    pub process: Process,
    /// Its id.
    pub id: String,
    /// URL of its API or health endpoint.
    pub url: String,
}

/// Schedulers and workers as processes, and the Redis between them.
pub struct Cluster {
    pub redis: RedisServer,
    pub schedulers: Vec<Node>,
    pub workers: Vec<Node>,
    /// Connects to Redis directly, past any proxy.
    pub broker: Arc<dyn Broker>,
    pub http: reqwest::Client,
    pub dir: TempDir,
    pub options: Options,
    started: usize,
}

impl Cluster {
    /// Starts all processes over a new server and waits until they are ready and every shard has an owner.
    pub async fn start(options: Options) -> Result<Self> {
        let redis = RedisServer::start_with(options.redis.clone()).await?;
        Self::over(redis, options).await
    }

    /// The same over a server that runs.
    pub async fn over(redis: RedisServer, options: Options) -> Result<Self> {
        let broker: Arc<dyn Broker> = redis::connect(&redis.settings()).await?;
        let dir = tempfile::Builder::new().prefix("goalmill-cluster-").tempdir()?;
        std::fs::write(dir.path().join("goalmill.toml"), &options.settings)?;
        let (schedulers, workers) = (options.schedulers, options.workers);
        let http = http_client();
        let mut made =
            Self { redis, schedulers: Vec::new(), workers: Vec::new(), broker, http, dir, options, started: 0 };
        for _ in 0..schedulers {
            let node = made.start_scheduler().await?;
            made.schedulers.push(node);
        }
        for _ in 0..workers {
            let node = made.start_worker().await?;
            made.workers.push(node);
        }
        made.wait_ready().await?;
        made.wait_shared_out().await?;
        Ok(made)
    }

    /// Waits until every shard has an owner among the schedulers, and each of them has one.
    pub async fn wait_shared_out(&self) -> Result<()> {
        let shared = until_some(START_LIMIT, async || self.is_shared_out().await.then_some(())).await;
        ensure!(shared.is_some(), "the shards were not shared out: {}", self.log_tails());
        Ok(())
    }

    /// Whether every shard has an owner among the schedulers, and each of them has one.
    async fn is_shared_out(&self) -> bool {
        let mut owners = BTreeSet::new();
        for shard in 0..SHARDS {
            let Ok(Some(owner)) = self.broker.owner(ShardId(shard)).await else { return false };
            owners.insert(owner.holder);
        }
        self.schedulers.iter().all(|node| owners.contains(&node.id)) && owners.len() == self.schedulers.len()
    }

    /// Waits until every process is ready.
    pub async fn wait_ready(&mut self) -> Result<()> {
        for node in self.schedulers.iter_mut().chain(&mut self.workers) {
            node.process.wait_ready(&node.url, START_LIMIT).await?;
        }
        Ok(())
    }

    /// A command of the binary in its own directory, with the cluster's settings.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.options.binary.clone().unwrap_or_else(binary));
        command.args(arguments).current_dir(self.dir.path()).env("HOME", self.dir.path()).env("NO_COLOR", "1");
        command.envs(ENVIRONMENT.iter().copied());
        command.envs(self.options.environment.iter().map(|(name, value)| (*name, value)));
        command
    }

    fn redis_url(&self) -> String {
        self.options.through.clone().unwrap_or_else(|| self.redis.url())
    }

    /// Starts one more scheduler; it is not among [`Self::schedulers`] yet.
    pub async fn start_scheduler(&mut self) -> Result<Node> {
        let id = self.next_id("scheduler");
        let redis = self.redis_url();
        let arguments = ["scheduler", "--redis", &redis, "--listen", "127.0.0.1:0", "--metrics", "off"];
        let mut command = self.command(&arguments);
        command.env("GOALMILL__SCHEDULER__ID", &id);
        self.node(id, command, "the api listens on ").await
    }

    /// Starts one more worker with the demo agents; it is not among [`Self::workers`] yet.
    pub async fn start_worker(&mut self) -> Result<Node> {
        let id = self.next_id("worker");
        let (redis, slots) = (self.redis_url(), self.options.slots.to_string());
        let arguments = ["--redis", &redis, "--demo", "--slots", &slots, "--listen", "127.0.0.1:0", "--id", &id];
        let command = self.command(&[&["worker"], &arguments[..]].concat());
        self.node(id, command, "health and metrics are at ").await
    }

    /// Starts a worker that serves these agent types of the settings, over this URL of Redis; it is not among
    /// [`Self::workers`].
    pub async fn start_worker_of(&mut self, agents: &str, redis: &str) -> Result<Node> {
        let id = self.next_id("worker");
        let arguments = ["worker", "--redis", redis, "--agents", agents, "--listen", "127.0.0.1:0", "--id", &id];
        let command = self.command(&arguments);
        self.node(id, command, "health and metrics are at ").await
    }

    fn next_id(&mut self, role: &str) -> String {
        self.started += 1;
        format!("{role}-{}", self.started)
    }

    async fn node(&self, id: String, mut command: Command, address: &str) -> Result<Node> {
        let log = self.dir.path().join(format!("{id}.log"));
        let mut process = Process::spawn(&mut command, &log)?;
        let line = process.wait_line(address, START_LIMIT).await?;
        let url = line.split(address).nth(1).and_then(|rest| rest.split_whitespace().next());
        let url = url.with_context(|| format!("no address in `{line}`"))?.to_owned();
        Ok(Node { process, id, url })
    }

    /// Kills a scheduler and starts another in its place.
    pub async fn replace_scheduler(&mut self, place: usize) -> Result<()> {
        self.schedulers[place].process.kill9();
        self.schedulers[place] = self.start_scheduler().await?;
        Ok(())
    }

    /// Kills a worker and starts another in its place.
    pub async fn replace_worker(&mut self, place: usize) -> Result<()> {
        self.workers[place].process.kill9();
        self.workers[place] = self.start_worker().await?;
        Ok(())
    }

    /// Kills every process at once, Redis too, and starts all of them again; the server reads its data from disk.
    pub async fn replace_everything(&mut self) -> Result<()> {
        for node in self.schedulers.iter_mut().chain(&mut self.workers) {
            node.process.kill9();
        }
        self.redis.kill9();
        self.redis.restart().await?;
        for place in 0..self.schedulers.len() {
            self.replace_scheduler(place).await?;
        }
        for place in 0..self.workers.len() {
            self.replace_worker(place).await?;
        }
        Ok(())
    }

    /// Index of the scheduler that owns a plan's shard.
    pub async fn owner(&self, plan: &PlanId) -> Option<usize> {
        let owner = self.broker.owner(plan.shard()?).await.ok()??;
        self.schedulers.iter().position(|node| node.id == owner.holder)
    }

    /// `GET` from one scheduler: status and JSON.
    pub async fn get_from(&self, place: usize, path: &str) -> Result<(u16, Value)> {
        let url = format!("{}{path}", self.schedulers[place].url);
        let answer = self.http.get(url).timeout(CALL_LIMIT).send().await?;
        let status = answer.status().as_u16();
        Ok((status, answer.json().await?))
    }

    /// `POST` to one scheduler: status and JSON.
    pub async fn post_to(&self, place: usize, path: &str, key: &str, body: &Value) -> Result<(u16, Value)> {
        let url = format!("{}{path}", self.schedulers[place].url);
        let request = self.http.post(url).timeout(CALL_LIMIT).header("idempotency-key", key).json(body);
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        Ok((status, answer.json().await?))
    }

    /// Submits a plan under a key to the first scheduler that accepts it, with retries.
    pub async fn submit(&self, key: &str, plan: &Value, limit: Duration) -> Result<PlanId> {
        let mut place = 0;
        let mut last = String::new();
        let accepted = until_some(limit, async || {
            place = (place + 1) % self.schedulers.len();
            match self.post_to(place, "/v1/plans", key, plan).await {
                Ok((202, answer)) => answer["plan_id"].as_str().map(|id| Ok(PlanId::from(id))),
                Ok((status, answer)) if status < 500 => Some(Err(format!("refused with {status}: {answer}"))),
                Ok((status, answer)) => {
                    last = format!("{status}: {answer}");
                    None
                }
                Err(error) => {
                    last = error.to_string();
                    None
                }
            }
        });
        match accepted.await {
            Some(Ok(id)) => Ok(id),
            Some(Err(why)) => bail!(why),
            None => bail!("nobody took `{key}` within {limit:?}: {last}"),
        }
    }

    /// Answers the question of a plan that is [`gated`].
    pub async fn open_gate(&self, plan: &PlanId) -> Result<()> {
        let (path, answer) = (format!("/v1/plans/{plan}/steps/{GATE}:answer"), json!({"answer": "yes"}));
        let mut place = 0;
        let mut last = String::new();
        let opened = until_some(SOON, async || {
            place = (place + 1) % self.schedulers.len();
            match self.post_to(place, &path, "gate", &answer).await {
                // It was answered before, and that was not heard.
                Ok((200 | 409, _)) => return Some(()),
                Ok((status, answer)) => last = format!("{status}: {answer}"),
                Err(error) => last = error.to_string(),
            }
            None
        });
        opened.await.with_context(|| format!("the gate of plan {plan} cannot be opened: {last}"))
    }

    /// Whether a plan is final, by its summary.
    pub async fn has_ended(&self, plan: &PlanId) -> bool {
        self.broker.summary(plan).await.is_ok_and(|summary| summary.contains_key("finished"))
    }

    /// Waits until a plan is final; the error says why it is not.
    pub async fn await_end(&self, plan: &PlanId, limit: Duration) -> Result<()> {
        if until_some(limit, async || self.has_ended(plan).await.then_some(())).await.is_some() {
            return Ok(());
        }
        let mut explained = Value::Null;
        for place in 0..self.schedulers.len() {
            if let Ok((200, answer)) = self.get_from(place, &format!("/v1/plans/{plan}/explain")).await {
                explained = answer;
            }
        }
        bail!("plan {plan} has not ended within {limit:?}: {explained:#}\n{}", self.log_tails())
    }

    /// A plan's log, as it stands in Redis.
    pub async fn log(&self, plan: &PlanId) -> Result<Vec<Record>> {
        read_log(self.broker.as_ref(), plan).await
    }

    /// A plan's log as JSON, one value a line.
    pub async fn lines(&self, plan: &PlanId) -> Result<Vec<Value>> {
        let log = self.log(plan).await?;
        log.iter().map(|record| Ok(serde_json::from_str(&record.to_line())?)).collect()
    }

    /// Waits for a line of a plan's log that `wanted` selects.
    pub async fn wait_event(&self, plan: &PlanId, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let found =
            until_some(START_LIMIT, async || self.lines(plan).await.ok()?.into_iter().find(|line| wanted(line)));
        found.await.with_context(|| format!("plan {plan} has no such event\n{}", self.log_tails()))
    }

    /// Checks a completed plan against every guarantee: the log obeys the rules and each step completed once; its fold
    /// equals the served plan and the summary; no stream entry is left.
    pub async fn verify_completed(&self, plan: &PlanId) -> Result<PlanState> {
        let log = self.log(plan).await?;
        let mut state = None;
        for record in &log {
            replay(&mut state, record)?;
        }
        let state = state.context("the log is empty")?;
        let spec: Plan = state.plan().as_ref().clone();
        let lines: Vec<Value> = log.iter().map(|r| serde_json::from_str(&r.to_line())).collect::<Result<_, _>>()?;
        let found = audit(&spec, &lines, Expect::Completed);
        ensure!(found.is_empty(), "plan {plan}: {}\n{}", found[..found.len().min(10)].join("\n"), self.log_tails());
        let mut completions = BTreeMap::<&str, usize>::new();
        for line in lines.iter().filter(|line| line["type"] == "step_completed") {
            *completions.entry(line["step_id"].as_str().unwrap_or_default()).or_default() += 1;
        }
        for step in &spec.steps {
            let times = completions.get(step.id.as_str()).copied().unwrap_or(0);
            ensure!(times == 1, "step `{}` of plan {plan} completed {times} times", step.id);
        }
        let folded = serde_json::to_value(state.view(true))?;
        for place in 0..self.schedulers.len() {
            // A scheduler that has just begun, or that has just lost its connection, asks to be asked again.
            let mut last = Value::Null;
            let served = until_some(SOON, async || match self.get_from(place, &format!("/v1/plans/{plan}")).await {
                Ok((200, served)) => Some(served),
                Ok((_, problem)) => {
                    last = problem;
                    None
                }
                Err(error) => {
                    last = error.to_string().into();
                    None
                }
            });
            let served = served.await.with_context(|| format!("plan {plan} is not served: {last}"))?;
            ensure!(served == folded, "plan {plan} is served as {served}, its log says {folded}");
        }
        let summary = PlanSummary::from_fields(plan.clone(), &self.broker.summary(plan).await?);
        let summary = serde_json::to_value(summary)?;
        let of_log = serde_json::to_value(state.summary())?;
        ensure!(summary == of_log, "the summary of plan {plan} is {summary}, its log says {of_log}");
        Ok(state)
    }

    /// Whether the cluster is idle: no active plan, no waiting or pending task, no unacknowledged submission.
    pub async fn is_idle(&self) -> Result<bool> {
        for shard in 0..SHARDS {
            if !self.broker.active(ShardId(shard)).await?.is_empty() {
                return Ok(false);
            }
        }
        let queues = self.broker.queues().await?;
        Ok(queues.iter().all(|queue| queue.waiting == 0 && queue.pending == 0))
    }

    /// The end of each process's log.
    pub fn log_tails(&self) -> String {
        let mut text = String::new();
        for node in self.schedulers.iter().chain(&self.workers) {
            let log = node.process.output();
            let lines: Vec<&str> = log.lines().collect();
            text.push_str(&format!("--- {}\n{}\n", node.id, lines[lines.len().saturating_sub(12)..].join("\n")));
        }
        text
    }
}
