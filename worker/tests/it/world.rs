//! A small world around one worker: an embedded back end with one shard, virtual time, scripted executors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use goalmill_broker::{Broker, Claim, Commit, Committed, InboxCursor, Install, TaskWrite};
use goalmill_common::clock::Clock;
use goalmill_common::config::WorkerSettings;
use goalmill_common::failure::Failure;
use goalmill_common::id::{AgentType, PlanId, ShardId};
use goalmill_common::json::Json;
use goalmill_common::keys::Keys;
use goalmill_common::limits::{Limits, TaskLimits};
use goalmill_common::number::milliseconds;
use goalmill_common::random::Random;
use goalmill_common::report::{Report, What};
use goalmill_common::task::Task;
use goalmill_common::wire::{Inbox, write_task};
use goalmill_worker::executor::{Build, ExecutionResult, Executor, Progress};
use goalmill_worker::{RunningWorker, WorkerOptions};
use serde_json::Value;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::faulty::{Faults, Faulty};

pub const SHARD: ShardId = ShardId(0);
/// Lease of every task, in milliseconds.
pub const LEASE_MS: u64 = 3_000;
/// How long any condition may take, in virtual milliseconds.
const DEADLINE_MS: u64 = 120_000;

pub struct World {
    pub broker: Arc<Faulty>,
    pub faults: Arc<Faults>,
    pub clock: Clock,
    commits: AtomicU64,
}

impl World {
    pub async fn new() -> Self {
        let began = Instant::now();
        let clock = Clock::from_fn(move || 1_795_293_490_279 + milliseconds(began.elapsed()));
        let inner = goalmill_broker::embedded::open(None, clock.clone()).expect("an empty back end opens");
        inner
            .open(&Install { instance: "one".into(), shards: 1, limits: TaskLimits::default() })
            .await
            .expect("it installs");
        let claim = Claim { holder: "test".into(), token: "owner".into(), seen: None };
        assert!(inner.acquire(SHARD, &claim).await.expect("it answers"));
        let faults = Arc::new(Faults::default());
        Self { broker: Arc::new(Faulty { inner, faults: faults.clone() }), faults, clock, commits: AtomicU64::new(0) }
    }

    /// The real back end, without its faults.
    pub fn inner(&self) -> &Arc<dyn Broker> {
        &self.broker.inner
    }

    #[expect(clippy::unused_self, reason = "reads as the settings of a worker of this world")]
    pub fn settings(&self) -> WorkerSettings {
        WorkerSettings { id: "w1".into(), slots: 4, lease_margin_ms: 500, ..WorkerSettings::default() }
    }

    pub async fn start(&self, settings: WorkerSettings, executors: Vec<(&str, Arc<dyn Executor>)>) -> RunningWorker {
        goalmill_worker::start(self.options(settings, executors)).await.expect("it starts")
    }

    pub fn options(&self, settings: WorkerSettings, executors: Vec<(&str, Arc<dyn Executor>)>) -> WorkerOptions {
        let executors: BTreeMap<AgentType, _> = executors.into_iter().map(|(name, e)| (name.into(), e)).collect();
        WorkerOptions {
            settings,
            limits: Limits::default(),
            broker: self.broker.clone(),
            clock: self.clock.clone(),
            random: Random::seeded(7),
            executors,
            kinds: [("demo", Box::new(goalmill_demo::agents::executor) as Build)].into(),
        }
    }

    /// Puts tasks on their queues, as a shard's owner does.
    pub async fn queue(&self, tasks: &[Task]) {
        let writes = tasks.iter().map(|t| TaskWrite { agent_type: t.agent_type.clone(), data: write_task(t) });
        self.queue_raw(writes.collect()).await;
    }

    pub async fn queue_raw(&self, tasks: Vec<TaskWrite>) {
        let commit = Commit {
            shard: SHARD,
            token: "owner".into(),
            number: self.commits.fetch_add(1, Ordering::SeqCst) + 1,
            cursor: None,
            requests_cursor: None,
            plans: Vec::new(),
            tasks,
            acknowledged: Vec::new(),
            full_check: false,
        };
        assert_eq!(self.inner().commit(&commit).await.expect("it commits"), Committed::Applied);
    }

