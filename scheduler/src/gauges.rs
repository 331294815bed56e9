//! Polls broker health once a second and publishes gauges of plans, steps, queues and workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::try_join_all;
use goalmill_broker::{BrokerError, QueueState};
use goalmill_common::id::{AgentType, EntryId, Namespace, ShardId};
use metrics::gauge;

use crate::dead_letter_counter::OTHER;
use crate::health_monitor::CHECK_INTERVAL;
use crate::redis_gauges::set_redis;
use crate::scaling::{self, LoadPublisher};
use crate::scheduler::Scheduler;
use crate::shard::OwnedShards;

/// Sets the gauges of a scheduler that has not reached its store.
pub(crate) fn set_starting() {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), goalmill_common::telemetry::commit());
    gauge!("goalmill_build_info", "version" => version, "commit" => commit, "component" => "scheduler").set(1.0);
    gauge!("goalmill_scheduler_leader").set(0.0);
}

/// Checks broker health and publishes all gauges once a second, until stopped.
pub(crate) async fn run(scheduler: Arc<Scheduler>, shards: Arc<OwnedShards>) {
    let (mut gauges, mut publisher) = (Gauges::new(), LoadPublisher::default());
    while !scheduler.stop.is_cancelled() {
        let check = scheduler.broker.check_health().await;
        if let Ok(health) = &check {
            gauge!("goalmill_redis_memory_used_ratio").set(health.memory_used);
        }
        scheduler.health.store_check(check.clone());
        let probed = scheduler.health.probe(scheduler.broker.as_ref(), scheduler.shards).await;
        gauge!("goalmill_redis_writable").set(f64::from(u8::from(probed.is_ok())));
        let trouble = check.err().or(probed.err());
        set_redis(trouble.as_ref());
        scheduler.health.log_change(trouble.as_ref());
        gauge!("goalmill_clock_skew_seconds").set(scheduler.store_clock.skew_seconds());
        gauges.set_own(&scheduler, &shards);
        if let Err(error) = publisher.publish(&scheduler, &shards).await {
            tracing::debug!("step loads could not be published: {error}");
        }
        let owned = shards.ids();
        gauge!("goalmill_shards_owned").set(count(owned.len()));
        gauge!("goalmill_shards").set(f64::from(scheduler.shards));
        let leads = owned.contains(&ShardId(0));
        gauge!("goalmill_scheduler_leader").set(f64::from(u8::from(leads)));
        if let Err(error) = gauges.set_installation(&scheduler, &shards, leads).await {
            tracing::debug!("the queues could not be measured: {error}");
        }
        tokio::select! {
            biased;
            () = scheduler.stop.cancelled() => {}
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
    }
}

fn count(n: usize) -> f64 {
    u32::try_from(n).map_or(f64::from(u32::MAX), f64::from)
}

/// The gauges of one scheduler.
pub(crate) struct Gauges {
    steps: ByAgentType<2>,
    queues: ByAgentType<3>,
    oldest: ByAgentType<1>,
    scaling: ByAgentType<1>,
    slots: ByAgentType<1>,
    /// Whether the gauges of the installation were set.
    has_led: bool,
}

impl Gauges {
    pub(crate) fn new() -> Self {
        Self {
            steps: ByAgentType::new(["goalmill_steps_ready", "goalmill_steps_in_flight"]),
            queues: ByAgentType::new([
                "goalmill_stream_backlog_entries",
                "goalmill_stream_pending_entries",
                "goalmill_dead_letter_entries",
            ]),
            oldest: ByAgentType::new(["goalmill_stream_oldest_entry_age_seconds"]),
            scaling: ByAgentType::new(["goalmill_scaling_desired_slots"]),
            slots: ByAgentType::new(["goalmill_worker_slots_live"]),
            has_led: false,
        }
    }

    /// Sets the gauges of the shards that are owned here.
    pub(crate) fn set_own(&mut self, scheduler: &Scheduler, shards: &OwnedShards) {
        let sum = shards.counts.sum();
        let now_ms = scheduler.clock.now_ms();
        for (state, plans, oldest_ms) in sum.by_state() {
            let age_ms = oldest_ms.map_or(0, |oldest_ms| now_ms.saturating_sub(oldest_ms));
            gauge!("goalmill_plans", "state" => state.as_str()).set(plans as f64);
            gauge!("goalmill_plan_oldest_age_seconds", "state" => state.as_str()).set(age_ms as f64 / 1_000.0);
        }
        let (times, events) = sum.waits;
        gauge!("goalmill_waits_open", "for" => "time").set(times as f64);
        gauge!("goalmill_waits_open", "for" => "event").set(events as f64);
        let agent_types: BTreeSet<&AgentType> = sum.ready.keys().chain(sum.in_flight.keys()).collect();
        let count = |counts: &BTreeMap<AgentType, u64>, agent_type| counts.get(agent_type).copied().unwrap_or(0);
        let counts = agent_types.into_iter().map(|name| (name, [count(&sum.ready, name), count(&sum.in_flight, name)]));
        self.steps.set(scheduler.settings.metrics.agent_types_max, counts);
    }

    /// Sets the gauges of queues and workers. Only the leader sets them, so that sums over schedulers are right; a former
    /// leader sets them to 0.
    ///
    /// - `leads`: whether this scheduler is the leader.
    pub(crate) async fn set_installation(
        &mut self,
        scheduler: &Scheduler,
        shards: &OwnedShards,
        leads: bool,
    ) -> Result<(), BrokerError> {
        let most = scheduler.settings.metrics.agent_types_max;
        if leads {
            let queues = scheduler.directory.queues().await?;
            let counts = |queue: &QueueState| [queue.waiting, queue.pending, queue.dead_letters];
            self.queues.set(most, queues.iter().map(|queue| (&queue.agent_type, counts(queue))));
            let ages = oldest_entry_ages(scheduler, &queues[..most.min(queues.len())]).await?;
            self.oldest.set(most, ages.iter().map(|(agent_type, seconds)| (*agent_type, [*seconds])));
            let desired = scaling::desired(scheduler, shards, &queues).await?;
            self.scaling.set(most, desired.iter().map(|(agent_type, slots)| (agent_type, [*slots])));
            let slots = scheduler.directory.slots();
            self.slots.set(most, slots.iter().map(|(agent_type, slots)| (agent_type, [u64::from(*slots)])));
            let workers = scheduler.directory.workers();
            let draining = workers.iter().filter(|worker| worker.draining).count();
            set_workers(workers.len() - draining, draining);
            gauge!("goalmill_events_kept_ratio").set(kept_ratio(scheduler).await?);
        } else if self.has_led {
            self.queues.set(most, std::iter::empty());
            self.oldest.set(most, std::iter::empty());
            self.scaling.set(most, std::iter::empty());
            self.slots.set(most, std::iter::empty());
            set_workers(0, 0);
            gauge!("goalmill_events_kept_ratio").set(0.0);
        }
        self.has_led = leads;
        Ok(())
    }
}

/// The age of the oldest entry of each queue, in whole seconds by the back end's clock; 0 for an empty one. Streams are
/// trimmed below the oldest pending entry, so the first entry of a stream is the oldest that is not finished.
async fn oldest_entry_ages<'q>(
    scheduler: &Scheduler,
    queues: &'q [QueueState],
) -> Result<Vec<(&'q AgentType, u64)>, BrokerError> {
    let now_ms = scheduler.clock.now_ms();
    try_join_all(queues.iter().map(|queue| async move {
        if queue.waiting + queue.pending == 0 {
            return Ok((&queue.agent_type, 0));
        }
        let first = scheduler.broker.tasks(&queue.agent_type, &EntryId::start(), 1).await?;
        let age_ms = first.first().map_or(0, |task| now_ms.saturating_sub(task.entry.parts().0));
        Ok((&queue.agent_type, age_ms / 1_000))
    }))
    .await
}

