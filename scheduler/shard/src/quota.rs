//! Limits of the tasks in flight.

use goalmill_common::id::AgentType;

/// Limits the tasks of a shard.
pub trait Quota {
    /// Tasks of the agent type that the shard may have in flight.
    fn in_flight_max(&self, agent_type: &AgentType) -> u32;
}

/// No limit.
pub(crate) struct Unlimited;

impl Quota for Unlimited {
    fn in_flight_max(&self, _: &AgentType) -> u32 {
        u32::MAX
    }
}
