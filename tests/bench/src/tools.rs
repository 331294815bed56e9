//! Tools of the data sets as agents: each tool is an agent type with one action.

use goalmill_common::agent::{Action, Agent};
use goalmill_common::json::Json;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A tool as `routing/*_tools*.json` lists it.
#[derive(Deserialize)]
pub struct Tool {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    params: Vec<String>,
}

impl Tool {
    pub fn agent(&self) -> Agent {
        let properties: Map<String, Value> = self.params.iter().map(|name| (name.clone(), json!({}))).collect();
        let inputs = Some(Json::from_value(&json!({"type": "object", "properties": properties})));
        let action =
            Action { name: self.name.clone(), description: String::new(), inputs, outputs: None, side_effect: false };
        Agent { actions: vec![action], ..described_agent(&self.name, &self.description) }
    }
}

/// An agent without actions.
pub fn described_agent(name: &str, description: &str) -> Agent {
    Agent { description: description.into(), ..Agent::named(name.into()) }
}
