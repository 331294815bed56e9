//! What cards say of actions: no step is sent to an agent type whose card has other actions only.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use goalmill_common::agent::{ActionOffer, Agent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::AgentType;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::text::shorten;

use crate::revise::routing::steps_of;

/// Characters of the name of an action that a failure quotes.
const ACTION_CHARS_MAX: usize = 80;

/// Looks up the cards as they are at the moment.
pub trait CardLookup: Debug + Send + Sync {
    /// What the card of an agent type says of an action.
    fn offer(&self, agent_type: &AgentType, action: &str) -> ActionOffer;

    /// Whether any card says that an action changes something outside of its plan.
    fn has_side_effect(&self, action: &str) -> bool;
}

impl CardLookup for Vec<Agent> {
    fn offer(&self, agent_type: &AgentType, action: &str) -> ActionOffer {
        let card = self.iter().find(|agent| agent.agent_type == *agent_type);
        card.map_or(ActionOffer::Unknown, |agent| agent.offer(action))
    }

    fn has_side_effect(&self, action: &str) -> bool {
        self.iter().filter_map(|agent| agent.action(action)).any(|action| action.side_effect)
    }
}

/// The cards of an installation; without any, every agent type may do every step.
#[derive(Clone, Debug, Default)]
pub struct Cards(Option<Arc<dyn CardLookup>>);

impl Cards {
    pub fn from_lookup(lookup: Arc<dyn CardLookup>) -> Self {
        Self(Some(lookup))
    }

    /// Whether a card says that the action changes something.
    pub(crate) fn has_side_effect(&self, action: &str) -> bool {
        self.0.as_ref().is_some_and(|cards| !action.is_empty() && cards.has_side_effect(action))
    }

    /// Why an agent type must not do an action. Nothing was done by then.
    pub(crate) fn refusal(&self, agent_type: &AgentType, action: &str) -> Option<Failure> {
        let cards = self.0.as_ref()?;
        if cards.offer(agent_type, action).allows(action) {
            return None;
        }
        let message = format!("agent type `{agent_type}` has no action `{}`", shorten(action, ACTION_CHARS_MAX));
        Some(Failure::new(FailureClass::Permanent, "UNKNOWN_ACTION", message).without_effect())
    }

    /// The same for each step of a plan, and the plans inside it; the first refusal.
    pub(crate) fn refusal_of_plan(&self, plan: &Plan) -> Option<Failure> {
        let mut asked = BTreeSet::new();
        let pairs = |step: &Step| {
            let other = step.fallback.as_ref().map(|fallback| {
                let agent_type = fallback.agent_type.as_ref().unwrap_or(&step.agent_type);
                (agent_type.clone(), fallback.action.as_ref().unwrap_or(&step.action).clone())
            });
            [(step.agent_type.clone(), step.action.clone())].into_iter().chain(other)
        };
        let steps = steps_of(plan).filter(|step| step.kind.needs_worker());
        steps
            .flat_map(pairs)
            .filter(|pair| asked.insert(pair.clone()))
            .find_map(|(agent, action)| self.refusal(&agent, &action))
    }
}
