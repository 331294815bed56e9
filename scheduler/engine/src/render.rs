//! Fills in a step's inputs and evaluates its condition, from what the steps before it gave.

use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;

use crate::graph::to_usize;
use crate::state::PlanState;

/// The step's inputs, with every expression replaced by its value.
pub(crate) fn inputs(state: &PlanState, i: u32, limits: &Limits) -> Result<Json, Failure> {
    let step = &state.plan.steps[to_usize(i)];
    if step.inputs.text().len() > limits.payload_bytes_max {
        return Err(failed("the inputs are larger than `payload_bytes_max`"));
    }
    if step.inputs.text().contains("{{") {
        return Err(failed("expressions cannot be rendered"));
    }
    Ok(step.inputs.clone())
}

/// Whether the step's condition is true; a step without one always is.
pub(crate) fn condition(state: &PlanState, i: u32, limits: &Limits) -> Result<bool, Failure> {
    let _ = limits;
    match &state.plan.steps[to_usize(i)].when {
        None => Ok(true),
        Some(_) => Err(failed("expressions cannot be evaluated")),
    }
}

fn failed(message: &str) -> Failure {
    Failure::new(FailureClass::Permanent, "EXPRESSION_FAILED", message)
}
