//! How the back end feels, looked at once a second for everybody, and what is measured on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use goalmill_broker::{BrokerError, Health};
use goalmill_common::id::{AgentType, ShardId};
use goalmill_common::problem::{ErrorCode, Problem};
use metrics::gauge;
use tokio::time::Instant;

use crate::outage;
use crate::shard::Loops;
use crate::site::Site;

/// How often it is looked at.
const BEAT: Duration = Duration::from_secs(1);
/// Share of the memory limit above which nothing new is taken.
const MEMORY_USED_MAX: f64 = 0.8;
/// Label of the agent types that get none of their own.
const OTHER: &str = "other";

/// The last look.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    look: RwLock<Option<Result<Health, BrokerError>>>,
    /// When it was last tried whether commits can be written, and what came of it.
    probe: Mutex<Option<(Instant, Result<(), BrokerError>)>>,
}

impl Pulse {
    /// Whether something new may be taken; running plans go on in any case.
    pub(crate) fn admits(&self) -> Result<(), Problem> {
        match self.look.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(Err(error)) => Err(outage::problem(error)),
            Some(Ok(health)) if health.memory_used > MEMORY_USED_MAX => {
                Err(Problem::new(ErrorCode::MemoryPressure, "redis is short of memory; running plans go on"))
            }
            Some(Ok(_)) | None => self.writes(),
        }
    }

    /// Whether the last probe was refused by the server as a whole. A key of a wrong type concerns some plans only.
    fn writes(&self) -> Result<(), Problem> {
        match self.probe.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some((_, Err(error))) if !matches!(error, BrokerError::WrongType(_)) => Err(outage::problem(error)),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether commits can be written, tried at most once a second.
    pub(crate) async fn probe(&self, site: &Site) -> Result<(), BrokerError> {
        let last = self.probe.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, probed)) = last
            && at.elapsed() < BEAT
        {
            return probed;
        }
        let probed = site.broker.probe(site.shards).await;
        *self.probe.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), probed.clone()));
        probed
    }

    /// What was wrong with the back end at the last look, if anything.
    pub(crate) fn trouble(&self) -> Result<(), BrokerError> {
        match self.look.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(Err(error)) => Err(error.clone()),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Takes over a look that somebody else had.
    pub(crate) fn keep(&self, look: Result<Health, BrokerError>) {
        *self.look.write().unwrap_or_else(PoisonError::into_inner) = Some(look);
    }
}

/// Looks until stopped.
pub(crate) async fn run(site: Arc<Site>, loops: Loops) {
    let mut told = BTreeSet::new();
    while !site.stop.is_cancelled() {
        let look = site.broker.check().await;
        gauge!("goalmill_build_info", "version" => env!("CARGO_PKG_VERSION"), "component" => "scheduler").set(1.0);
        gauge!("goalmill_redis_up").set(f64::from(u8::from(look.is_ok())));
        if let Ok(health) = &look {
            gauge!("goalmill_redis_memory_used_ratio").set(health.memory_used);
        }
        site.pulse.keep(look);
        let can_write = site.pulse.probe(&site).await.is_ok();
        gauge!("goalmill_redis_writable").set(f64::from(u8::from(can_write)));
        tell(&site, &mut told);
        let owned = loops.owned();
        gauge!("goalmill_shards_owned").set(count(owned.len()));
        // One scheduler speaks for the installation, so that sums are right.
        let leads = owned.contains(&ShardId(0));
        gauge!("goalmill_scheduler_leader").set(f64::from(u8::from(leads)));
        if leads && let Err(error) = measure(&site).await {
            tracing::debug!("the queues could not be measured: {error}");
        }
        tokio::select! {
            biased;
            () = site.stop.cancelled() => {}
            () = tokio::time::sleep(BEAT) => {}
        }
    }
}

/// Sets the gauges of what the shards that are owned here hold.
///
/// - `told`: the agent types that have gauges. One that has nothing any more falls to 0.
fn tell(site: &Site, told: &mut BTreeSet<String>) {
    let sum = site.tallies.sum();
    let now_ms = site.clock.now_ms();
    for (state, plans, oldest_ms) in sum.by_state() {
        let age_ms = oldest_ms.map_or(0, |oldest_ms| now_ms.saturating_sub(oldest_ms));
        gauge!("goalmill_plans", "state" => state.as_str()).set(plans as f64);
        gauge!("goalmill_plan_oldest_age_seconds", "state" => state.as_str()).set(age_ms as f64 / 1_000.0);
    }
    let most = site.settings.metrics.agent_types_max;
    let mut sums: BTreeMap<String, [u64; 2]> = told.iter().map(|agent_type| (agent_type.clone(), [0; 2])).collect();
    let agent_types: BTreeSet<&AgentType> = sum.ready.keys().chain(sum.in_flight.keys()).collect();
    for (n, agent_type) in agent_types.into_iter().enumerate() {
        let [ready, in_flight] = sums.entry(label(n, most, agent_type)).or_default();
        *ready += sum.ready.get(agent_type).copied().unwrap_or(0);
        *in_flight += sum.in_flight.get(agent_type).copied().unwrap_or(0);
    }
    for (agent_type, [ready, in_flight]) in sums {
        gauge!("goalmill_steps_ready", "agent_type" => agent_type.clone()).set(ready as f64);
        gauge!("goalmill_steps_in_flight", "agent_type" => agent_type.clone()).set(in_flight as f64);
        told.insert(agent_type);
    }
}

/// Sets the gauges of queues and workers.
async fn measure(site: &Site) -> Result<(), BrokerError> {
    let most = site.settings.metrics.agent_types_max;
    let mut waiting = BTreeMap::<String, [u64; 3]>::new();
    for (n, queue) in site.directory.queues().await?.iter().enumerate() {
        let sums = waiting.entry(label(n, most, &queue.agent_type)).or_default();
        for (sum, more) in sums.iter_mut().zip([queue.waiting, queue.pending, queue.dead_letters]) {
            *sum += more;
        }
    }
    for (agent_type, [backlog, pending, dead]) in waiting {
        gauge!("goalmill_stream_backlog_entries", "agent_type" => agent_type.clone()).set(backlog as f64);
        gauge!("goalmill_stream_pending_entries", "agent_type" => agent_type.clone()).set(pending as f64);
        gauge!("goalmill_dead_letter_entries", "agent_type" => agent_type).set(dead as f64);
    }
    let workers = site.directory.workers();
    let draining = workers.iter().filter(|worker| worker.draining).count();
    gauge!("goalmill_workers", "state" => "active").set(count(workers.len() - draining));
    gauge!("goalmill_workers", "state" => "draining").set(count(draining));
    Ok(())
}

fn label(n: usize, most: usize, agent_type: &AgentType) -> String {
    if n < most { agent_type.to_string() } else { OTHER.to_owned() }
}

fn count(n: usize) -> f64 {
    u32::try_from(n).map_or(f64::from(u32::MAX), f64::from)
}
