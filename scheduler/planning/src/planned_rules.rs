//! The rules to which plans of planners are validated.

use goalmill_common::constraint::constraints;
use goalmill_common::goal::Planning;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use goalmill_plan::states::ValidPlan;
use goalmill_plan::validate::{self, Catalogue, Requirements, Rules};

use crate::PlanRequest;

/// The rules for plans of planners. By default an agent type without workers, or an unknown one, is a warning; an action
/// that a known agent does not have, or inputs that it does not accept, are errors.
pub fn rules<'c>(catalogue: &'c Catalogue, request: &'c PlanRequest) -> Rules<'c> {
    Rules {
        in_order: false,
        steps_max: Some(request.limits.planned_steps_max),
        budget: request.goal.budget,
        constraints: constraints(&request.goal.constraints),
        seconds_left: request.goal.deadline_ms.map(|ms| ms.saturating_sub(request.now_ms) as f64 / 1_000.0),
        now_ms: Some(request.now_ms),
        inputs: request.goal.input_names(),
        weights: request.terms.weights,
        policy: &request.terms.policy,
        requires: requirements(&request.goal.planning),
        ..Rules::planned(catalogue)
    }
}

/// What a goal requires of the steps of its plan.
pub fn requirements(planning: &Planning) -> Requirements {
    Requirements { dependencies: planning.require_dependencies, fallbacks: planning.require_fallbacks }
}

/// The agents and workers that plans are validated against.
pub fn catalogue(request: &PlanRequest) -> Catalogue {
    request.terms.catalogue(&request.agents)
}

/// Validates a planner's plan against agents, workers, policy and limits.
pub fn validate_planned(plan: &Plan, request: &PlanRequest) -> Result<ValidPlan, Vec<Issue>> {
    let draft = serde_json::to_value(plan).expect("a plan always has a JSON form");
    validate::validate_plan_by(&draft, &request.limits, &rules(&catalogue(request), request))
}
