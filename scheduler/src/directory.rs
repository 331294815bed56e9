//! Who is there: a snapshot of the registry and of the live workers, refreshed in the background.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use goalmill_broker::{Broker, BrokerError};
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::config::Settings;
use goalmill_common::event::Route;
use goalmill_common::id::AgentType;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use goalmill_engine::validate::{Catalogue, Policy, permit_routed};
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;

use crate::router::{self, Router};

/// How often workers are looked at; their slots decide how many tasks may be out.
const REFRESH: Duration = Duration::from_secs(1);

/// What is known of agents and workers.
pub(crate) struct Directory {
    broker: Arc<dyn Broker>,
    window_min: u32,
    /// A worker that was silent for so long counts as gone.
    alive_ms: u64,
    known: RwLock<Known>,
    /// Held while everything is read: what was read earlier must not take the place of what was read later.
    reading: Mutex<()>,
    /// Those who want to know when windows have become wider or narrower.
    heard_by: std::sync::Mutex<Vec<Weak<Notify>>>,
    router: Router,
}

#[derive(Default)]
struct Known {
    agents: Arc<Vec<Agent>>,
    workers: Arc<Vec<WorkerBeat>>,
    slots: BTreeMap<AgentType, u32>,
    paused: BTreeSet<AgentType>,
}

impl Directory {
    pub(crate) fn new(broker: Arc<dyn Broker>, settings: &Settings) -> Self {
        Self {
            broker,
            window_min: settings.scheduler.window_min,
            alive_ms: settings.worker.heartbeat_ms * 4,
            known: RwLock::default(),
            reading: Mutex::default(),
            heard_by: std::sync::Mutex::default(),
            router: Router::new(settings.router.clone()),
        }
    }

    /// Tasks of an agent type that one shard may have out: twice the live slots, or the least that is set; none
    /// while its queue is paused.
    pub(crate) fn window(&self, agent_type: &AgentType) -> u32 {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.paused.contains(agent_type) {
            return 0;
        }
        self.window_min.max(known.slots.get(agent_type).copied().unwrap_or(0) * 2)
    }

    /// Is notified when windows change: steps that waited for room may find it.
    ///
    /// One for each that waits, in the order in which they came: a simulation must see the same order twice.
    pub(crate) fn window_changes(&self) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        self.heard_by.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&notify));
        notify
    }

    fn tell_window_changes(&self) {
        self.heard_by.lock().unwrap_or_else(PoisonError::into_inner).retain(|notify| {
            let notify = notify.upgrade();
            notify.iter().for_each(|notify| notify.notify_one());
            notify.is_some()
        });
    }

    pub(crate) fn agents(&self) -> Arc<Vec<Agent>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).agents.clone()
    }

    pub(crate) fn workers(&self) -> Arc<Vec<WorkerBeat>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).workers.clone()
    }

    /// Agents, their actions, how long these take, and the live workers, to hold plans against.
    pub(crate) fn catalogue(&self) -> Catalogue {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let (agents, workers) = (known.agents.clone(), known.workers.clone());
        drop(known);
        Catalogue::of(&agents).with_workers(&workers).with_durations(self.router.durations())
    }

    /// The router, which knows the registered agents.
    pub(crate) fn router(&self) -> &Router {
        &self.router
    }

    /// Lets the router choose for the steps that ask for it; gives its choices, and what of them policy wants told.
    pub(crate) fn route(&self, plan: &mut Plan, policy: &Policy) -> Result<(Vec<Route>, Vec<Issue>), Vec<Issue>> {
        let routes = router::route_plan(plan, &self.router)?;
        let odd = permit_routed(plan, &routes, policy)?;
        Ok((routes, odd))
    }

    /// Reads registry and workers anew.
    pub(crate) async fn refresh(&self) -> Result<(), BrokerError> {
        let _reading = self.reading.lock().await;
        let agents = self.broker.agents().await?;
        let workers = self.broker.workers(self.alive_ms).await?;
        let paused = self.broker.paused_queues().await?;
        let mut slots = BTreeMap::<AgentType, u32>::new();
        for worker in workers.iter().filter(|w| !w.draining) {
            for agent_type in &worker.agents {
                *slots.entry(agent_type.clone()).or_default() += worker.slots;
            }
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if *known.agents != agents {
            self.router.update(agents.clone());
            known.agents = Arc::new(agents);
        }
        known.workers = Arc::new(workers);
        let has_changed = known.slots != slots || known.paused != paused;
        (known.slots, known.paused) = (slots, paused);
        drop(known);
        if has_changed {
            self.tell_window_changes();
        }
        Ok(())
    }

    /// Refreshes until stopped.
    pub(crate) async fn keep_fresh(&self, stop: &CancellationToken) {
        let mut silent = false;
        while !stop.is_cancelled() {
            let refreshed = self.refresh().await;
            self.router.prepare(&[]).await;
            match refreshed {
                Ok(()) => silent = false,
                Err(error) if !silent => {
                    tracing::warn!("agents and workers cannot be read: {error}");
                    silent = true;
                }
                Err(_) => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(REFRESH) => {}
            }
        }
    }
}
