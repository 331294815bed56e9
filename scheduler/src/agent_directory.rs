//! Agent directory: a snapshot of the registered agents and live workers, refreshed in the background.
//!
//! Workers are read once a second. The registry, which may be large, is read after change messages, and periodically,
//! because messages may be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use goalmill_broker::{Broadcast, Broker, BrokerError, KeyTypeMismatch, QueueState, RefusedCard, Registry};
use goalmill_common::agent::{ActionOffer, Agent, HEARTBEATS_MISSED_MAX, WorkerBeat};
use goalmill_common::config::Settings;
use goalmill_common::event::Route;
use goalmill_common::id::AgentType;
use goalmill_common::number::to_u32;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use goalmill_engine::CardLookup;
use goalmill_plan::validate::{Catalogue, Policy, permit_routed};
use goalmill_planning::agent_planner::working_agents;
use goalmill_router::{self as router, PlanRoutes, Router};
use goalmill_shard::Quota;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Interval of reading workers, whose slots determine windows.
const REFRESH: Duration = Duration::from_secs(1);
/// Maximum age of cached queue lengths.
const QUEUES_MAX_AGE: Duration = Duration::from_secs(5);
/// Longest wait for registry messages in one read, in milliseconds.
const BLOCK_MS: u64 = 30_000;

/// Most refused cards that are listed.
pub(crate) const REFUSED_SHOWN: usize = 20;

/// Snapshot of agents, workers and queues.
pub(crate) struct Directory {
    broker: Arc<dyn Broker>,
    window_min: u32,
    /// A worker without heartbeats for this time counts as dead, in milliseconds.
    alive_ms: u64,
    /// Maximum interval of reading the registry.
    registry: Duration,
    known: RwLock<Known>,
    /// Held during each read, so that an older result never replaces a newer one.
    reading: Mutex<()>,
    /// Notified when windows change.
    window_listeners: std::sync::Mutex<Vec<Weak<Notify>>>,
    router: Router,
    queues: Mutex<Option<CachedQueues>>,
}

/// Cached queue lengths.
struct CachedQueues {
    queues: Arc<Vec<QueueState>>,
    at: Instant,
    /// How long the read took.
    took: Duration,
}

#[derive(Default)]
struct Known {
    agents: Arc<Vec<Agent>>,
    /// Cards that cannot be used.
    refused: Arc<Vec<RefusedCard>>,
    workers: Arc<Vec<WorkerBeat>>,
    slots: BTreeMap<AgentType, u32>,
    /// Agent types that have slots; none before the workers were read.
    live: Option<Arc<BTreeSet<AgentType>>>,
    paused: BTreeSet<AgentType>,
    /// Queues to which nothing can be sent, because their key is no stream.
    quarantined: BTreeMap<AgentType, KeyTypeMismatch>,
}

fn count_quarantined(known: &Known) {
    let count = to_u32(known.quarantined.len());
    metrics::gauge!("goalmill_queues_quarantined").set(f64::from(count));
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").finish_non_exhaustive()
    }
}

impl Directory {
    pub(crate) fn new(broker: Arc<dyn Broker>, settings: &Settings) -> Self {
        Self {
            broker,
            window_min: settings.scheduler.window_min,
            alive_ms: settings.worker.heartbeat_ms * HEARTBEATS_MISSED_MAX,
            registry: Duration::from_millis(settings.router.refresh_ms),
            known: RwLock::default(),
            reading: Mutex::default(),
            window_listeners: std::sync::Mutex::default(),
            router: Router::new(settings.router.clone()),
            queues: Mutex::default(),
        }
    }

    /// Tasks of an agent type that one shard may have in flight: twice the live slots, at least the configured minimum;
    /// none while its queue is paused or quarantined.
    pub(crate) fn window(&self, agent_type: &AgentType) -> u32 {
        if self.is_held(agent_type) {
            return 0;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        self.window_min.max(known.slots.get(agent_type).copied().unwrap_or(0) * 2)
    }

    /// Whether a queue is paused or quarantined, so that it gets no tasks.
    pub(crate) fn is_held(&self, agent_type: &AgentType) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.paused.contains(agent_type) || known.quarantined.contains_key(agent_type)
    }

