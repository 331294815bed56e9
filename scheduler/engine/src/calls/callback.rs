//! Steps whose agent has accepted the task and reports the outcome later: they hold no worker and no slot meanwhile.

use goalmill_common::call::SuspendedCall;
use goalmill_common::callback::{CallbackReport, TaskCallback};
use goalmill_common::event::{CallbackReceived, StepEvent, StepStarted, StepSuspended};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::{AttemptToken, StepId, WorkerId};
use goalmill_common::plan::Step;
use goalmill_common::report::{Report, What};
use goalmill_common::status::StepStatus;

use crate::attempt::report::Spent;
use crate::attempt::{report, retry};
use crate::decide::{Turn, not_allowed};
use crate::graph::{StepIndex, unlock};
use crate::{EngineContext, PlanState, Rejection, TokenKey};

/// The worker that the log names for what comes by callback.
const CALLBACK: &str = "callback";

/// Ends the part of an attempt that holds a worker: its agent has accepted the task.
pub(crate) fn suspend_for_callback(
    turn: &mut Turn<'_>,
    i: StepIndex,
    call: SuspendedCall,
    worker: WorkerId,
    spent: Spent,
) {
    let spec = turn.state.plan.step(i);
    if !spec.callback {
        let message = "the agent accepted the task for later, and the step has no `callback: true`";
        return retry::fail_attempt(turn, i, Failure::new(FailureClass::Permanent, "ANSWER_INVALID", message), spent);
    }
    let due_ms = turn.after(spec.run_limit_ms(&turn.context.limits));
    let Spent { cost, tokens, split: usage, .. } = spent;
    let suspended = StepSuspended { cost, tokens, usage, ..StepSuspended::new(call, worker, due_ms) };
    turn.emit_step(i, StepEvent::Suspended(Box::new(suspended)));
}

/// Takes the outcome of an attempt by callback. The same report again changes nothing.
pub(crate) fn receive_callback(
    turn: &mut Turn<'_>,
    step: &StepId,
    attempt: u32,
    report: CallbackReport,
) -> Result<(), Rejection> {
    let i = turn.find(step)?;
    let digest = report.digest();
    match received_callback(turn.state, i, attempt) {
        Some(known) if known == digest => return Ok(()),
        Some(_) => return Err(not_allowed(format!("attempt {attempt} of step `{step}` has another report"))),
        None => {}
    }
    let status = turn.status_of(i);
    let waits = turn.state.steps[i].run().awaits_callback() || status.is_in_flight() && !turn.state.runs_in_engine(i);
    if !waits || !turn.state.plan.step(i).callback || attempt != turn.state.steps[i].attempt() {
        return Err(not_allowed(format!("attempt {attempt} of step `{step}` does not wait for a callback")));
    }
    if status == StepStatus::Queued {
        let due_ms = turn.state.steps[i].due_ms().unwrap_or_default();
        let started = StepStarted { worker: None, started_ms: turn.now_ms, due_ms };
        turn.emit_step(i, StepEvent::Started(Box::new(started)));
    }
    turn.emit_step(i, StepEvent::CallbackReceived(Box::new(CallbackReceived { digest })));
    let CallbackReport { outputs, error, cost, tokens } = report;
    let what = if error.is_some() { What::Failed } else { What::Completed };
    let failure = error.map(|error| error.into_failure());
    let queue = turn.state.queue(i).cloned().unwrap_or_else(|| "".into());
    let report = Report { outputs, failure, cost, tokens, ..Report::on_none(queue, "".into(), CALLBACK.into(), what) };
    report::apply_callback(turn, i, report);
    unlock::propagate(turn);
    Ok(())
}

/// The time for the callback is over: the attempt has failed.
pub(crate) fn end_callback_wait(turn: &mut Turn<'_>, i: StepIndex) {
    let message = "the agent accepted the task, and no callback came in time";
    retry::fail_attempt(turn, i, Failure::new(FailureClass::Timeout, "CALLBACK_TIMEOUT", message), Spent::default());
}

/// Why a step with `callback: true` cannot be sent: its agent would not know where to report.
pub(crate) fn missing_address(context: &EngineContext, step: &Step) -> Option<String> {
    let id = &step.id;
    (step.callback && context.callback_base.is_empty()).then(|| {
        format!("step `{id}` has `callback: true`, and agents cannot reach this scheduler: set `api.callback_url`")
    })
}

/// The digest of the report that came for this attempt by callback.
pub fn received_callback(state: &PlanState, i: StepIndex, attempt: u32) -> Option<&str> {
    state.steps.get(i.as_usize())?.callback()?.digest(attempt)
}

/// The token that the callback of an attempt must bring; `None` for a step without one.
pub fn callback_token(state: &PlanState, i: StepIndex, attempt: u32, key: TokenKey) -> Option<AttemptToken> {
    let spec = state.plan.get(i).filter(|spec| spec.callback)?;
    Some(key.callback_token(&state.accepted, &spec.id, attempt))
}

/// Where the current attempt's outcome may be sent.
pub(crate) fn task_callback(state: &PlanState, i: StepIndex, context: &EngineContext) -> Option<TaskCallback> {
    let attempt = state.steps[i].attempt();
    let token = callback_token(state, i, attempt, context.token_key)?;
    let (base, plan, step) = (&context.callback_base, state.id(), &state.plan.step(i).id);
    Some(TaskCallback { url: format!("{base}/v1/callbacks/{plan}/{step}/{attempt}"), token })
}
