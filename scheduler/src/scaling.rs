//! Autoscaling numbers: all work of an agent type, on its stream and in the memory of schedulers.
//!
//! Streams are short, so most of a backlog is in the memory of owners. Each owner publishes the loads of its shards once a
//! second if they changed; every scheduler adds up the same numbers.

use std::collections::BTreeMap;

use goalmill_broker::{BrokerError, QueueState};
use goalmill_common::id::{AgentType, ShardId};
use goalmill_common::shard_load::{Load, Loads};

use crate::scheduler::Scheduler;
use crate::shard::OwnedShards;

/// Publishes the loads of shards that are owned here.
#[derive(Default)]
pub(crate) struct LoadPublisher {
    /// The last published load of each shard.
    published: BTreeMap<ShardId, Loads>,
}

impl LoadPublisher {
    /// Publishes changed loads, and those of newly owned shards.
    pub(crate) async fn publish(&mut self, scheduler: &Scheduler, shards: &OwnedShards) -> Result<(), BrokerError> {
        let loads = shards.counts.loads();
        let is_new = |(shard, loads): &(&ShardId, &Loads)| self.published.get(shard) != Some(loads);
        let news: Vec<_> = loads.iter().filter(is_new).map(|(shard, loads)| (*shard, loads.clone())).collect();
        if !news.is_empty() {
            scheduler.broker.share_loads(&news).await?;
        }
        self.published = loads;
        Ok(())
    }
}

/// The loads of all shards by agent type: current ones of owned shards, published ones of others.
pub(crate) async fn loads(scheduler: &Scheduler, owned: &OwnedShards) -> Result<Loads, BrokerError> {
    let mut shards = scheduler.broker.loads().await?;
    shards.extend(owned.counts.loads());
    let mut sum = Loads::new();
    for (agent_type, load) in shards.into_values().flatten() {
        sum.entry(agent_type).or_default().add(load);
    }
    Ok(sum)
}

/// Slots that would serve all work concurrently: on the stream, with workers, and in memory. Work in memory does not count
/// while the queue is paused or quarantined.
pub(crate) fn desired_slots(queue: Option<&QueueState>, load: Load, is_held: bool) -> u64 {
    let sent = queue.map_or(0, |queue| queue.waiting.saturating_add(queue.pending));
    if is_held { sent } else { sent.saturating_add(load.ready).saturating_add(load.due_soon) }
}

/// [`desired_slots`] of every agent type that has a queue or a load.
pub(crate) async fn desired(
    scheduler: &Scheduler,
    shards: &OwnedShards,
    queues: &[QueueState],
) -> Result<BTreeMap<AgentType, u64>, BrokerError> {
    let mut loads = loads(scheduler, shards).await?;
    let is_held = |agent_type: &AgentType| scheduler.directory.is_held(agent_type);
    let with_queue = queues.iter().map(|queue| {
        let load = loads.remove(&queue.agent_type).unwrap_or_default();
        (queue.agent_type.clone(), desired_slots(Some(queue), load, is_held(&queue.agent_type)))
    });
    let mut desired: BTreeMap<_, _> = with_queue.collect();
    desired.extend(loads.into_iter().map(|(agent_type, load)| {
        let slots = desired_slots(None, load, is_held(&agent_type));
        (agent_type, slots)
    }));
    Ok(desired)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_gets_nothing_new_wants_slots_for_what_was_sent_only() {
        let agent_type = AgentType::from("a");
        let queue = QueueState { agent_type, waiting: 1, pending: 2, dead_letters: 9, wrong_type: None };
        let load = Load { ready: 40, due_soon: 500 };
        assert_eq!(desired_slots(Some(&queue), load, false), 543);
        assert_eq!(desired_slots(Some(&queue), load, true), 3);
        assert_eq!(desired_slots(None, load, false), 540);
    }
}
