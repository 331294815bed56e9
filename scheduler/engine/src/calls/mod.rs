//! Recorded calls of a step: its next attempt gets their outcomes back instead of making them again.

pub(crate) mod call_plan;
pub(crate) mod callback;
pub(crate) mod recorded_calls;

use goalmill_common::call::{CALL_NAME_MAX, CallWait, CallWaitKind, RecordedCall, SuspendedCall, WAIT_TEXT_CHARS_MAX};
use goalmill_common::event::{CallsDiscarded, StepEvent, StepResumed, StepSuspended};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Usage;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::json_limits;
use goalmill_common::limits::Limits;
use goalmill_common::number::to_usize;
use goalmill_common::plan::Estimates;
use goalmill_common::report::Report;
use goalmill_plan::schema::Schema;
use serde_json::{Value, json};

use crate::attempt::report::Spent;
use crate::attempt::{failure, report, retry};
use crate::budget::call_budget;
use crate::calls::recorded_calls::Successor;
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::{PlanState, Rejection};
pub use callback::{callback_token, received_callback};

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

/// Records a finished call. Only the successor of the last one is new; another name, or other inputs, drop what was
/// recorded.
///
/// A call that cannot be recorded ends the attempt: the next one would make it again.
pub(crate) fn record_call(turn: &mut Turn<'_>, i: StepIndex, report: &Report) -> Result<(), Rejection> {
    let stale = || Rejection::StaleAttempt { step: report.step.clone(), attempt: report.attempt };
    let call = report.call.as_deref().ok_or_else(stale)?;
    let known = turn.state.steps[i].calls();
    let place = known.place(call);
    if place == Successor::Stale {
        return Err(stale());
    }
    let kept = if place == Successor::Other { 0 } else { known.bytes() };
    if let Err(failure) = check_call(call, kept, &turn.context.limits) {
        refuse_call(turn, i, report, call, failure);
        return Ok(());
    }
    let recorded = known.get(call.n).map(|known| known.name.clone());
    report::started(turn, i, report);
    if let Some(recorded) = recorded {
        let called = Some(call.name.clone());
        turn.emit_step(i, StepEvent::CallsDiscarded(Box::new(CallsDiscarded { from: call.n, recorded, called })));
    }
    turn.emit_step(i, StepEvent::CallRecorded(Box::new(call.clone())));
    Ok(())
}

/// Fails the attempt whose call cannot be recorded, and stops it. What the call used up counts.
fn refuse_call(turn: &mut Turn<'_>, i: StepIndex, report: &Report, call: &RecordedCall, failure: Failure) {
    report::started(turn, i, report);
    failure::cancel_attempt(turn, i);
    report::acknowledge(turn, report);
    let Usage { cost, tokens } = Usage { cost: call.cost, tokens: call.tokens() }.bounded();
    retry::fail_attempt(turn, i, failure, Spent { cost, tokens, split: call.usage, duration_ms: None });
}

/// Ends an attempt one of whose calls waits: it holds no slot, and is not counted as a failure.
pub(crate) fn suspend(turn: &mut Turn<'_>, i: StepIndex, report: &Report, spent: Spent) {
    let checked = match report.suspended.as_deref() {
        Some(call) if call.wait.kind == CallWaitKind::Callback => Ok(call.clone()),
        Some(call) => check_suspended(turn, i, call).map(|()| call.clone()),
        None => Err("`suspended` is missing".into()),
    };
    let mut call = match checked {
        Ok(call) => call,
        Err(why) => {
            let message = format!("the step cannot be suspended: {why}");
            return retry::fail_attempt(
                turn,
                i,
                Failure::new(FailureClass::Permanent, "ANSWER_INVALID", message),
                spent,
            );
        }
    };
    if call.wait.kind == CallWaitKind::Callback {
        // What an agent says of a call that is none is not kept.
        let wait = CallWait::new(CallWaitKind::Callback, "");
        let call = SuspendedCall { n: 0, name: "callback".into(), inputs: None, wait };
        return callback::suspend_for_callback(turn, i, call, report.worker.clone(), spent);
    }
    call.wait.text = call.wait.text.chars().take(WAIT_TEXT_CHARS_MAX).collect();
    call_plan::discard_for(turn, i, &call);
    let worker = report.worker.clone();
    match call.wait.kind {
        CallWaitKind::Approval | CallWaitKind::Answer => {
            let most = turn.context.limits.approval_ms_max;
            let due_ms = turn.after(call.wait.limit_ms.unwrap_or(most).min(most));
            let Spent { cost, tokens, split: usage, .. } = spent;
            let suspended = StepSuspended { cost, tokens, usage, ..StepSuspended::new(call, worker, due_ms) };
            turn.emit_step(i, StepEvent::Suspended(Box::new(suspended)));
        }
        CallWaitKind::Plan => call_plan::suspend_for_plan(turn, i, call, worker, spent),
        CallWaitKind::Budget => call_budget::suspend_for_budget(turn, i, call, worker, spent),
        CallWaitKind::Callback => {}
    }
}

