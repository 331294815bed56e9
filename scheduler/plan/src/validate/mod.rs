//! Validates documents of plans and goals, in any accepted spelling.
//!
//! The result is one canonical plan, or all issues, each with a JSON Pointer into the document and a hint.
//! Every plan that runs has passed through here.

mod agents;
mod budget;
pub mod catalogue;
mod cleanup;
mod conditions;
mod declared_outputs;
mod dependency;
mod execution;
mod expression_scope;
mod for_each;
mod goal;
mod goal_context;
mod goal_contract;
mod graph;
mod input_schema;
mod inputs;
pub mod names;
mod origin;
mod outputs;
pub mod path;
mod plan_inputs;
mod planning;
mod policy;
mod reading;
mod redundancy;
mod repeat;
mod requirements;
mod retry;
mod rules;
mod schema;
mod shape;
mod step;
mod step_failure;
mod step_fields;
mod step_id;
pub mod wait;

use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use serde_json::Value;

use crate::document::{self, DocumentPath, Format, ValidationContext};
use crate::states::ValidPlan;

pub use agents::{no_live_worker, permit_all, permit_routed};
pub use budget::{Forecast, forecast, preview};
pub use catalogue::{ActionEntry, AgentEntry, Catalogue, Durations, Measured};
pub use goal::{goal, goal_field};
pub use plan_inputs::{give_inputs, with_defaults};
pub use planning::planning_field;
pub use requirements::Requirements;
pub use rules::{Policy, Rules, Weight, WeightSettings};
pub use shape::{canonical_phase, canonical_phase_change, plan_field};
pub use step_fields::step_field;
pub use step_id::{id_text, own_id};

/// Parses and validates a plan in any accepted spelling.
pub fn validate_text(text: &[u8], format: Format, limits: &Limits) -> Result<ValidPlan, Vec<Issue>> {
    validate_plan(&document::parse_document(text, format, limits)?, limits)
}

/// Validates the form of a plan in any accepted spelling.
pub fn validate_plan(draft: &Value, limits: &Limits) -> Result<ValidPlan, Vec<Issue>> {
    validate_in(&ValidationContext::new(limits), draft)
}

/// Validates a plan in any accepted spelling, also against agents, workers, budget and policy.
pub fn validate_plan_by(draft: &Value, limits: &Limits, rules: &Rules<'_>) -> Result<ValidPlan, Vec<Issue>> {
    validate_in(&ValidationContext::with_rules(limits, rules), draft)
}

fn validate_in(context: &ValidationContext<'_>, draft: &Value) -> Result<ValidPlan, Vec<Issue>> {
    let plan = read_plan(context, draft);
    let warnings = context.take_issues()?;
    let plan = plan.expect("a document without errors gives a plan");
    Ok(ValidPlan::new(plan, warnings))
}

/// Reads a plan; `None` only after an error was noted.
fn read_plan(context: &ValidationContext<'_>, draft: &Value) -> Option<Plan> {
    let plan = shape::document(context, &DocumentPath::ROOT, draft, 0);
    plan_inputs::check_read(context, plan.as_ref(), context.rules.and_then(|rules| rules.inputs.as_deref()));
    plan
}

#[cfg(test)]
mod tests;
