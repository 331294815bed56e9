//! Selects the agents and actions that a prompt lists.

use std::sync::{Arc, Mutex, PoisonError};

use goalmill_common::agent::{Action, Agent};
use goalmill_common::config::RouterSettings;
use goalmill_common::json::Json;
use goalmill_reader::ToolCatalogue;
use goalmill_router::Router;
use serde_json::{Value, json};

/// Characters of a schema that a prompt shows.
const SCHEMA_CHARS_MAX: usize = 4_000;

/// A registry's actions by place, and an index over their words.
struct ShortlistIndex {
    agents: Vec<Agent>,
    index: Router,
}

/// The last registry that was indexed: goals come far more often than agents change.
static SHORTLIST_INDEX: Mutex<Option<Arc<ShortlistIndex>>> = Mutex::new(None);

/// The part of the registry that a model is shown.
#[derive(Clone, Debug)]
pub struct ToolShortlist {
    pub agents: Vec<Agent>,
    /// Actions that are not shown.
    pub left_out: usize,
}

impl ToolShortlist {
    /// All actions when they are few, else those that have most to do with the goal.
    ///
    /// - `actions_max`: an agent that declares no actions counts as one.
    pub fn choose(agents: &[Agent], goal: &str, actions_max: usize) -> Self {
        let places: Vec<(usize, Option<usize>)> = agents.iter().enumerate().flat_map(places).collect();
        if places.len() <= actions_max {
            return Self { agents: agents.to_vec(), left_out: 0 };
        }
        let mut chosen = nearest(agents, &places, goal, actions_max);
        chosen.sort_unstable();
        let mut shown: Vec<Agent> = Vec::new();
        for place in &chosen {
            let (agent, action) = places[*place];
            let agent = &agents[agent];
            if shown.last().is_none_or(|last| last.agent_type != agent.agent_type) {
                shown.push(Agent { actions: Vec::new(), ..agent.clone() });
            }
            if let (Some(last), Some(action)) = (shown.last_mut(), action) {
                last.actions.push(agent.actions[action].clone());
            }
        }
        Self { agents: shown, left_out: places.len() - chosen.len() }
    }

    /// As templates see it.
    pub fn context(&self) -> Value {
        self.agents.iter().map(agent_context).collect()
    }

    /// The actions, for the reader.
    pub fn catalogue(&self) -> ToolCatalogue {
        let actions: Vec<(&str, Option<Value>)> = self.agents.iter().flat_map(|a| &a.actions).map(named).collect();
        ToolCatalogue::from_schemas(actions.iter().map(|(name, schema)| (*name, schema.as_ref())))
    }
}

fn named(action: &Action) -> (&str, Option<Value>) {
    (&action.name, action.inputs.as_ref().map(Json::value).filter(Value::is_object))
}

fn places((at, agent): (usize, &Agent)) -> Vec<(usize, Option<usize>)> {
    match agent.actions.len() {
        0 => vec![(at, None)],
        actions => (0..actions).map(|action| (at, Some(action))).collect(),
    }
}

/// The places nearest to the goal by words and runs of letters; the first ones when too few have anything in common.
fn nearest(agents: &[Agent], places: &[(usize, Option<usize>)], goal: &str, max: usize) -> Vec<usize> {
    nearest_in(&shortlist_index(agents, places).index, places.len(), goal, max)
}

/// The same for cards whose agent types are their places.
pub fn nearest_cards(cards: Vec<Agent>, goal: &str, max: usize) -> Vec<usize> {
    let count = cards.len();
    nearest_in(&index(cards), count, goal, max)
}

fn nearest_in(index: &Router, count: usize, goal: &str, max: usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = index
        .route(goal)
        .iter()
        .filter_map(|candidate| candidate.agent_type.as_str().parse().ok())
        .filter(|place| *place < count)
        .take(max)
        .collect();
    let others: Vec<usize> = (0..count).filter(|place| !chosen.contains(place)).take(max - chosen.len()).collect();
    chosen.extend(others);
    chosen
}

fn index(cards: Vec<Agent>) -> Router {
    let index = Router::new(RouterSettings { local_model: String::new(), ..RouterSettings::default() });
    index.update_agents(cards);
    index
}

/// The index over all places of these agents, rebuilt when the agents have changed.
fn shortlist_index(agents: &[Agent], places: &[(usize, Option<usize>)]) -> Arc<ShortlistIndex> {
    let mut kept = SHORTLIST_INDEX.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(index_of) = kept.as_ref().filter(|index_of| index_of.agents == agents) {
        return index_of.clone();
    }
    let card = |(place, (agent, action)): (usize, &(usize, Option<usize>))| {
        let agent = &agents[*agent];
        let capabilities = vec![agent.agent_type.as_str().replace(['_', '-'], " ")];
        let actions: Vec<Action> = action.iter().map(|at| agent.actions[*at].clone()).collect();
        let mut card = Agent::named(place.to_string().into());
        card.description = if actions.is_empty() { agent.description.clone() } else { String::new() };
        Agent { capabilities, actions, ..card }
    };
    let index = index(places.iter().enumerate().map(card).collect());
    let index_of = Arc::new(ShortlistIndex { agents: agents.to_vec(), index });
    *kept = Some(index_of.clone());
    index_of
}

fn agent_context(agent: &Agent) -> Value {
    let schema = |json: &Option<Json>| json.as_ref().map(|json| cut_schema(json.text())).filter(|text| text != "null");
    let actions: Vec<Value> = agent
        .actions
        .iter()
        .map(|action| {
            json!({"name": action.name, "description": action.description, "inputs": schema(&action.inputs),
                   "outputs": schema(&action.outputs)})
        })
        .collect();
    json!({"name": agent.agent_type, "description": agent.description, "actions": actions})
}

/// The text of a schema as prompts show it.
pub fn cut_schema(text: &str) -> String {
    match text.char_indices().nth(SCHEMA_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, actions: &[(&str, &str)]) -> Agent {
        let action = |(name, description): &(&str, &str)| Action {
            name: (*name).into(),
            description: (*description).into(),
            inputs: None,
            outputs: None,
            side_effect: false,
        };
        Agent { actions: actions.iter().map(action).collect(), ..Agent::named(name.into()) }
    }

    #[test]
    fn few_actions_are_all_listed_and_of_many_those_near_the_goal() {
        let agents = [
            agent("kitchen", &[("bake", "Bake bread in an oven"), ("boil", "Boil water")]),
            agent("travel", &[("flights", "Find flights between cities"), ("hotels", "Find hotels in a city")]),
        ];
        assert_eq!(ToolShortlist::choose(&agents, "fly to Rome", 4).left_out, 0);
        let shortlist = ToolShortlist::choose(&agents, "find flights and hotels in the city of Rome", 2);
        assert_eq!(shortlist.left_out, 2);
        assert_eq!(shortlist.agents.len(), 1);
        assert_eq!(shortlist.agents[0].actions.len(), 2);
        let nothing = ToolShortlist::choose(&agents, "§", 1);
        assert_eq!((nothing.agents.len(), nothing.agents[0].actions.len()), (1, 1));
    }
}
