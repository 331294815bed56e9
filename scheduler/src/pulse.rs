//! How the back end feels, looked at once a second for everybody, and what is measured on the way.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use goalmill_broker::{BrokerError, Health};
use goalmill_common::id::ShardId;
use goalmill_common::problem::{ErrorCode, Problem};
use metrics::gauge;
use tokio::time::Instant;

use crate::gauges::Gauges;
use crate::outage;
use crate::scaling::Publisher;
use crate::shard::Loops;
use crate::site::Site;

/// How often it is looked at.
const BEAT: Duration = Duration::from_secs(1);
/// Share of the memory limit above which nothing new is taken.
const MEMORY_USED_MAX: f64 = 0.8;

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
    let (mut gauges, mut publisher) = (Gauges::new(), Publisher::default());
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
        gauges.set_own(&site);
        if let Err(error) = publisher.publish(&site).await {
            tracing::debug!("other schedulers were not told what is in memory here: {error}");
        }
        let owned = loops.owned();
        gauge!("goalmill_shards_owned").set(count(owned.len()));
        let leads = owned.contains(&ShardId(0));
        gauge!("goalmill_scheduler_leader").set(f64::from(u8::from(leads)));
        if let Err(error) = gauges.set_installation(&site, leads).await {
            tracing::debug!("the queues could not be measured: {error}");
        }
        tokio::select! {
            biased;
            () = site.stop.cancelled() => {}
            () = tokio::time::sleep(BEAT) => {}
        }
    }
}

fn count(n: usize) -> f64 {
    u32::try_from(n).map_or(f64::from(u32::MAX), f64::from)
}
