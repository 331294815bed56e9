//! Plans and steps of a shard by state, published once a heartbeat for metrics and autoscaling.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use goalmill_common::id::{AgentType, ShardId};
use goalmill_common::load::Loads;
use goalmill_common::status::PlanStatus;

/// The states of plans that are not final.
pub(crate) const STATES: [PlanStatus; 5] = [
    PlanStatus::Planning,
    PlanStatus::AwaitingApproval,
    PlanStatus::Running,
    PlanStatus::Replanning,
    PlanStatus::Paused,
];

/// Plans and steps of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardCounts {
    /// Plans by state, and the oldest last change among them, Unix milliseconds.
    pub(crate) plans: [(u64, Option<u64>); STATES.len()],
    /// Ready steps by queue.
    pub(crate) ready: BTreeMap<AgentType, u64>,
    /// Dispatched steps by queue.
    pub(crate) in_flight: BTreeMap<AgentType, u64>,
    /// Steps that wait for a time, and for an event.
    pub(crate) waits: (u64, u64),
    /// Work that more workers could start, now or soon; see [`CountsByShard::loads`].
    pub(crate) loads: Loads,
}

impl ShardCounts {
    /// Counts one plan.
    pub(crate) fn plan(&mut self, status: PlanStatus, updated_ms: u64) {
        if let Some(at) = STATES.iter().position(|state| *state == status) {
            let (count, oldest_ms) = &mut self.plans[at];
            *count += 1;
            *oldest_ms = Some(oldest_ms.map_or(updated_ms, |oldest_ms| oldest_ms.min(updated_ms)));
        }
    }

    /// Counts the steps of one plan that wait for a time, and for an event.
    pub(crate) fn wait(&mut self, (times, events): (u64, u64)) {
        self.waits.0 += times;
        self.waits.1 += events;
    }

    /// Plans of each state, and the oldest last change among them.
    pub(crate) fn by_state(&self) -> impl Iterator<Item = (PlanStatus, u64, Option<u64>)> {
        STATES.into_iter().zip(self.plans).map(|(state, (count, oldest_ms))| (state, count, oldest_ms))
    }

    /// Adds other counts; their loads are left out.
    pub(crate) fn add(&mut self, other: &Self) {
        for ((count, oldest_ms), (more, other_ms)) in self.plans.iter_mut().zip(other.plans) {
            *count += more;
            *oldest_ms = (*oldest_ms).into_iter().chain(other_ms).min();
        }
        self.wait(other.waits);
        for (sums, counts) in [(&mut self.ready, &other.ready), (&mut self.in_flight, &other.in_flight)] {
            for (agent_type, count) in counts {
                *sums.entry(agent_type.clone()).or_default() += count;
            }
        }
    }
}

/// The counts of all shards that are owned here.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountsByShard(Arc<Mutex<BTreeMap<ShardId, ShardCounts>>>);

impl CountsByShard {
    pub(crate) fn set(&self, shard: ShardId, counts: ShardCounts) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(shard, counts);
    }

    pub(crate) fn remove(&self, shard: ShardId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&shard);
    }

    /// The load of each shard.
    pub(crate) fn loads(&self) -> BTreeMap<ShardId, Loads> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(shard, counts)| (*shard, counts.loads.clone())).collect()
    }

    /// The sum of all shards.
    pub(crate) fn sum(&self) -> ShardCounts {
        let mut sum = ShardCounts::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(|counts| sum.add(counts));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_shards_add_up_and_leave_with_them() {
        let all = CountsByShard::default();
        for (shard, updated_ms) in [(0, 7), (1, 5)] {
            let mut counts = ShardCounts::default();
            counts.plan(PlanStatus::Running, updated_ms);
            counts.plan(PlanStatus::Completed, 1);
            counts.ready.insert("a".into(), 2);
            all.set(ShardId(shard), counts);
        }
        let running = |sum: &ShardCounts| sum.by_state().find(|(state, ..)| *state == PlanStatus::Running);
        let sum = all.sum();
        assert_eq!(running(&sum), Some((PlanStatus::Running, 2, Some(5))));
        assert_eq!(sum.ready, BTreeMap::from([("a".into(), 4)]));
        all.remove(ShardId(1));
        assert_eq!(running(&all.sum()), Some((PlanStatus::Running, 1, Some(7))));
    }
}
