//! The shipped agents: entries for `worker.agents`, built into the program.

use goalmill_common::agent::Agent;
use goalmill_common::id::AgentType;
use serde_json::Value;

/// Agent type and settings of each shipped agent.
const SHIPPED: [(&str, &str); 7] = [
    ("research_agent", include_str!("../../../config/agents/research_agent.yaml")),
    ("analysis_agent", include_str!("../../../config/agents/analysis_agent.yaml")),
    ("writer_agent", include_str!("../../../config/agents/writer_agent.yaml")),
    ("data_agent", include_str!("../../../config/agents/data_agent.yaml")),
    ("code_agent", include_str!("../../../config/agents/code_agent.yaml")),
    ("validation_agent", include_str!("../../../config/agents/validation_agent.yaml")),
    ("general_agent", include_str!("../../../config/agents/general_agent.yaml")),
];

/// The shipped agents as entries of `worker.agents`, of kind `llm`.
pub fn shipped_agents() -> Vec<(AgentType, Value)> {
    let entry = |(name, text): &(&str, &str)| {
        let mut entry: Value = serde_yaml_ng::from_str(text).expect("a test reads the shipped agents");
        entry["kind"] = "llm".into();
        ((*name).into(), entry)
    };
    SHIPPED.iter().map(entry).collect()
}

/// The cards of the shipped agents.
pub fn shipped_cards() -> Vec<Agent> {
    let card = |(agent_type, mut entry): (AgentType, Value)| {
        let mut card = entry["card"].take();
        card["agent_type"] = agent_type.as_str().into();
        serde_json::from_value(card).expect("a test reads the shipped cards")
    };
    shipped_agents().into_iter().map(card).collect()
}

#[cfg(test)]
mod tests {
    use goalmill_common::card::read_card;
    use goalmill_common::clock::Clock;
    use goalmill_common::config::ModelSettings;
    use goalmill_common::random::Random;

    use super::*;
    use crate::AgentBuilder;

    #[test]
    fn every_shipped_agent_can_be_built() {
        let model =
            ModelSettings { name: "a".into(), base_url: "http://127.0.0.1:1/v1".into(), ..ModelSettings::default() };
        let builder = AgentBuilder::from_settings(&[model], "/nowhere", &Clock::system(), &Random::seeded(1));
        let builder = builder.expect("the model is valid");
        assert_eq!(shipped_cards().len(), SHIPPED.len());
        for (agent_type, mut entry) in shipped_agents() {
            let fields = entry.as_object_mut().expect("it is an object");
            let mut card = fields.remove("card").expect("it has a card");
            card["agent_type"] = agent_type.as_str().into();
            let card =
                read_card(card.to_string().as_bytes()).unwrap_or_else(|issues| panic!("{agent_type}: {issues:?}"));
            assert_eq!(fields.remove("kind"), Some("llm".into()));
            let built = builder.build(&agent_type, Some(&card), &entry).map(|_| ());
            assert_eq!(built, Ok(()), "{agent_type}");
            assert!(card.actions.iter().all(|action| action.outputs.is_some()), "{agent_type}");
        }
    }
}
