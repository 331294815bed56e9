//! Takes recorded calls, and suspends attempts whose calls wait.

use goalmill_common::call::{CALL_NAME_MAX, CallWait, CallWaitKind, RecordedCall, SuspendedCall, WAIT_TEXT_CHARS_MAX};
use goalmill_common::event::{CallsDiscarded, StepEvent, StepSuspended};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Usage;
use goalmill_common::id::WorkerId;
use goalmill_common::json::Json;
use goalmill_common::json_limits;
use goalmill_common::limits::Limits;
use goalmill_common::number::to_usize;
use goalmill_common::report::Report;
use goalmill_plan::schema::Schema;
use serde_json::json;

use crate::Rejection;
use crate::attempt::spent::Spent;
use crate::attempt::{acknowledge, cancel, failed_attempt};
use crate::calls::recorded_calls::Successor;
use crate::calls::{budget_wait, call_plan, resume};
use crate::graph::StepIndex;
use crate::turn::Turn;

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
    acknowledge::record_start(turn, i, report);
    if let Some(recorded) = recorded {
        let called = Some(call.name.clone());
        turn.emit_step(i, StepEvent::CallsDiscarded(Box::new(CallsDiscarded { from: call.n, recorded, called })));
    }
    turn.emit_step(i, StepEvent::CallRecorded(Box::new(call.clone())));
    Ok(())
}

/// Fails the attempt whose call cannot be recorded, and stops it. What the call used up counts.
fn refuse_call(turn: &mut Turn<'_>, i: StepIndex, report: &Report, call: &RecordedCall, failure: Failure) {
    acknowledge::record_start(turn, i, report);
    cancel::cancel_attempt(turn, i);
    acknowledge::acknowledge(turn, report);
    let Usage { cost, tokens } = Usage { cost: call.cost, tokens: call.tokens() }.bounded();
    failed_attempt::fail_attempt(turn, i, failure, Spent { cost, tokens, split: call.usage, duration_ms: None });
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
            return failed_attempt::fail_attempt(
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
        return suspend_for_callback(turn, i, call, report.worker.clone(), spent);
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
        CallWaitKind::Budget => budget_wait::suspend_for_budget(turn, i, call, worker, spent),
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

/// Fails an attempt whose outputs are refused. The same calls would give the same outputs again: they are dropped.
pub(crate) fn refuse_outputs(turn: &mut Turn<'_>, i: StepIndex, failure: Failure, spent: Spent) {
    if let Some(first) = turn.state.steps[i].calls().recorded().first() {
        let discarded = CallsDiscarded { from: 1, recorded: first.name.clone(), called: None };
        turn.emit_step(i, StepEvent::CallsDiscarded(Box::new(discarded)));
    }
    failed_attempt::fail_attempt(turn, i, failure.with_unknown_outcome(), spent);
}

/// The time is over: an approval is refused, a question has no answer, a plan is cancelled, and the agent goes on with
/// that. Without room in the budget the step fails.
pub(crate) fn resume_call_by_default(turn: &mut Turn<'_>, i: StepIndex, waiting: SuspendedCall) {
    let outcome = match waiting.wait.kind {
        CallWaitKind::Approval => json!({"approved": false, "reason": "approval timed out"}),
        CallWaitKind::Answer => json!({"error": "nobody answered in time"}),
        CallWaitKind::Plan => return call_plan::end_plan_wait(turn, i, waiting),
        CallWaitKind::Budget => return budget_wait::end_budget_wait(turn, i, &waiting),
        CallWaitKind::Callback => return end_callback_wait(turn, i),
    };
    resume::resume_call(turn, i, waiting, &outcome, true, Usage::default());
}

/// Ends the part of an attempt that holds a worker: its agent has accepted the task.
fn suspend_for_callback(turn: &mut Turn<'_>, i: StepIndex, call: SuspendedCall, worker: WorkerId, spent: Spent) {
    let spec = turn.state.plan.step(i);
    if !spec.callback {
        let message = "the agent accepted the task for later, and the step has no `callback: true`";
        return failed_attempt::fail_attempt(
            turn,
            i,
            Failure::new(FailureClass::Permanent, "ANSWER_INVALID", message),
            spent,
        );
    }
    let due_ms = turn.after(spec.run_limit_ms(&turn.context.limits));
    let Spent { cost, tokens, split: usage, .. } = spent;
    let suspended = StepSuspended { cost, tokens, usage, ..StepSuspended::new(call, worker, due_ms) };
    turn.emit_step(i, StepEvent::Suspended(Box::new(suspended)));
}

/// The time for the callback is over: the attempt has failed.
fn end_callback_wait(turn: &mut Turn<'_>, i: StepIndex) {
    let message = "the agent accepted the task, and no callback came in time";
    failed_attempt::fail_attempt(
        turn,
        i,
        Failure::new(FailureClass::Timeout, "CALLBACK_TIMEOUT", message),
        Spent::default(),
    );
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
