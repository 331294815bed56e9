//! Renders a step's inputs and evaluates its condition from the outputs of other steps.

use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_expression::{self as expression, ExpressionError, NeededPayload, PAYLOAD_NEEDED, Scope, ScopedStep};
use serde_json::{Map, Value};

use crate::graph::StepIndex;
use crate::state::PlanState;

/// Why an expression has no value now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Unrendered {
    /// It never has one.
    Failed(Failure),
    /// It reads stored payloads that are not loaded.
    Needs(Vec<NeededPayload>),
}

impl Unrendered {
    /// The failure of somebody who cannot wait.
    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            Self::Needs(payloads) => unread(&payloads),
        }
    }
}

/// The step's inputs, with every expression replaced by its value.
pub(crate) fn inputs(state: &PlanState, i: StepIndex, limits: &Limits) -> Result<Json, Unrendered> {
    if let Some(inputs) = state.hook_inputs(i) {
        return Ok(inputs.clone());
    }
    let step = &state.plan.steps[i];
    let bytes = step.inputs.text().len();
    if bytes > limits.payload_bytes_max {
        let most = limits.payload_bytes_max;
        let message = format!("the inputs have {bytes} bytes, more than `payload_bytes_max` ({most})");
        return Err(Unrendered::Failed(Failure::new(FailureClass::Permanent, "INPUT_TOO_LARGE", message)));
    }
    let rendered = if expression::is_plain(step.inputs.text()) {
        step.inputs.clone()
    } else {
        let what = "the inputs cannot be rendered";
        with_scope(state, i, |scope| expression::render(&step.inputs, scope, limits), what)?
    };
    Ok(with_answer(state, i, rendered))
}

/// Adds a person's answer to the inputs, under the name in `ask.into`; with `*`, each field of the answer under its own.
fn with_answer(state: &PlanState, i: StepIndex, inputs: Json) -> Json {
    let into = state.plan.steps[i].ask.as_ref().and_then(|ask| ask.into.as_ref());
    let (Some(name), Some(answer)) = (into, state.answer(i)) else { return inputs };
    let inputs = inputs.value();
    let mut fields =
        if let Value::Object(fields) = inputs { fields } else { Map::from_iter([("inputs".to_owned(), inputs)]) };
    let answer = answer.value();
    if name == goalmill_common::plan::INTO_EACH
        && let Value::Object(answers) = answer
    {
        fields.extend(answers);
    } else {
        fields.insert(name.clone(), answer);
    }
    Value::Object(fields).into()
}

/// Renders a text of the step.
pub(crate) fn text(state: &PlanState, i: StepIndex, text: &str, limits: &Limits) -> Result<String, Unrendered> {
    let what = format!("`{text}` cannot be rendered");
    with_scope(state, i, |scope| expression::render_text(text, scope, limits), &what)
}

/// Renders the key of a step's cache; the key may use the rendered inputs.
pub(crate) fn key(state: &PlanState, i: StepIndex, text: &str, limits: &Limits) -> Result<String, Unrendered> {
    let what = format!("`{text}` cannot be rendered");
    let inputs = if expression::sees_inputs(text) { Some(inputs(state, i, limits)?) } else { None };
    with_scope_and(state, i, inputs.as_ref(), |scope| expression::render_key(text, scope, limits), &what)
}

/// Evaluates the step's condition; a step without one is true.
pub(crate) fn condition(state: &PlanState, i: StepIndex, limits: &Limits) -> Result<bool, Unrendered> {
    let Some(when) = &state.plan.steps[i].when else { return Ok(true) };
    let what = format!("the condition `{when}` cannot be evaluated");
    with_scope(state, i, |scope| expression::is_true(when, scope, limits), &what)
}

/// Evaluates the expression of a success criterion; it sees the goal and every final step.
pub(crate) fn criterion(state: &PlanState, check: &str, limits: &Limits) -> Result<bool, ExpressionError> {
    let look = |id: &str| final_step(state, id);
    let scope = Scope::new(&state.accepted.goal, &look).with_payloads(state.loads.of(None));
    expression::is_true(check, &scope, limits)
}

/// The text of a value that the expression of a success criterion names: `steps.total.outputs.sum`.
pub(crate) fn path(state: &PlanState, path: &str, limits: &Limits) -> Result<String, ExpressionError> {
    let text = format!("{{{{ {path} }}}}");
    let look = |id: &str| final_step(state, id);
    let scope = Scope::new(&state.accepted.goal, &look).with_payloads(state.loads.of(None));
    expression::render_text(&text, &scope, limits)
}

fn final_step<'s>(state: &'s PlanState, id: &str) -> Option<ScopedStep<'s>> {
    let step = &state.steps[state.graph.find(id)?];
    let (status, partial) = (step.status, step.partial);
    status.is_final().then_some(ScopedStep { status, partial, outputs: step.outputs.as_ref() })
}

/// Evaluates an expression that sees the goal, the step's dependencies and all final steps. Its failure is
/// permanent.
fn with_scope<T>(
    state: &PlanState,
    i: StepIndex,
    evaluate: impl FnOnce(&Scope<'_>) -> Result<T, ExpressionError>,
    what: &str,
) -> Result<T, Unrendered> {
    with_scope_and(state, i, None, evaluate, what)
}

/// The same; the expression also sees the step's own inputs.
fn with_scope_and<T>(
    state: &PlanState,
    i: StepIndex,
    inputs: Option<&Json>,
    evaluate: impl FnOnce(&Scope<'_>) -> Result<T, ExpressionError>,
    what: &str,
) -> Result<T, Unrendered> {
    let goal = &state.accepted.goal;
    let dependencies = &state.plan.steps[i].dependencies;
    let look = |id: &str| {
        let step = &state.steps[state.graph.find(id)?];
        let seen = step.status.is_final() || dependencies.iter().any(|dependency| dependency.as_str() == id);
        seen.then_some(ScopedStep { status: step.status, outputs: step.outputs.as_ref(), partial: step.partial })
    };
    let scope = Scope::new(goal, &look).with_inputs(inputs).with_payloads(state.loads.of(Some(i)));
    evaluate(&scope).map_err(|e| {
        if e.code == PAYLOAD_NEEDED {
            return Unrendered::Needs(e.payloads);
        }
        let message = format!("{what}: {}", e.message);
        Unrendered::Failed(Failure::new(FailureClass::Permanent, e.code, message))
    })
}

/// The failure of a payload that is asked for and cannot be had.
fn unread(payloads: &[NeededPayload]) -> Failure {
    let paths: Vec<String> = payloads.iter().map(|payload| format!("`{}`", payload.path)).collect();
    let message = format!("{} is stored and not loaded", paths.join(", "));
    Failure::new(FailureClass::Permanent, PAYLOAD_NEEDED, message)
}
