//! Plans and steps of the owned shards by state, published once a heartbeat for metrics and autoscaling.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use goalmill_common::id::ShardId;
use goalmill_common::shard_load::Loads;
use goalmill_shard::ShardCounts;

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
    use goalmill_common::status::PlanStatus;

    use super::*;

    #[test]
    fn counts_of_shards_add_up_and_leave_with_them() {
        let all = CountsByShard::default();
        for (shard, updated_ms) in [(0, 7), (1, 5)] {
            let mut counts = ShardCounts::default();
            counts.count_status(PlanStatus::Running, updated_ms);
            counts.count_status(PlanStatus::Completed, 1);
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
