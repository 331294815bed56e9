//! Recorded calls of a step: its next attempt gets their outcomes back instead of making them again.

pub(crate) mod budget_wait;
pub(crate) mod call_plan;
pub mod callback;
pub(crate) mod recorded_calls;
pub(crate) mod resume;
pub(crate) mod suspension;

use goalmill_common::call::{CALL_NAME_MAX, RecordedCall};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::StepId;
use goalmill_common::json_limits;
use goalmill_common::limits::Limits;
use goalmill_common::plan::Estimates;

use crate::PlanState;
use crate::graph::StepIndex;

/// What the step is estimated to spend beside its recorded calls, which the next attempt does not make again.
pub(crate) fn estimates_left(state: &PlanState, i: StepIndex) -> Estimates {
    let mut left = state.plan.step(i).estimates;
    for call in state.steps[i].calls().recorded() {
        left.cost = left.cost.map(|cost| (cost - call.cost).max(0.0));
        left.tokens = left.tokens.map(|tokens| tokens.saturating_sub(call.tokens()));
    }
    left
}

/// The recorded calls of an attempt with which another plan may begin: those that gave something, without cost. `None`
/// if it is not the current attempt of the step.
pub fn paid_calls(state: &PlanState, step: &StepId, attempt: u32) -> Option<Vec<RecordedCall>> {
    let step = &state.steps[state.graph.find(step.as_str())?];
    (step.attempt() == attempt).then(|| step.calls().paid().collect())
}

/// Says why a call cannot be recorded.
///
/// - `kept`: bytes of the calls that are recorded and stay.
fn check_call(call: &RecordedCall, kept: usize, limits: &Limits) -> Result<(), Failure> {
    let refuse = |code: &str, message: String| Err(Failure::new(FailureClass::Permanent, code, message));
    let Limits { calls_max, calls_bytes_max, inline_bytes_max, nesting_max, .. } = limits;
    if call.n > *calls_max {
        return refuse("CALLS_EXCEEDED", format!("the step made more than {calls_max} calls (`limits.calls_max`)"));
    }
    if kept.saturating_add(call.bytes()) > *calls_bytes_max {
        let message =
            format!("the calls of the step have more than {calls_bytes_max} bytes (`limits.calls_bytes_max`)");
        return refuse("CALLS_EXCEEDED", message);
    }
    let bytes = call.outcome.as_ref().map_or(0, |json| json.text().len());
    let bytes = bytes.max(call.error.as_ref().map_or(0, |error| error.message.len()));
    if bytes > *inline_bytes_max {
        let most = format!("at most {inline_bytes_max} may stand in a report (`limits.inline_bytes_max`)");
        return refuse("CALL_INVALID", format!("the outcome of call {} has {bytes} bytes, {most}", call.n));
    }
    let is_short = call.name.chars().count() <= CALL_NAME_MAX
        && call.inputs.as_ref().is_none_or(|inputs| inputs.len() <= CALL_NAME_MAX);
    if !is_short {
        return refuse(
            "CALL_INVALID",
            format!("name or inputs of call {} have more than {CALL_NAME_MAX} bytes", call.n),
        );
    }
    let outcome = call.outcome.as_ref().map_or(Ok(()), |json| json_limits::check_json(json, *nesting_max));
    let used = json_limits::check_usage(Some(call.cost), Some(call.tokens()));
    match outcome.and(used) {
        Ok(()) => Ok(()),
        Err(wrong) => refuse("CALL_INVALID", format!("call {} cannot be recorded {wrong}", call.n)),
    }
}
