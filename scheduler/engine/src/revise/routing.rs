//! Steps of a plan without an agent type.

use goalmill_common::id::{AUTO, AgentType};
use goalmill_common::plan::{Plan, Step};

/// The steps of a plan and of the plans inside it.
pub(crate) fn steps_of(plan: &Plan) -> Box<dyn Iterator<Item = &Step> + '_> {
    Box::new(plan.steps.iter().flat_map(|step| {
        let below: Box<dyn Iterator<Item = &Step> + '_> = match &step.plan {
            Some(plan) => steps_of(plan),
            None => Box::new(std::iter::empty()),
        };
        std::iter::once(step).chain(below)
    }))
}

/// Whether the router has not chosen yet.
pub(crate) fn is_unrouted(step: &Step) -> bool {
    step.kind.needs_worker() && matches!(step.agent_type.as_str(), "" | AUTO)
}

/// Assigns `agent_type` to every step without one.
pub(crate) fn route_to(plan: &mut Plan, agent_type: &AgentType) {
    for step in &mut plan.steps {
        if is_unrouted(step) {
            step.agent_type = agent_type.clone();
        }
        if let Some(inner) = &mut step.plan {
            route_to(inner, agent_type);
        }
    }
}
