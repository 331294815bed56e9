//! How a step starts the plan inside it.

use goalmill_common::event::{StepEvent, StepQueued, StepStarted};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_plan::validate::with_defaults;

use crate::attempt::output_check::schema_mismatch;
use crate::attempt::spent::Spent;
use crate::attempt::{failure, recording};
use crate::graph::StepIndex;
use crate::render::payloads;
use crate::sub_plan::{family_limits, map};
use crate::turn::Turn;
use crate::{budget, cleanup, sub_plan};

/// Starts the sub-plan of a ready step.
pub(crate) fn start_sub_plan(turn: &mut Turn<'_>, i: StepIndex) {
    let depth = sub_plan::depth(turn.state) + 1;
    if depth > family_limits::depth_max(turn) {
        let message = format!("its plan would be nested {depth} deep, more than `depth_max`");
        return failure::give_up(
            turn,
            i,
            Failure::new(FailureClass::Permanent, "DEPTH_EXCEEDED", message),
            Spent::default(),
        );
    }
    if !map::expand_map(turn, i) {
        return;
    }
    let inputs = match turn.expressions(i).inputs() {
        Ok(inputs) => inputs,
        Err(why) => return failure::put_off(turn, i, why),
    };
    let inputs = match inputs_of_plan(turn, i, inputs) {
        Ok(inputs) => inputs,
        Err(failure) => return failure::give_up(turn, i, failure, Spent::default()),
    };
    let plan_bytes = sub_plan::sub_plan_bytes(turn.state, i, &inputs);
    if let Err(failure) = family_limits::check_family_bytes(turn, plan_bytes) {
        return failure::give_up(turn, i, failure, Spent::default());
    }
    payloads::forget_payloads(turn, i);
    turn.work.add(usize::try_from(plan_bytes).unwrap_or(usize::MAX), 0);
    let due_ms = sub_plan_due(turn, i);
    let budget = budget::share_of_budget(turn.state, i);
    recording::emit_queued(turn, i, StepQueued { budget, plan_bytes, ..StepQueued::new("".into(), due_ms) }, &inputs);
    let started = StepStarted { worker: None, started_ms: turn.now_ms, due_ms };
    turn.emit_step(i, StepEvent::Started(Box::new(started)));
    turn.requests.push(sub_plan::sub_plan_request(turn.state, i, &inputs));
}

/// The inputs with the defaults of the plan's `input_schema`, or why they do not match it.
fn inputs_of_plan(turn: &Turn<'_>, i: StepIndex, inputs: Json) -> Result<Json, Failure> {
    let plan = turn.state.plan.step(i).plan.as_ref();
    let Some(schema) = plan.and_then(|plan| plan.input_schema.as_ref()) else { return Ok(inputs) };
    let inputs = Json::from(with_defaults(schema, inputs.value()));
    match schema_mismatch(schema, &inputs) {
        None => Ok(inputs),
        Some(mismatch) => {
            let message = format!("the inputs do not match the `input_schema` of the plan: {mismatch}");
            Err(Failure::new(FailureClass::Permanent, "INPUT_INVALID", message))
        }
    }
}

/// The time limit of a sub-plan: the step's `timeout`, and the plan's deadline.
fn sub_plan_due(turn: &Turn<'_>, i: StepIndex) -> u64 {
    let spec = turn.state.plan.step(i);
    // What undoes the items of a map that a revision took out may continue after the deadline.
    let longer_ms = if spec.undoes.is_some() { turn.context.limits.cleanup_ms } else { 0 };
    let (timeout_ms, most) = (spec.timeout_ms, cleanup::end_due_ms(turn.state).saturating_add(longer_ms));
    let due_ms = timeout_ms.map_or(most, |timeout_ms| turn.after(timeout_ms).min(most));
    due_ms.max(1)
}
