//! What the loops of one worker share.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goalmill_broker::{Broker, Waker};
use goalmill_common::agent::Agent;
use goalmill_common::clock::Clock;
use goalmill_common::config::{WorkerSettings, environment};
use goalmill_common::id::{AgentType, WorkerId, is_id};
use goalmill_common::limits::Limits;
use goalmill_common::plan::Retry;
use goalmill_common::random::Random;
use goalmill_common::report::Report;
use metrics::gauge;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cancel::Superseded;
use crate::executor::{self, Executor};
use crate::link::Link;
use crate::meter::Meter;
use crate::report::Outbox;
use crate::table::Table;
use crate::{Options, StartError};

/// Milliseconds one blocking read waits.
pub(crate) const BLOCK_MS: u64 = 2_000;

/// How long to wait before Redis is tried again, by failures in a row.
const RECONNECT: Retry =
    Retry { max: u32::MAX, initial_ms: 50, factor: 2.0, max_ms: 2_000, jitter: goalmill_common::plan::Jitter::Full };

/// An agent type that this worker serves.
pub(crate) struct Served {
    pub executor: Arc<dyn Executor>,
    pub card: Option<Agent>,
    pub meter: Meter,
}

/// One worker: what it is, what it holds, and the signals between its loops.
pub(crate) struct Worker {
    pub id: WorkerId,
    pub host: String,
    pub started_ms: u64,
    pub settings: WorkerSettings,
    pub limits: Limits,
    pub broker: Arc<dyn Broker>,
    pub clock: Clock,
    pub random: Random,
    pub served: BTreeMap<AgentType, Served>,
    /// The keys of `served`, as the broker wants them.
    pub agent_types: Vec<AgentType>,
    pub table: Table,
    pub outbox: Outbox,
    pub link: Link,
    pub superseded: Mutex<Superseded>,
    /// Wake-ups of the reads that wait: of the puller and of the listener.
    pub wakers: Mutex<BTreeMap<&'static str, Arc<dyn Waker>>>,
    /// Nothing new is pulled any more.
    pub draining: CancellationToken,
    /// What runs is handed back.
    pub hurry: CancellationToken,
    /// The loops end.
    pub stop: CancellationToken,
    /// Everything has ended.
    pub ended: CancellationToken,
    /// Whether the end was begun.
    pub ending: AtomicBool,
    pub pulling: TaskTracker,
    pub tasks: TaskTracker,
    pub loops: TaskTracker,
}

impl Worker {
    pub fn new(options: Options) -> Result<(Self, UnboundedReceiver<Report>), StartError> {
        let Options { settings, limits, broker, clock, random, executors, kinds } = options;
        let mut served = BTreeMap::new();
        for (agent_type, executor) in executors {
            let (card, meter) = (executor.card(), Meter::new(&agent_type));
            served.insert(agent_type, Served { executor, card, meter });
        }
        for (agent_type, value) in &settings.agents {
            let built = executor::build(agent_type, value, &limits, &kinds)
                .map_err(|reason| StartError::Executor { agent_type: agent_type.clone(), reason })?;
            let meter = Meter::new(agent_type);
            served.insert(agent_type.clone(), Served { executor: built.executor, card: built.card, meter });
        }
        if served.is_empty() {
            return Err(StartError::NoAgents);
        }
        let host = host();
        let id = if settings.id.is_empty() { name(&host, &random) } else { settings.id.as_str().into() };
        let (outbox, outgoing) = Outbox::new();
        let worker = Self {
            id,
            host,
            started_ms: clock.now_ms(),
            table: Table::new(settings.slots.max(1)),
            limits,
            settings,
            broker,
            clock,
            random,
            agent_types: served.keys().cloned().collect(),
            served,
            outbox,
            link: Link::default(),
            superseded: Mutex::default(),
            wakers: Mutex::default(),
            draining: CancellationToken::new(),
            hurry: CancellationToken::new(),
            stop: CancellationToken::new(),
            ended: CancellationToken::new(),
            ending: AtomicBool::new(false),
            pulling: TaskTracker::new(),
            tasks: TaskTracker::new(),
            loops: TaskTracker::new(),
        };
        Ok((worker, outgoing))
    }

    /// The jittered wait after `failures` in a row, counted from 1.
    pub fn backoff(&self, failures: u32) -> Duration {
        Duration::from_millis(RECONNECT.wait_ms(failures, self.random.draw()))
    }

    /// Remembers how to end the waits of one loop's reader.
    pub fn keep_waker(&self, of: &'static str, waker: Arc<dyn Waker>) {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).insert(of, waker);
    }

    /// Ends the waits of all readers.
    pub async fn wake(&self) {
        let wakers: Vec<_> = self.wakers.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for waker in wakers {
            waker.wake().await;
        }
    }

    /// Sets the gauges.
    pub fn set_gauges(&self) {
        gauge!("goalmill_build_info", "version" => env!("CARGO_PKG_VERSION"), "component" => "worker").set(1.0);
        gauge!("goalmill_worker_slots").set(f64::from(self.settings.slots));
        gauge!("goalmill_worker_slots_busy").set(self.table.len() as f64);
        gauge!("goalmill_reports_unsent").set(self.outbox.unsent() as f64);
        gauge!("goalmill_redis_up").set(f64::from(u8::from(self.link.state().is_ok())));
    }
}

fn host() -> String {
    let named = environment("HOSTNAME").or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    named.map(|name| name.trim().to_owned()).filter(|name| is_id(name)).unwrap_or_else(|| "worker".into())
}

/// A new worker's name: its host and 40 bits of chance.
fn name(host: &str, random: &Random) -> WorkerId {
    let host: String = host.chars().take(100).collect();
    format!("{host}-{}", goalmill_common::id::base32(u128::from(random.draw()), 8)).into()
}
