//! Agent types, and the workers that serve them.

use serde::{Deserialize, Serialize};

use crate::id::{AgentType, ID_PATTERN, WorkerId};
use crate::json::Json;
use crate::number::whole_u64;

/// Longest duration that an agent type can declare, in milliseconds: a year.
pub const LATENCY_MS_MAX: u64 = 31_536_000_000;

/// What an agent type can do, declared at registration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Agent {
    /// Its name: what steps ask for, and the name of its queue.
    #[schemars(extend("pattern" = ID_PATTERN))]
    pub agent_type: AgentType,
    /// What it is for, in words; the router reads it.
    #[serde(default, alias = "specialization", skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What it is good at, in words; the router reads them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// What it can be asked to do; empty when it does not say, so that anything may be asked of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
    /// Declared share of attempts that succeed, 0 to 1.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub success_rate: f64,
    /// Declared cost of one step, US dollars.
    #[serde(default, alias = "cost_per_invocation")]
    #[schemars(range(min = 0.0, max = 1e15))]
    pub cost: f64,
    /// Declared duration of one step, in milliseconds.
    #[serde(default, alias = "avg_latency_ms", deserialize_with = "whole_ms", skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 31_536_000_000_u64))]
    pub latency_ms: Option<u64>,
    /// It plans: `planner.order` may name it as `agent:NAME`, and planners and the router give it no steps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plans: bool,
}

/// Averages are seldom whole.
fn whole_ms<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let given = Option::<f64>::deserialize(deserializer)?;
    Ok(given.map(|ms| whole_u64(ms.clamp(0.0, LATENCY_MS_MAX as f64).round())))
}

fn one() -> f64 {
    1.0
}

impl Agent {
    /// Whether nothing is known of it but its name.
    pub fn is_bare(&self) -> bool {
        *self == Self::named(self.agent_type.clone())
    }

    /// What its card says of an action.
    pub fn offer(&self, action: &str) -> ActionOffer {
        ActionOffer::new(self.actions.is_empty(), self.action(action).is_some())
    }

    /// The action of exactly this name.
    pub fn action(&self, name: &str) -> Option<&Action> {
        self.actions.iter().find(|action| !name.is_empty() && action.name == name)
    }

    /// An agent of which only the name is known.
    pub fn named(agent_type: AgentType) -> Self {
        Self {
            agent_type,
            description: String::new(),
            capabilities: Vec::new(),
            actions: Vec::new(),
            success_rate: 1.0,
            cost: 0.0,
            latency_ms: None,
            plans: false,
        }
    }
}

/// What a card says of an action: who may do a step is decided by nothing else.
///
/// Names are compared exactly. Similar words may be shown as a hint; they choose no agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionOffer {
    /// It has the action.
    Named,
    /// It declares no actions, so that any may be asked of it.
    Any,
    /// It declares other actions only: it must not do the step.
    None,
    /// There is no card. One may be registered later, and is asked when a step is sent.
    Unknown,
}

impl ActionOffer {
    /// - `is_open`: whether the card declares no actions.
    /// - `has_action`: whether it has one of exactly this name.
    pub fn new(is_open: bool, has_action: bool) -> Self {
        match (is_open, has_action) {
            (_, true) => Self::Named,
            (true, false) => Self::Any,
            (false, false) => Self::None,
        }
    }

    /// Whether an agent with this offer may be asked for the action; without an action, everybody may.
    pub fn allows(self, action: &str) -> bool {
        action.is_empty() || self != Self::None
    }
}

/// One thing an agent does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Action {
    /// What steps call it.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What it does, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON Schema of its inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("type" = ["object", "boolean", "null"]))]
    pub inputs: Option<Json>,
    /// JSON Schema of its outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("type" = ["object", "boolean", "null"]))]
    pub outputs: Option<Json>,
    /// It changes something outside of the plan. An agent that asks a model has done it only if a tool that can change
    /// something was called successfully.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub side_effect: bool,
}

/// A worker's heartbeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WorkerBeat {
    /// Its name, unlike that of any other worker.
    pub worker: WorkerId,
    /// The agent types that it serves.
    pub agents: Vec<AgentType>,
    /// Most tasks that it runs concurrently.
    pub slots: u32,
    /// Tasks that it runs now.
    pub busy: u32,
    /// Whether it is finishing and takes nothing new.
    #[serde(default)]
    pub draining: bool,
    /// The release that it runs.
    pub version: String,
    /// The machine that it runs on.
    pub host: String,
    /// When it began, Unix milliseconds by its own clock.
    pub started_ms: u64,
    /// When the beat was sent, Unix milliseconds by the broker's clock; set by the broker.
    #[serde(default)]
    pub seen_ms: u64,
    /// The interval of its heartbeats in milliseconds; without it the scheduler's own setting counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_ms: Option<u64>,
}

/// A worker that misses so many heartbeats counts as gone.
pub const HEARTBEATS_MISSED_MAX: u64 = 4;
/// A worker without a heartbeat for so long counts as gone, whatever interval it declares, in milliseconds.
pub const SILENCE_MS_MAX: u64 = 600_000;

impl WorkerBeat {
    /// Whether the worker counts as live, as long as this is its last heartbeat.
    ///
    /// - `unless_told_ms`: how long a worker lives that does not say how often it beats.
    pub fn is_live(&self, unless_told_ms: u64, now_ms: u64) -> bool {
        let own_ms = |ms: u64| ms.saturating_mul(HEARTBEATS_MISSED_MAX).min(SILENCE_MS_MAX);
        now_ms.saturating_sub(self.seen_ms) <= self.heartbeat_ms.map_or(unless_told_ms, own_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_lives_by_its_own_heartbeats() {
        let beat = |heartbeat_ms| WorkerBeat {
            worker: "w".into(),
            agents: Vec::new(),
            slots: 1,
            busy: 0,
            draining: false,
            version: String::new(),
            host: String::new(),
            started_ms: 0,
            seen_ms: 1_000,
            heartbeat_ms,
        };
        for (heartbeat_ms, last_ms) in [(None, 6_000), (Some(2_000), 9_000), (Some(u64::MAX), 601_000)] {
            let beat = beat(heartbeat_ms);
            assert_eq!((beat.is_live(5_000, last_ms), beat.is_live(5_000, last_ms + 1)), (true, false), "{beat:?}");
        }
        assert!(beat(Some(1)).is_live(5_000, 0), "a clock that was put back does not end it");
    }
}