    /// Every entry of the shard's inbox.
    pub async fn entries(&self) -> Vec<Vec<Report>> {
        let mut reader = self.inner().reader().await.expect("it opens");
        let entries = reader.inbox(SHARD, &InboxCursor::start(), 100_000, 0).await.expect("it reads");
        entries
            .iter()
            .map(|entry| match entry.parse() {
                Inbox::Reports(reports) => reports,
                other @ (Inbox::Request(_) | Inbox::Unreadable(_) | Inbox::Misplaced) => {
                    panic!("not reports: {other:?}")
                }
            })
            .collect()
    }

    pub async fn reports(&self) -> Vec<Report> {
        self.entries().await.concat()
    }

    /// Waits for so many reports, and gives all there are.
    pub async fn wait_reports(&self, count: usize) -> Vec<Report> {
        self.until("reports", async || self.reports().await.len() >= count).await;
        self.reports().await
    }

    /// Waits for the last word on a step.
    pub async fn wait_final(&self, step: &str) -> Report {
        let ends =
            |r: &Report| r.step.as_str() == step && !matches!(r.what, What::Started | What::Progress | What::Call);
        self.until("a final report", async || self.reports().await.iter().any(ends)).await;
        self.reports().await.into_iter().find(ends).expect("it was there")
    }

    /// Waits until `holds`, for at most two virtual minutes.
    pub async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let waiting = async {
            while !holds().await {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        assert!(timeout(Duration::from_millis(DEADLINE_MS), waiting).await.is_ok(), "waited in vain for {what}");
    }
}

/// A task of the only plan.
pub fn task(step: &str, agent_type: &str, inputs: Value) -> Task {
    Task {
        plan: PlanId::derive_in(SHARD, "the plan"),
        family: None,
        step: step.into(),
        attempt: 1,
        token: format!("token-{step}").as_str().into(),
        agent_type: agent_type.into(),
        action: String::new(),
        description: String::new(),
        inputs: Json::from(inputs),
        expected_outputs: Vec::new(),
        expected_output: String::new(),
        output_schema: None,
        timeout_ms: 60_000,
        lease_ms: LEASE_MS,
        reply: Keys::default().reports(SHARD),
        idempotency_key: format!("key-{step}"),
        calls: Vec::new(),
        callback: None,
        budget: None,
        traceparent: None,
    }
}

type Work = Box<
    dyn Fn(Task, Progress, CancellationToken) -> BoxFuture<'static, Result<ExecutionResult, Failure>> + Send + Sync,
>;

/// An executor that does as it is told, and counts.
pub struct Scripted {
    work: Work,
    pub begun: AtomicU64,
    pub running: AtomicU64,
    /// Most that run concurrently.
    pub widest: AtomicU64,
}

impl Scripted {
    pub fn new<F>(work: impl Fn(Task, Progress, CancellationToken) -> F + Send + Sync + 'static) -> Arc<Self>
    where
        F: Future<Output = Result<ExecutionResult, Failure>> + Send + 'static,
    {
        let (begun, running, widest) = Default::default();
        Arc::new(Self { work: Box::new(move |t, p, c| Box::pin(work(t, p, c))), begun, running, widest })
    }

    /// Takes so many milliseconds, then succeeds.
    pub fn taking(ms: u64) -> Arc<Self> {
        Self::new(move |_, _, _| async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(ExecutionResult::default())
        })
    }

    /// Never ends by itself.
    pub fn stalling() -> Arc<Self> {
        Self::new(|_, _, _| std::future::pending())
    }

    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    pub fn running(&self) -> u64 {
        self.running.load(Ordering::SeqCst)
    }
}

struct Running_<'a>(&'a AtomicU64);
impl Drop for Running_<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Executor for Scripted {
    async fn execute(
        &self,
        task: &Task,
        progress: &Progress,
        token: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.widest.fetch_max(now, Ordering::SeqCst);
        let _running = Running_(&self.running);
        (self.work)(task.clone(), progress.clone(), token.clone()).await
    }
}
