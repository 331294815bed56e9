//! Steps that become plans.

use goalmill_common::json::Json;
use goalmill_common::plan::{Estimates, Plan, Step, StepKind};

/// Turns a step into a `plan` step.
pub(crate) fn into_plan(step: &mut Step, plan: Option<Plan>) {
    step.kind = StepKind::Plan;
    step.agent_type = "".into();
    step.action = String::new();
    step.plan = plan.map(Box::new);
    (step.fallback, step.cache, step.wait, step.callback) = (None, None, None, false);
    step.timeout_ms = None;
}

/// Puts the plan of its items in the place of a map's step.
pub(crate) fn into_items(step: &mut Step, plan: &Plan) {
    let items = plan.steps.iter().filter(|step| !step.is_cleanup()).count();
    let Estimates { seconds, tokens, cost } = step.estimates;
    let tokens = tokens.map(|tokens| tokens.saturating_mul(items as u64));
    step.estimates = Estimates { seconds, tokens, cost: cost.map(|cost| cost * items as f64) };
    into_plan(step, Some(plan.clone()));
    (step.for_each, step.when, step.approve, step.ask) = (None, None, None, None);
    step.wait = None;
    (step.output_schema, step.inputs) = (None, Json::empty_object());
    step.expected_outputs.clear();
    step.expected_output.clear();
}
