//! Fills in a step's inputs and evaluates its condition, from what the steps before it gave.

use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;

use crate::expression::{self, ExpressionError, Scope, StepView};
use crate::graph::to_usize;
use crate::state::PlanState;

/// The step's inputs, with every expression replaced by its value.
pub(crate) fn inputs(state: &PlanState, i: u32, limits: &Limits) -> Result<Json, Failure> {
    let step = &state.plan.steps[to_usize(i)];
    let bytes = step.inputs.text().len();
    if bytes > limits.payload_bytes_max {
        let most = limits.payload_bytes_max;
        let message = format!("the inputs have {bytes} bytes, more than `payload_bytes_max` ({most})");
        return Err(Failure::new(FailureClass::Permanent, "INPUT_TOO_LARGE", message));
    }
    if expression::is_plain(step.inputs.text()) {
        return Ok(step.inputs.clone());
    }
    with_scope(state, i, |scope| expression::render(&step.inputs, scope, limits), "the inputs cannot be filled in")
}

/// Whether the step's condition is true; a step without one always is.
pub(crate) fn condition(state: &PlanState, i: u32, limits: &Limits) -> Result<bool, Failure> {
    let Some(when) = &state.plan.steps[to_usize(i)].when else { return Ok(true) };
    let what = format!("the condition `{when}` has no value");
    with_scope(state, i, |scope| expression::is_true(when, scope, limits), &what)
}

/// Lets an expression see the goal, what the step depends on, and whatever else is over. An expression that fails once
/// fails always, so there is no second try.
fn with_scope<T>(
    state: &PlanState,
    i: u32,
    evaluate: impl FnOnce(&Scope<'_>) -> Result<T, ExpressionError>,
    what: &str,
) -> Result<T, Failure> {
    let goal = &state.accepted().expect("a plan with steps was accepted").goal;
    let dependencies = &state.plan.steps[to_usize(i)].dependencies;
    let look = |id: &str| {
        let step = &state.steps[to_usize(state.graph.find(id)?)];
        let seen = step.status.is_final() || dependencies.iter().any(|dependency| dependency.as_str() == id);
        seen.then_some(StepView { status: step.status, outputs: step.outputs.as_ref() })
    };
    evaluate(&Scope::new(goal, &look)).map_err(|e| {
        let message = format!("{what}: {}", e.message);
        Failure::new(FailureClass::Permanent, e.code, message)
    })
}
