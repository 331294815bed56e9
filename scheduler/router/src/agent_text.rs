//! The searchable text of an agent, in parts with different weights.

use goalmill_common::agent::Agent;
use goalmill_common::json::Json;

use crate::text_analysis::{content_words, split_identifier};

/// Weight of a word in the name; a word in the description has 1.
const NAME: f32 = 2.0;
/// Weight of a word in the names of inputs.
const INPUTS: f32 = 0.3;
/// Input names that are used per action.
const INPUTS_MAX: usize = 64;

/// The texts of an agent.
#[derive(Debug, Default)]
pub(super) struct AgentText {
    pub(super) name: String,
    /// AgentText, capabilities and actions.
    pub(super) body: String,
    /// The names of its actions' inputs.
    pub(super) inputs: String,
}

impl AgentText {
    pub(super) fn from_agent(agent: &Agent) -> Self {
        let name = split_identifier(agent.agent_type.as_str());
        let mut body: Vec<String> = vec![agent.description.clone()];
        body.extend(agent.capabilities.iter().cloned());
        let mut inputs = Vec::new();
        for action in &agent.actions {
            let action_name = split_identifier(&action.name);
            // An action with the name of its agent would count twice.
            if action_name != name {
                body.push(action_name);
            }
            body.push(action.description.clone());
            let schema = action.inputs.as_ref().map(Json::value).unwrap_or_default();
            let names = schema["properties"].as_object().into_iter().flat_map(|map| map.keys());
            inputs.extend(names.take(INPUTS_MAX).map(|name| split_identifier(name)));
        }
        body.retain(|part| !part.is_empty());
        Self { name, body: body.join(" . "), inputs: inputs.join(" ") }
    }

    pub(super) fn parts(&self) -> Vec<(&str, f32)> {
        vec![(&self.name, NAME), (&self.body, 1.0), (&self.inputs, INPUTS)]
    }

    /// Name and body, for the embedding endpoint.
    pub(super) fn text(&self) -> String {
        format!("{}: {}", self.name, self.body)
    }

    /// Content words of name and body.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = content_words(&self.name);
        words.extend(content_words(&self.body));
        words
    }
}