/// Says why a call cannot wait.
fn check_suspended(turn: &Turn<'_>, i: StepIndex, call: &SuspendedCall) -> Result<(), String> {
    let limits = &turn.context.limits;
    let known = turn.state.steps[i].calls();
    let is_next = to_usize(call.n) == known.recorded().len() + 1;
    let is_other = known.get(call.n).is_some_and(|known| !known.is_same(&call.name, call.inputs.as_deref()));
    if !is_next && !is_other || call.n > limits.calls_max {
        return Err(format!("call {} is not the next one", call.n));
    }
    let is_short = |text: &str| text.len() <= CALL_NAME_MAX * 4;
    if !is_short(&call.name) || !call.inputs.as_deref().is_none_or(is_short) {
        return Err("its name or inputs are too long".into());
    }
    let CallWait { kind, plan, inputs, needs, .. } = &call.wait;
    let is_valid = |json: &&Json| json_limits::check_json(json, limits.nesting_max).is_ok();
    if plan.as_ref().is_some_and(|plan| !is_valid(&plan)) {
        return Err("its plan is nested too deeply, or has a number that cannot be kept".into());
    }
    let inputs_bytes = inputs.as_ref().map_or(0, |inputs| inputs.text().len());
    if inputs_bytes > limits.inline_bytes_max || inputs.as_ref().is_some_and(|inputs| !is_valid(&inputs)) {
        return Err("the inputs of its plan are too large".into());
    }
    if needs.is_some_and(|needs| json_limits::check_usage(Some(needs.cost), Some(needs.tokens)).is_err())
        || (*kind == CallWaitKind::Budget && needs.is_none())
    {
        return Err("`needs` is missing, or out of range".into());
    }
    let CallWait { schema: Some(schema), .. } = &call.wait else { return Ok(()) };
    if schema.text().len() > limits.inline_bytes_max {
        return Err("the schema of the answer is too large".into());
    }
    json_limits::check_json(schema, limits.nesting_max).map_err(|wrong| wrong.to_string())?;
    Schema::cached_outputs(schema).map(drop).map_err(|unusable| unusable.detail)
}

/// The call for which the step waits.
pub(crate) fn waiting_call(turn: &Turn<'_>, i: StepIndex) -> Option<SuspendedCall> {
    turn.state.steps[i].run().suspended().map(|suspended| suspended.call.clone())
}

/// Records what a call that waits has come to, and lets the step go on.
///
/// - `used`: by the plan that it waited for.
pub(crate) fn resume_call(
    turn: &mut Turn<'_>,
    i: StepIndex,
    waiting: SuspendedCall,
    outcome: &Value,
    by_default: bool,
    used: Usage,
) {
    let SuspendedCall { n, name, inputs, .. } = waiting;
    let now_ms = Some(turn.now_ms);
    let call = RecordedCall {
        n,
        name,
        inputs,
        outcome: Some(outcome.clone().into()),
        finished_ms: now_ms,
        ..RecordedCall::default()
    };
    let Usage { cost, tokens } = used;
    let resumed = StepResumed { cost, tokens, ..StepResumed::new(call, by_default) };
    turn.emit_step(i, StepEvent::Resumed(Box::new(resumed)));
}

/// The time is over: an approval is refused, a question has no answer, a plan is cancelled, and the agent goes on with
/// that. Without room in the budget the step fails.
pub(crate) fn resume_call_by_default(turn: &mut Turn<'_>, i: StepIndex, waiting: SuspendedCall) {
    let outcome = match waiting.wait.kind {
        CallWaitKind::Approval => json!({"approved": false, "reason": "approval timed out"}),
        CallWaitKind::Answer => json!({"error": "nobody answered in time"}),
        CallWaitKind::Plan => return call_plan::end_plan_wait(turn, i, waiting),
        CallWaitKind::Budget => return call_budget::end_budget_wait(turn, i, &waiting),
        CallWaitKind::Callback => return callback::end_callback_wait(turn, i),
    };
    resume_call(turn, i, waiting, &outcome, true, Usage::default());
}

/// Fails an attempt whose outputs are refused. The same calls would give the same outputs again: they are dropped.
pub(crate) fn refuse_outputs(turn: &mut Turn<'_>, i: StepIndex, failure: Failure, spent: Spent) {
    if let Some(first) = turn.state.steps[i].calls().recorded().first() {
        let discarded = CallsDiscarded { from: 1, recorded: first.name.clone(), called: None };
        turn.emit_step(i, StepEvent::CallsDiscarded(Box::new(discarded)));
    }
    retry::fail_attempt(turn, i, failure.with_unknown_outcome(), spent);
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
