//! Counts of plans and steps by state, and the load of queues.

use goalmill_common::shard_load::Loads;
use goalmill_common::status::StepStatus;
use goalmill_engine::Timer;

use super::ShardState;
use crate::counts::ShardCounts;
use crate::ready_set::ReadyCounts;

/// Retries that are due within this time count as load, in milliseconds.
const SOON_MS: u64 = 30_000;

/// Timers examined for that.
const SOON_MAX: usize = 10_000;

impl ShardState {
    /// Plans and steps by state. Visits every plan that is not parked.
    #[expect(clippy::iter_over_hash_type, reason = "sums are the same in any order")]
    pub(crate) fn counts(&mut self) -> ShardCounts {
        let in_flight = self.outstanding.iter().map(|(agent_type, count)| (agent_type.clone(), u64::from(*count)));
        let mut counts =
            ShardCounts { in_flight: in_flight.collect(), loads: self.due_soon(), ..ShardCounts::default() };
        for (agent_type, ReadyCounts { open, parked }) in self.ready.counts(|namespace| self.has_room(namespace)) {
            if open > 0 {
                counts.loads.entry(agent_type.clone()).or_default().ready = open;
            }
            counts.ready.insert(agent_type, open + parked);
        }
        for plan in self.plans.values() {
            counts.count_status(plan.state.status(), plan.state.updated_ms());
            counts.wait(plan.state.waits());
        }
        counts.add(self.parked.counts());
        counts
    }

    /// Retries that are due soon, by queue.
    fn due_soon(&self) -> Loads {
        let mut loads = Loads::new();
        for (slot, timer) in self.timers.until(self.clock.now_ms() + SOON_MS).take(SOON_MAX) {
            let Timer::Step(step) = timer else { continue };
            let Some(plan) = self.plans.get(&slot) else { continue };
            let state = &plan.state;
            let is_retried = state.step(step).is_some_and(|at| at.status == StepStatus::Retrying);
            if let Some(queue) = state.queue(step).filter(|queue| is_retried && !queue.as_str().is_empty()) {
                loads.entry(queue.clone()).or_default().due_soon += 1;
            }
        }
        loads
    }
}
