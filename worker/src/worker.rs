//! The state that the loops of one worker share.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goalmill_broker::{Broker, BrokerError, StoreClock, Waker};
use goalmill_common::agent::Agent;
use goalmill_common::clock::Clock;
use goalmill_common::config::{WorkerSettings, environment};
use goalmill_common::id::{AgentType, WorkerId, is_id};
use goalmill_common::limits::TaskLimits;
use goalmill_common::plan::Retry;
use goalmill_common::random::Random;
use goalmill_common::report::Report;
use goalmill_common::supervisor::Supervisor;
use metrics::gauge;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent_hold::Throttle;
use crate::cancel::Superseded;
use crate::connection::BrokerConnection;
use crate::executor::{self, AgentSetup, Executor};
use crate::held_tasks::HeldTasks;
use crate::metrics::TaskMetrics;
use crate::report::ReportOutbox;
use crate::{WorkerOptions, WorkerStartError};

/// Milliseconds that one blocking read waits.
pub(crate) const BLOCK_MS: u64 = 2_000;

/// Backoff of reconnections, by consecutive failures.
const RECONNECT: Retry =
    Retry { max: u32::MAX, initial_ms: 50, factor: 2.0, max_ms: 2_000, jitter: goalmill_common::plan::Jitter::Full };

/// An agent type that this worker serves.
pub(crate) struct Served {
    pub executor: Arc<dyn Executor>,
    /// The card of the settings, which replaces the executor's.
    pub settings_card: Option<Agent>,
    /// Agent types that steps of the plans that it answers with may have.
    pub sub_plans: Arc<[String]>,
    pub metrics: TaskMetrics,
    pub throttle: Throttle,
}

impl Served {
    /// The card to register; `None` when only the name is known.
    pub fn card(&self, agent_type: &AgentType) -> Option<Agent> {
        let own = || self.executor.card().map(|card| Agent { agent_type: agent_type.clone(), ..card });
        self.settings_card.clone().or_else(own)
    }
}

/// One worker: its identity, its tasks and the signals between its loops.
pub(crate) struct Worker {
    pub id: WorkerId,
    pub host: String,
    pub started_ms: u64,
    pub settings: WorkerSettings,
    /// How long stored payloads are kept, in milliseconds.
    pub blob_ms: u64,
    /// Those of the installation, once it was read.
    task_limits: Mutex<TaskLimits>,
    pub broker: Arc<dyn Broker>,
    /// The time of the store, by `store_clock`.
    pub clock: Clock,
    pub store_clock: StoreClock,
    pub random: Random,
    pub served: BTreeMap<AgentType, Served>,
    /// The keys of `served`, as the broker expects them.
    pub agent_types: Vec<AgentType>,
    pub held_tasks: HeldTasks,
    pub outbox: ReportOutbox,
    pub connection: BrokerConnection,
    pub superseded: Mutex<Superseded>,
    /// Whether the listener hears of cancellations; without it, a pull looks for them itself.
    pub hears_cancellations: AtomicBool,
    /// End the blocking reads of the puller and of the cancellation listener.
    pub wakers: Mutex<BTreeMap<&'static str, Arc<dyn Waker>>>,
    /// The worker pulls no more tasks.
    pub draining: CancellationToken,
    /// Running tasks are released without waiting for them.
    pub force: CancellationToken,
    /// The loops end.
    pub stop: CancellationToken,
    /// Everything has ended.
    pub ended: CancellationToken,
    /// Whether the shutdown has started.
    pub ending: AtomicBool,
    pub pulling: TaskTracker,
    pub tasks: TaskTracker,
    pub loops: TaskTracker,
    /// Watches the loops, the puller and the drain.
    pub supervisor: Supervisor,
}

