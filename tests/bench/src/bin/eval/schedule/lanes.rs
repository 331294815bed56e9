//! Workers that sleep, in lanes: agent types of their own, so that plans in different lanes do not share workers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use goalmill_broker::redis;
use goalmill_common::clock::Clock;
use goalmill_common::config::WorkerSettings;
use goalmill_common::failure::{Failure, FailureClass::Permanent};
use goalmill_common::id::AgentType;
use goalmill_common::limits::Limits;
use goalmill_common::random::Random;
use goalmill_common::task::Task;
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::until_some;
use goalmill_worker::executor::{ExecutionResult, Executor, Kinds, Progress};
use goalmill_worker::{RunningWorker, WorkerOptions};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Until every worker must have shown life.
const START_LIMIT: Duration = Duration::from_mins(2);

/// Lanes, and the places for plans in them.
pub struct Lanes {
    free: Mutex<Vec<String>>,
    workers: Vec<RunningWorker>,
}

/// What a lane is made of.
#[derive(Clone, Copy)]
pub struct Lane {
    pub workers: usize,
    /// Tasks that each of them runs concurrently.
    pub slots: u32,
}

impl Lanes {
    /// Starts the workers of so many lanes and waits until they have shown life.
    ///
    /// - `places`: plans beside each other, shared out among the lanes.
    pub async fn start(server: &RedisServer, prefix: &str, lanes: usize, lane: Lane, places: usize) -> Result<Self> {
        let names: Vec<String> = (0..lanes).map(|n| format!("{prefix}_{n}")).collect();
        let mut workers = Vec::new();
        for name in &names {
            // As many connections as a process of its own would have.
            let broker = redis::connect(&server.settings()).await?;
            for _ in 0..lane.workers {
                let executors = BTreeMap::from([(AgentType::from(name.as_str()), Arc::new(Nap) as Arc<dyn Executor>)]);
                let settings = WorkerSettings { slots: lane.slots, ..WorkerSettings::default() };
                let (clock, random) = (Clock::system(), Random::system());
                let limits = Limits::default();
                let options = WorkerOptions {
                    settings,
                    limits,
                    broker: broker.clone(),
                    clock,
                    random,
                    executors,
                    kinds: Kinds::new(),
                };
                workers.push(goalmill_worker::start(options).await?);
            }
        }
        let wanted = workers.len();
        let broker = redis::connect(&server.settings()).await?;
        let alive = until_some(START_LIMIT, async || {
            let beats = broker.workers(60_000).await.ok()?;
            let ours = beats.iter().filter(|beat| beat.agents.iter().any(|agent| agent.as_str().starts_with(prefix)));
            (ours.count() >= wanted).then_some(())
        });
        ensure!(alive.await.is_some(), "not all of {wanted} workers have shown life within {START_LIMIT:?}");
        let free = names.iter().cycle().take(places).cloned().collect();
        Ok(Self { free: Mutex::new(free), workers })
    }

    /// A lane with a free place.
    pub fn take(&self) -> Option<String> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    pub fn give_back(&self, lane: String) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
    }

    /// Ends all workers.
    pub async fn end(self) {
        futures_util::future::join_all(self.workers.iter().map(RunningWorker::release_all)).await;
    }
}

/// Sleeps for `seconds`.
struct Nap;

#[async_trait]
impl Executor for Nap {
    async fn execute(&self, task: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        let seconds = task.inputs.value()["seconds"].as_f64().and_then(|s| Duration::try_from_secs_f64(s).ok());
        let Some(nap) = seconds else {
            return Err(Failure::new(Permanent, "INPUT_INVALID", "`seconds` is not a number of seconds"));
        };
        tokio::time::sleep(nap).await;
        Ok(ExecutionResult::new(json!({})))
    }
}
