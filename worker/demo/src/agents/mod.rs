//! `demo`: the demo agents. Deterministic: outputs depend on inputs and attempt only.
//!
//! Their data is invented. Each has a small latency, so that a run can be watched; the input `latency_ms` changes it.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::agent::Agent;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::number::{to_u32, whole_u64};
use goalmill_common::task::Task;
use goalmill_worker::executor::{ExecutionResult, Executor, Progress};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

mod booking;
mod data;
mod fault;
mod money;
mod serve;
mod simple;
mod text;
mod travel;

pub use booking::{Book, BookEntry};
pub use serve::{DemoServer, serve};

/// The longest latency of the inputs, in milliseconds.
const LATENCY_MS_MAX: u64 = 60_000;

/// Result of an agent.
type Worked = Result<Value, Failure>;

/// One demo agent: name, usual latency in milliseconds, function.
struct Shipped {
    name: &'static str,
    latency_ms: u64,
    /// From the inputs and the attempt, counted from 1.
    work: fn(&Value, u32) -> Worked,
}

const SHIPPED: &[Shipped] = &[
    Shipped { name: "fail", latency_ms: 0, work: simple::fail },
    Shipped { name: "flaky", latency_ms: 0, work: simple::flaky },
    Shipped { name: "flight_agent", latency_ms: 800, work: travel::flights },
    Shipped { name: "backup_flight_agent", latency_ms: 600, work: travel::backup_flights },
    Shipped { name: "hotel_agent", latency_ms: 400, work: travel::hotels },
    Shipped { name: "activity_agent", latency_ms: 500, work: travel::activities },
    Shipped { name: "validation_agent", latency_ms: 100, work: travel::validate },
    Shipped { name: "research_agent", latency_ms: 300, work: text::research },
    Shipped { name: "analysis_agent", latency_ms: 300, work: data::analyse },
    Shipped { name: "writer_agent", latency_ms: 300, work: text::write },
    Shipped { name: "data_agent", latency_ms: 200, work: data::summarise },
    Shipped { name: "general_agent", latency_ms: 200, work: text::general },
];

/// Settings of kind `demo`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DemoSettings {
    /// The demo agent; the name of the agent type when missing.
    #[serde(default)]
    pub agent: Option<String>,
}

/// The cards of the shipped agents.
pub fn agents() -> Vec<Agent> {
    CARDS.clone()
}

static CARDS: LazyLock<Vec<Agent>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../../config/agents/demo.json")).expect("a test reads the shipped cards")
});

/// The shipped agents, by agent type.
pub fn executors() -> BTreeMap<AgentType, Arc<dyn Executor>> {
    agents().iter().filter_map(|card| Some((card.agent_type.clone(), shipped(card.agent_type.as_str())?))).collect()
}

/// Makes the agent of an entry of kind `demo`; the error is a message for people.
pub fn executor(agent_type: &AgentType, _: Option<&Agent>, settings: &Value) -> Result<Arc<dyn Executor>, String> {
    let settings = DemoSettings::deserialize(settings).map_err(|error| error.to_string())?;
    let name = settings.agent.unwrap_or_else(|| agent_type.to_string());
    shipped(&name).ok_or_else(|| {
        let names: Vec<String> = agents().iter().map(|card| format!("`{}`", card.agent_type)).collect();
        format!("there is no demo agent `{name}`, there are {}", names.join(", "))
    })
}

fn shipped(name: &str) -> Option<Arc<dyn Executor>> {
    match name {
        "sleep" => Some(Arc::new(simple::Sleep)),
        "echo" => Some(Arc::new(simple::Echo)),
        "spend" => Some(Arc::new(simple::Spend)),
        "stamp" => Some(Arc::new(simple::Stamp)),
        booking::NAME => Some(Arc::new(booking::BookingAgent::default())),
        name => SHIPPED.iter().find(|s| s.name == name).map(|s| Arc::new(Demo(s)) as Arc<dyn Executor>),
    }
}

fn card(name: &str) -> Option<Agent> {
    CARDS.iter().find(|card| card.agent_type.as_str() == name).cloned()
}

/// Runs one shipped agent.
struct Demo(&'static Shipped);

#[async_trait]
impl Executor for Demo {
    async fn execute(
        &self,
        task: &Task,
        progress: &Progress,
        _: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        let inputs = task.inputs.value();
        let latency_ms = inputs["latency_ms"].as_u64().unwrap_or(self.0.latency_ms).min(LATENCY_MS_MAX);
        let result = fault::refuse(self.0.name, &inputs).and_then(|()| (self.0.work)(&inputs, task.attempt));
        if latency_ms > 0 && result.is_ok() {
            for share in [0.5, 1.0] {
                tokio::time::sleep(Duration::from_millis(latency_ms / 2)).await;
                progress.update(share, format!("{} is {:.0} % done", self.0.name, share * 100.0));
            }
        }
        result.map(|outputs| ExecutionResult::new(Json::from(outputs)))
    }

    fn card(&self) -> Option<Agent> {
        card(self.0.name)
    }

    fn gives_way(&self) -> bool {
        true
    }
}

fn is_set(inputs: &Value, name: &str) -> bool {
    inputs[name] == Value::Bool(true) || inputs[name] == "true"
}

fn permanent(code: &str, message: impl Into<String>) -> Failure {
    Failure::new(FailureClass::Permanent, code, message)
}

/// The first of these inputs that is a number or a text with a number.
fn number(inputs: &Value, names: &[&str]) -> Option<f64> {
    names.iter().find_map(|name| as_number(&inputs[name])).filter(|n| n.is_finite())
}

fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(n) => n.as_f64(),
        Value::String(text) => text.trim().trim_start_matches('$').replace(',', "").parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The first of these inputs that is a non-empty text.
fn text<'a>(inputs: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| inputs[name].as_str()).map(str::trim).filter(|t| !t.is_empty())
}

/// A count between 1 and `max`.
fn count(inputs: &Value, names: &[&str], default: u32, max: u32) -> u32 {
    let n = number(inputs, names).unwrap_or_else(|| f64::from(default));
    to_u32(whole_u64(n.round().clamp(1.0, f64::from(max))))
}

/// A number derived from a text: FNV-1a, as for shards.
fn chance(text: &str, below: u16) -> u16 {
    goalmill_common::id::shard_of(&text.to_lowercase(), below).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_agent_has_a_card_and_every_card_an_agent() {
        let cards: Vec<String> = agents().iter().map(|card| card.agent_type.to_string()).collect();
        for agent in SHIPPED.iter().map(|s| s.name).chain(["sleep", "echo", "spend"]) {
            assert!(cards.iter().any(|card| card == agent), "{agent} has no card");
        }
        for name in &cards {
            let executor = shipped(name).unwrap_or_else(|| panic!("{name} has no agent"));
            assert_eq!(executor.card().map(|card| card.agent_type.to_string()).as_ref(), Some(name));
        }
        assert_eq!(executors().len(), cards.len());
    }

    #[test]
    fn no_agent_panics_over_strange_inputs() {
        let strange = [
            Value::Null,
            serde_json::json!([]),
            serde_json::json!("text"),
            serde_json::json!({"nights": -1, "count": 1e300, "budget": {"amount": "x"}, "rows": [1, [2]], "csv": ","}),
            serde_json::json!({"text": "", "class": 7, "failures": "many", "destination": "ÄÖÜ 🚀"}),
        ];
        for agent in SHIPPED {
            for inputs in &strange {
                drop((agent.work)(inputs, 2));
            }
        }
    }
}