impl Worker {
    pub fn new(options: WorkerOptions) -> Result<(Self, UnboundedReceiver<Report>), WorkerStartError> {
        let WorkerOptions { settings, limits, broker, clock, random, executors, kinds } = options;
        let mut served = BTreeMap::new();
        for (agent_type, executor) in executors {
            let metrics = TaskMetrics::new(&agent_type);
            let throttle = Throttle::default();
            let entry = Served { executor, settings_card: None, sub_plans: Arc::default(), metrics, throttle };
            served.insert(agent_type, entry);
        }
        for (agent_type, value) in &settings.agents {
            let AgentSetup { executor, card, sub_plans } = executor::build(agent_type, value, &limits, &kinds)
                .map_err(|reason| WorkerStartError::Executor { agent_type: agent_type.clone(), reason })?;
            let metrics = TaskMetrics::new(agent_type);
            let throttle = Throttle::default();
            let entry = Served { executor, settings_card: card, sub_plans, metrics, throttle };
            served.insert(agent_type.clone(), entry);
        }
        if served.is_empty() {
            return Err(WorkerStartError::NoAgents);
        }
        let host = host_name();
        let id = if settings.id.is_empty() { generate_id(&host, &random) } else { settings.id.as_str().into() };
        let (outbox, outgoing) = ReportOutbox::new();
        let worker = Self {
            id,
            host,
            started_ms: clock.now_ms(),
            held_tasks: HeldTasks::new(settings.slots.max(1)),
            blob_ms: limits.plan_ms_max,
            task_limits: Mutex::new((&limits).into()),
            settings,
            broker,
            store_clock: StoreClock::new(clock.clone()),
            clock,
            random,
            agent_types: served.keys().cloned().collect(),
            served,
            outbox,
            connection: BrokerConnection::default(),
            superseded: Mutex::default(),
            hears_cancellations: AtomicBool::new(false),
            wakers: Mutex::default(),
            draining: CancellationToken::new(),
            force: CancellationToken::new(),
            stop: CancellationToken::new(),
            ended: CancellationToken::new(),
            ending: AtomicBool::new(false),
            pulling: TaskTracker::new(),
            tasks: TaskTracker::new(),
            loops: TaskTracker::new(),
            supervisor: Supervisor::default(),
        };
        Ok((worker, outgoing))
    }

    /// The limits of the installation; those of the own settings until it was read.
    pub fn limits(&self) -> TaskLimits {
        *self.task_limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over the limits of the installation.
    pub fn apply_limits(&self, limits: TaskLimits) {
        *self.task_limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// Runs a loop until the worker stops.
    pub fn spawn_loop(&self, name: &'static str, run: impl Future<Output = ()> + Send + 'static) {
        self.spawn_watched(&self.loops, &self.stop, name, run);
    }

    /// Runs a part of the worker. The worker fails if it ends before it is over.
    pub fn spawn_watched(
        &self,
        tasks: &TaskTracker,
        over: &CancellationToken,
        name: &'static str,
        run: impl Future<Output = ()> + Send + 'static,
    ) {
        let over = over.clone();
        tasks.spawn(self.supervisor.clone().watch(name, move || over.is_cancelled(), run));
    }

    /// The jittered wait after consecutive `failures`, counted from 1.
    pub fn backoff(&self, failures: u32) -> Duration {
        Duration::from_millis(RECONNECT.wait_ms(failures, self.random.draw()))
    }

    /// The agent types whose tasks could start soon; `None` when all could.
    pub fn open_agent_types(&self) -> Option<Vec<AgentType>> {
        if !self.served.values().any(|served| served.throttle.is_on()) {
            return None;
        }
        let open = self.served.iter().filter(|(_, served)| served.throttle.has_room());
        Some(open.map(|(agent_type, _)| agent_type.clone()).collect())
    }

    /// Sets the waker of one loop's reader.
    pub fn set_waker(&self, of: &'static str, waker: Arc<dyn Waker>) {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).insert(of, waker);
    }

    /// Ends the blocking reads of all loops.
    pub async fn wake(&self) {
        let wakers: Vec<_> = self.wakers.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for waker in wakers {
            waker.wake().await;
        }
    }

    /// Sets the gauges.
    pub fn set_gauges(&self) {
        let (version, commit) = (env!("CARGO_PKG_VERSION"), goalmill_common::telemetry::commit());
        gauge!("goalmill_build_info", "version" => version, "commit" => commit, "component" => "worker").set(1.0);
        gauge!("goalmill_worker_slots").set(f64::from(self.settings.slots));
        gauge!("goalmill_worker_slots_busy").set(self.held_tasks.len() as f64);
        gauge!("goalmill_clock_skew_seconds").set(self.store_clock.skew_seconds());
        gauge!("goalmill_reports_unsent").set(self.outbox.unsent() as f64);
        let trouble = self.connection.state().err();
        let is_up = trouble.as_ref().is_none_or(|trouble| trouble.is_answer);
        gauge!("goalmill_redis_up").set(f64::from(u8::from(is_up)));
        let current = trouble.and_then(|trouble| trouble.reason);
        for reason in BrokerError::reasons() {
            gauge!("goalmill_redis_refusing", "reason" => reason).set(f64::from(u8::from(current == Some(reason))));
        }
    }
}

fn host_name() -> String {
    let named = environment("HOSTNAME").or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    named.map(|name| name.trim().to_owned()).filter(|name| is_id(name)).unwrap_or_else(|| "worker".into())
}

/// A worker id: the host name and 40 random bits.
fn generate_id(host: &str, random: &Random) -> WorkerId {
    let host: String = host.chars().take(100).collect();
    format!("{host}-{}", goalmill_common::id::base32(u128::from(random.draw()), 8)).into()
}
