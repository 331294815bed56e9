//! Limits of the tasks in flight.

use goalmill_common::id::AgentType;

use crate::directory::Directory;

/// Limits the tasks of a shard.
pub(crate) trait Quota {
    /// Tasks of the agent type that the shard may have in flight.
    fn in_flight_max(&self, agent_type: &AgentType) -> u32;
}

/// The window of each agent type, which follows the slots of its live workers. Steps without an agent type have none.
impl Quota for Directory {
    fn in_flight_max(&self, agent_type: &AgentType) -> u32 {
        if agent_type.as_str().is_empty() { u32::MAX } else { self.window(agent_type) }
    }
}

/// No limit.
pub(super) struct Unlimited;

impl Quota for Unlimited {
    fn in_flight_max(&self, _: &AgentType) -> u32 {
        u32::MAX
    }
}
