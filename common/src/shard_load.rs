//! Steps that a shard holds in memory; autoscalers count them besides the tasks on streams.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::AgentType;

/// Steps of one agent type that are on no stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Steps that could run now and wait for room in their queue. Steps that wait because of their plan's own limit do not
    /// count: more workers would not help.
    #[serde(default)]
    pub ready: u64,
    /// Steps that become ready by themselves within half a minute, such as those that are tried again.
    #[serde(default)]
    pub due_soon: u64,
}

/// The load of a shard or of an installation, by agent type. Agent types without any are absent.
pub type Loads = BTreeMap<AgentType, Load>;

impl Load {
    /// Adds another shard's.
    pub fn add(&mut self, other: Self) {
        self.ready = self.ready.saturating_add(other.ready);
        self.due_soon = self.due_soon.saturating_add(other.due_soon);
    }
}
