//! What an agent says about itself, in parts that count differently.

use goalmill_common::agent::Agent;
use goalmill_common::json::Json;

use crate::words::{contents, words_of};

/// Weight of a word in the name, one in the description having 1.
const NAME: f32 = 2.0;
/// Weight of a word among the inputs' names.
const INPUTS: f32 = 0.3;
/// Names of inputs that are read of one agent.
const INPUTS_MAX: usize = 64;

/// An agent in words.
#[derive(Debug, Default)]
pub(super) struct Description {
    pub(super) name: String,
    /// Description, capabilities and actions.
    pub(super) body: String,
    /// The names of its actions' inputs.
    pub(super) inputs: String,
}

impl Description {
    pub(super) fn of(agent: &Agent) -> Self {
        let name = words_of(agent.agent_type.as_str());
        let mut body: Vec<String> = vec![agent.description.clone()];
        body.extend(agent.capabilities.iter().cloned());
        let mut inputs = Vec::new();
        for action in &agent.actions {
            let called = words_of(&action.name);
            // Said once is enough: an action named as its agent would count twice.
            if called != name {
                body.push(called);
            }
            body.push(action.description.clone());
            let schema = action.inputs.as_ref().map(Json::value).unwrap_or_default();
            let names = schema["properties"].as_object().into_iter().flat_map(|map| map.keys());
            inputs.extend(names.take(INPUTS_MAX).map(|name| words_of(name)));
        }
        body.retain(|part| !part.is_empty());
        Self { name, body: body.join(" . "), inputs: inputs.join(" ") }
    }

    pub(super) fn parts(&self) -> Vec<(&str, f32)> {
        vec![(&self.name, NAME), (&self.body, 1.0), (&self.inputs, INPUTS)]
    }

    /// Name and body, for an embedder of its own.
    pub(super) fn text(&self) -> String {
        format!("{}: {}", self.name, self.body)
    }

    /// The words of name and body.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = contents(&self.name);
        words.extend(contents(&self.body));
        words
    }
}
