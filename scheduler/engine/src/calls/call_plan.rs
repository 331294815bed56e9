//! Plans that calls of a step submit: the step waits without a worker, and goes on with what the plan gave.

use goalmill_common::call::SuspendedCall;
use goalmill_common::event::{CallsDiscarded, StepEvent, StepSuspended};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Usage;
use goalmill_common::id::WorkerId;
use goalmill_common::json::Json;
use goalmill_common::plan::Plan;
use goalmill_common::status::PlanStatus;
use serde_json::json;

use crate::attempt::cancel;
use crate::attempt::spent::Spent;
use crate::budget::call_budget;
use crate::budget::plan_size::count_steps;
use crate::calls::resume;
use crate::graph::StepIndex;
use crate::sub_plan::{decompose, family_limits};
use crate::turn::Turn;
use crate::{SubPlanEnd, cleanup, sub_plan};

/// Ends an attempt one of whose calls submits a plan, and starts that. A plan that is refused is the outcome of the
/// call: the agent can correct it.
pub(crate) fn suspend_for_plan(
    turn: &mut Turn<'_>,
    i: StepIndex,
    mut call: SuspendedCall,
    worker: WorkerId,
    spent: Spent,
) {
    let submitted = call.wait.plan.take();
    let most = cleanup::end_due_ms(turn.state);
    let due_ms = call.wait.limit_ms.map_or(most, |limit_ms| turn.after(limit_ms).min(most));
    let validated = validate_call_plan(turn, i, submitted.as_ref());
    let paid = Usage { cost: spent.cost, tokens: spent.tokens };
    let budget = validated.as_ref().ok().and_then(|_| call_budget::budget_of_call(turn.state, i, paid));
    let (plan, refused) = match validated {
        Ok(plan) => (Some(Box::new(plan)), None),
        Err(failure) => (None, Some(failure)),
    };
    let Spent { cost, tokens, split: usage, .. } = spent;
    let suspended =
        StepSuspended { plan, budget, cost, tokens, usage, ..StepSuspended::new(call.clone(), worker, due_ms) };
    turn.emit_step(i, StepEvent::Suspended(Box::new(suspended)));
    match refused {
        Some(failure) => resume::resume_call(turn, i, call, &json!({"error": failure}), false, Usage::default()),
        None => turn.requests.extend(sub_plan::plan_of_call(turn.state, i)),
    }
}

fn validate_call_plan(turn: &Turn<'_>, i: StepIndex, submitted: Option<&Json>) -> Result<Plan, Failure> {
    let depth = sub_plan::depth(turn.state) + 1;
    if depth > family_limits::depth_max(turn) {
        let message = format!("the plan would be nested {depth} deep, more than `depth_max`");
        return Err(Failure::new(FailureClass::Permanent, "DEPTH_EXCEEDED", message));
    }
    let invalid = |message: String| Failure::new(FailureClass::Permanent, "SUB_PLAN_INVALID", message);
    let plan =
        decompose::validate_sub_plan(turn, i, submitted)?.ok_or_else(|| invalid("the plan is missing".into()))?;
    let (steps, most) = (count_steps(&plan), turn.context.limits.planned_steps_max);
    if steps > u64::try_from(most).unwrap_or(u64::MAX) {
        return Err(invalid(format!("the plan has {steps} steps, more than `planned_steps_max` ({most})")));
    }
    family_limits::check_family_room(turn, Some(&plan))?;
    Ok(plan)
}

/// Continues a step whose call waited for this plan.
pub(crate) fn call_plan_ended(turn: &mut Turn<'_>, i: StepIndex, waiting: SuspendedCall, end: SubPlanEnd) {
    let SubPlanEnd { status, outputs, usage, failure, .. } = end;
    let mut outcome = json!({"plan": sub_plan::sub_plan_id(turn.state, i), "status": status});
    let limits = &turn.context.limits;
    let bytes = outputs.text().len();
    let is_done = matches!(status, PlanStatus::Completed | PlanStatus::Partial);
    let has_room = turn.state.steps[i].calls().bytes().saturating_add(bytes) < limits.calls_bytes_max;
    let failed = |code: &str, message: String| Failure::new(FailureClass::Permanent, code, message);
    if !is_done {
        let failure = failure.unwrap_or_else(|| failed("SUB_PLAN_FAILED", format!("the plan was {status}")));
        outcome["error"] = json!(failure);
    } else if bytes > limits.inline_bytes_max || !has_room {
        let message = format!("its outputs have {bytes} bytes; let its last step give a summary of them");
        outcome["error"] = json!(failed("OUTPUT_TOO_LARGE", message));
    } else {
        outcome["outputs"] = outputs.value();
    }
    resume::resume_call(turn, i, waiting, &outcome, false, usage.bounded());
}

/// The plan of a call did not end in time: it is cancelled.
pub(crate) fn end_plan_wait(turn: &mut Turn<'_>, i: StepIndex, waiting: SuspendedCall) {
    cancel::cancel_attempt(turn, i);
    let message = "the plan did not end in time";
    let failure = Failure::new(FailureClass::Timeout, "PLAN_TIMEOUT", message);
    let outcome =
        json!({"plan": sub_plan::sub_plan_id(turn.state, i), "status": PlanStatus::Cancelled, "error": failure});
    resume::resume_call(turn, i, waiting, &outcome, true, Usage::default());
}

/// Drops the recorded call in whose place another one waits.
pub(crate) fn discard_for(turn: &mut Turn<'_>, i: StepIndex, call: &SuspendedCall) {
    if let Some(recorded) = turn.state.steps[i].calls().get(call.n) {
        let (recorded, called) = (recorded.name.clone(), Some(call.name.clone()));
        turn.emit_step(i, StepEvent::CallsDiscarded(Box::new(CallsDiscarded { from: call.n, recorded, called })));
    }
}
