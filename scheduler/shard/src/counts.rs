//! Plans and steps of a shard by state.

use std::collections::BTreeMap;

use goalmill_common::id::AgentType;
use goalmill_common::shard_load::Loads;
use goalmill_common::status::PlanStatus;

/// The states of plans that are not final.
pub const STATES: [PlanStatus; 5] = [
    PlanStatus::Planning,
    PlanStatus::AwaitingApproval,
    PlanStatus::Running,
    PlanStatus::Replanning,
    PlanStatus::Paused,
];

/// Plans and steps of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardCounts {
    /// Plans by state, and the oldest last change among them, Unix milliseconds.
    pub plans: [(u64, Option<u64>); STATES.len()],
    /// Ready steps by queue.
    pub ready: BTreeMap<AgentType, u64>,
    /// Dispatched steps by queue.
    pub in_flight: BTreeMap<AgentType, u64>,
    /// Steps that wait for a time, and for an event.
    pub waits: (u64, u64),
    /// Work that more workers could start, now or soon; published for autoscaling.
    pub loads: Loads,
}

impl ShardCounts {
    /// Counts one plan.
    pub fn count_status(&mut self, status: PlanStatus, updated_ms: u64) {
        if let Some(at) = STATES.iter().position(|state| *state == status) {
            let (count, oldest_ms) = &mut self.plans[at];
            *count += 1;
            *oldest_ms = Some(oldest_ms.map_or(updated_ms, |oldest_ms| oldest_ms.min(updated_ms)));
        }
    }

    /// Counts the steps of one plan that wait for a time, and for an event.
    pub fn wait(&mut self, (times, events): (u64, u64)) {
        self.waits.0 += times;
        self.waits.1 += events;
    }

    /// Plans of each state, and the oldest last change among them.
    pub fn by_state(&self) -> impl Iterator<Item = (PlanStatus, u64, Option<u64>)> {
        STATES.into_iter().zip(self.plans).map(|(state, (count, oldest_ms))| (state, count, oldest_ms))
    }

    /// Adds other counts; their loads are left out.
    pub fn add(&mut self, other: &Self) {
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