/// The share of `events.kept_max` that the fullest namespace keeps, of those that the settings name.
async fn kept_ratio(scheduler: &Scheduler) -> Result<f64, BrokerError> {
    let settings = &scheduler.settings;
    let names =
        settings.namespaces.keys().chain(&settings.metrics.namespaces).map(|name| Namespace::from(name.as_str()));
    let namespaces: BTreeSet<Namespace> = names.chain([Namespace::default()]).collect();
    let counts = try_join_all(namespaces.iter().map(|namespace| scheduler.broker.count_kept_events(namespace))).await?;
    let most = counts.into_iter().max().unwrap_or(0);
    Ok(most as f64 / settings.events.kept_max.max(1) as f64)
}

fn set_workers(active: usize, draining: usize) {
    gauge!("goalmill_workers", "state" => "active").set(active as f64);
    gauge!("goalmill_workers", "state" => "draining").set(draining as f64);
}

/// Gauges with the label `agent_type`. Those of agent types without a count are set to 0.
struct ByAgentType<const N: usize> {
    names: [&'static str; N],
    /// The labels that were set before.
    labels: BTreeSet<String>,
}

impl<const N: usize> ByAgentType<N> {
    fn new(names: [&'static str; N]) -> Self {
        Self { names, labels: BTreeSet::new() }
    }

    /// - `most`: agent types with their own label; the rest share one.
    fn set<'a>(&mut self, most: usize, counts: impl Iterator<Item = (&'a AgentType, [u64; N])>) {
        let mut sums: BTreeMap<String, [u64; N]> =
            std::mem::take(&mut self.labels).into_iter().map(|label| (label, [0; N])).collect();
        for (n, (agent_type, counts)) in counts.enumerate() {
            let label = if n < most { agent_type.to_string() } else { OTHER.to_owned() };
            let sum = sums.entry(label).or_insert([0; N]);
            sum.iter_mut().zip(counts).for_each(|(sum, more)| *sum += more);
        }
        for (label, sum) in sums {
            for (name, value) in self.names.into_iter().zip(sum) {
                gauge!(name, "agent_type" => label.clone()).set(value as f64);
            }
            self.labels.insert(label);
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn what_is_not_counted_any_more_falls_to_zero_and_what_is_too_much_shares_a_label() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let names: [AgentType; 3] = ["a".into(), "b".into(), "c".into()];
        let mut gauges = ByAgentType::new(["tasks"]);
        let shown = |gauges: &mut ByAgentType<1>, counts: &[u64]| {
            metrics::with_local_recorder(&recorder, || {
                gauges.set(1, names.iter().zip(counts.iter().map(|count| [*count])));
            });
            ["a", "other"].map(|label| handle.render().contains(&format!("tasks{{agent_type=\"{label}\"}} 5")))
        };
        assert_eq!(shown(&mut gauges, &[5, 2, 3]), [true, true]);
        assert_eq!(shown(&mut gauges, &[5]), [true, false]);
        assert_eq!(shown(&mut gauges, &[]), [false, false]);
        assert!(handle.render().contains("tasks{agent_type=\"a\"} 0"));
    }
}