    /// A listener for window changes, after which waiting steps may have room.
    ///
    /// Listeners are notified in the order of their creation, so that simulations repeat exactly.
    pub(crate) fn window_changes(&self) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        self.window_listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&notify));
        notify
    }

    /// Quarantines a queue: it gets no tasks, and its steps stay ready.
    pub(crate) fn quarantine(&self, agent_type: &AgentType, mismatch: &KeyTypeMismatch) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.quarantined.insert(agent_type.clone(), mismatch.clone()).is_none() {
            tracing::error!("queue `{agent_type}` is in quarantine: {}", mismatch.text());
        }
        count_quarantined(&known);
    }

    /// Releases a queue from quarantine.
    pub(crate) fn end_quarantine(&self, agent_type: &AgentType) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let was_there = known.quarantined.remove(agent_type).is_some();
        count_quarantined(&known);
        drop(known);
        if was_there {
            tracing::info!("queue `{agent_type}` released from quarantine");
            self.notify_window_listeners();
        }
    }

    /// The queues in quarantine.
    pub(crate) fn quarantined(&self) -> BTreeMap<AgentType, KeyTypeMismatch> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).quarantined.clone()
    }

    fn notify_window_listeners(&self) {
        self.window_listeners.lock().unwrap_or_else(PoisonError::into_inner).retain(|notify| {
            let notify = notify.upgrade();
            notify.iter().for_each(|notify| notify.notify_one());
            notify.is_some()
        });
    }

    pub(crate) fn agents(&self) -> Arc<Vec<Agent>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).agents.clone()
    }

    /// Cards in the registry that cannot be used.
    pub(crate) fn refused(&self) -> Arc<Vec<RefusedCard>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).refused.clone()
    }

    pub(crate) fn workers(&self) -> Arc<Vec<WorkerBeat>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).workers.clone()
    }

    /// Slots of live workers that are not draining, by agent type.
    pub(crate) fn slots(&self) -> BTreeMap<AgentType, u32> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).slots.clone()
    }

    /// The agent types that have live workers; none before these were read.
    pub(crate) fn live(&self) -> Option<Arc<BTreeSet<AgentType>>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).live.clone()
    }

    /// Agents, actions, their durations and live workers, to validate plans against.
    pub(crate) fn catalogue(&self) -> Catalogue {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let (agents, workers) = (known.agents.clone(), known.workers.clone());
        drop(known);
        Catalogue::from_agents(&agents).with_workers(&workers).with_durations(self.router.durations())
    }

    /// The router, which knows the registered agents.
    pub(crate) fn router(&self) -> &Router {
        &self.router
    }

    /// Routes the `auto` steps of a plan. Returns routes and warnings: agent types without a live worker, and those of the
    /// policy.
    pub(crate) fn route(&self, plan: &mut Plan, policy: &Policy) -> Result<(Vec<Route>, Vec<Issue>), Vec<Issue>> {
        let begun = Instant::now();
        let PlanRoutes { mut routes, mut warnings, fallbacks } = router::route_plan(plan, &self.router)?;
        let took_ms = begun.elapsed().as_secs_f64() * 1e3 / routes.len().max(1) as f64;
        routes.iter_mut().for_each(|route| route.took_ms = Some((took_ms * 1e3).round() / 1e3));
        let routed = routes.iter().map(|route| &route.step).chain(&fallbacks).collect();
        warnings.extend(permit_routed(plan, &routed, policy)?);
        Ok((routes, warnings))
    }

    /// The lengths of all queues. They are cached, so that at most a thirtieth of the time is spent on reading them.
    pub(crate) async fn queues(&self) -> Result<Arc<Vec<QueueState>>, BrokerError> {
        let mut seen = self.queues.lock().await;
        if let Some(seen) = seen.as_ref().filter(|seen| seen.at.elapsed() < (30 * seen.took).min(QUEUES_MAX_AGE)) {
            return Ok(seen.queues.clone());
        }
        let begun = Instant::now();
        let queues = Arc::new(self.broker.queues().await?);
        *seen = Some(CachedQueues { queues: queues.clone(), at: Instant::now(), took: begun.elapsed() });
        Ok(queues)
    }

    /// Reads registry and workers.
    pub(crate) async fn refresh(&self) -> Result<(), BrokerError> {
        self.refresh_registry().await?;
        self.refresh_workers().await
    }

    async fn refresh_registry(&self) -> Result<(), BrokerError> {
        let _reading = self.reading.lock().await;
        let Registry { agents, refused } = self.broker.agents().await?;
        self.update_refused(refused);
        if *self.agents() != agents {
            // The router indexes outside of the lock, so that dispatch does not wait.
            self.router.update_agents(working_agents(&agents));
            self.known.write().unwrap_or_else(PoisonError::into_inner).agents = Arc::new(agents);
        }
        Ok(())
    }

    /// Logs newly refused cards.
    fn update_refused(&self, refused: Vec<RefusedCard>) {
        let before = self.refused();
        if *before == refused {
            return;
        }
        for card in refused.iter().filter(|card| !before.contains(card)).take(REFUSED_SHOWN) {
            tracing::warn!("{}", card.text());
        }
        metrics::gauge!("goalmill_agent_cards_refused").set(f64::from(to_u32(refused.len())));
        self.known.write().unwrap_or_else(PoisonError::into_inner).refused = Arc::new(refused);
    }

    async fn refresh_workers(&self) -> Result<(), BrokerError> {
        let _reading = self.reading.lock().await;
        let workers = self.broker.workers(self.alive_ms).await?;
        let paused = self.broker.paused_queues().await?;
        let mut slots = BTreeMap::<AgentType, u32>::new();
        for worker in workers.iter().filter(|w| !w.draining) {
            for agent_type in &worker.agents {
                *slots.entry(agent_type.clone()).or_default() += worker.slots;
            }
        }
        let live: BTreeSet<AgentType> =
            slots.iter().filter(|(_, slots)| **slots > 0).map(|(agent_type, _)| agent_type.clone()).collect();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.workers = Arc::new(workers);
        let has_changed = known.slots != slots || known.paused != paused;
        (known.slots, known.paused) = (slots, paused);
        if known.live.as_deref() != Some(&live) {
            let live = Arc::new(live);
            self.router.update_live(live.clone());
            known.live = Some(live);
        }
        drop(known);
        if has_changed {
            self.notify_window_listeners();
        }
        Ok(())
    }

    /// Refreshes until stopped.
    pub(crate) async fn keep_fresh(&self, stop: &CancellationToken) {
        tokio::join!(self.look_around(stop), self.hear_changes(stop));
    }

    /// Reads workers once a second, and the registry when its maximum interval is over.
    async fn look_around(&self, stop: &CancellationToken) {
        let mut silent = false;
        let mut read_at = Instant::now();
        while !stop.is_cancelled() {
            let is_due = read_at.elapsed() >= self.registry;
            let refreshed = if is_due { self.refresh().await } else { self.refresh_workers().await };
            if is_due && refreshed.is_ok() {
                read_at = Instant::now();
            }
            self.router.prefetch(&[]).await;
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

    /// Reads the registry after change messages.
    async fn hear_changes(&self, stop: &CancellationToken) {
        let mut deaf = false;
        while let Some(Err(error)) = stop.run_until_cancelled(self.hear_while_connected(&mut deaf)).await {
            if !deaf {
                let every_s = self.registry.as_secs();
                tracing::warn!(
                    "registry messages cannot be received, the registry is read every {every_s} s instead: {error}"
                );
                deaf = true;
            }
            stop.run_until_cancelled(tokio::time::sleep(REFRESH)).await;
        }
    }

    /// - `deaf`: whether the failure was logged; reset when messages can be received.
    async fn hear_while_connected(&self, deaf: &mut bool) -> Result<Infallible, BrokerError> {
        let mut reader = self.broker.reader().await?;
        // Subscribes before reading, so that no change is missed between.
        reader.messages(0).await?;
        *deaf = false;
        loop {
            self.refresh_registry().await?;
            // Many changes in a row are read together.
            tokio::time::sleep(REFRESH).await;
            while !reader.messages(BLOCK_MS).await?.iter().any(|said| matches!(said, Broadcast::AgentsChanged(_))) {}
        }
    }
}

impl CardLookup for Directory {
    fn offer(&self, agent_type: &AgentType, action: &str) -> ActionOffer {
        self.router.offer(agent_type, action)
    }

    fn has_side_effect(&self, action: &str) -> bool {
        self.router.has_side_effect(action)
    }
}

/// The window of each agent type, which follows the slots of its live workers. Steps without an agent type have none.
impl Quota for Directory {
    fn in_flight_max(&self, agent_type: &AgentType) -> u32 {
        if agent_type.as_str().is_empty() { u32::MAX } else { self.window(agent_type) }
    }
}

#[cfg(test)]
mod tests {
    use goalmill_broker::embedded;
    use goalmill_common::clock::Clock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_changed_registry_is_read_when_that_is_said() {
        let (directory, broker) = directory();
        let stop = CancellationToken::new();
        let heard = async {
            until_known(&directory, "first").await;
            broker.register(&Agent::named("second".into())).await.expect("it is registered");
            until_known(&directory, "second").await;
            stop.cancel();
        };
        broker.register(&Agent::named("first".into())).await.expect("it is registered");
        let begun = Instant::now();
        tokio::join!(directory.hear_changes(&stop), heard);
        assert!(begun.elapsed() < directory.registry, "nobody waits for the next look around");
    }

    #[tokio::test(start_paused = true)]
    async fn many_changes_in_a_row_are_read_together() {
        let (directory, broker) = directory();
        let stop = CancellationToken::new();
        let begun = Instant::now();
        let heard = async {
            for n in 0..3 {
                broker.register(&Agent::named(format!("agent_{n}").into())).await.expect("it is registered");
                until_known(&directory, &format!("agent_{n}")).await;
            }
            stop.cancel();
        };
        tokio::join!(directory.hear_changes(&stop), heard);
        assert!(begun.elapsed() >= 2 * REFRESH, "each reading is of the whole registry, and builds an index");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unheard_change_is_seen_within_the_time_that_is_set() {
        let (directory, broker) = directory();
        broker.register(&Agent::named("quiet".into())).await.expect("it is registered");
        let stop = CancellationToken::new();
        let begun = Instant::now();
        let seen = async {
            until_known(&directory, "quiet").await;
            stop.cancel();
        };
        tokio::join!(directory.look_around(&stop), seen);
        let (took, limit) = (begun.elapsed(), directory.registry);
        assert!(took >= limit && took <= limit + 2 * REFRESH, "{took:?}");
        assert_eq!(directory.router().route("quiet").len(), 1, "the router knows it too");
    }

    fn directory() -> (Directory, Arc<dyn Broker>) {
        let broker = embedded::open(None, Clock::system()).expect("it opens");
        (Directory::new(broker.clone(), &Settings::default()), broker)
    }

    async fn until_known(directory: &Directory, agent: &str) {
        while !directory.agents().iter().any(|known| known.agent_type.as_str() == agent) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
