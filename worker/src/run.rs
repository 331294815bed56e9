//! A task's life in this worker: start, execute, offload large outputs, free the slot, report.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use goalmill_common::call::{CallWait, CallWaitKind, SuspendedCall};
use goalmill_common::callback;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json_limits;
use goalmill_common::report::{Report, What};
use goalmill_common::task::Task;
use tokio::time::Instant;

use crate::executor::ExecutionResult;
use crate::held_tasks::{Assignment, StopReason};
use crate::payload;
use crate::recorded_calls::RecordedCalls;
use crate::worker::{Served, Worker};

/// Time that a stopped execution has to clean up, in milliseconds.
const CLEAN_UP_MS: u64 = 100;

/// How an execution ended.
enum RunEnd {
    Ok(ExecutionResult),
    Failed(Failure),
    /// A call waits. The result has what the attempt used up beside its recorded calls.
    Suspended(SuspendedCall, ExecutionResult),
    /// Stopped from outside; [`Assignment::stopped`] has the reason.
    Interrupted,
}

/// Runs one attempt and reports it.
pub(crate) async fn run(worker: Arc<Worker>, assignment: Arc<Assignment>, serial: u64) {
    let served = &worker.served[&assignment.agent_type];
    let completion = match wait_turn(&worker, served, &assignment).await {
        Some(held) => held,
        None => begin(&worker, served, &assignment).await,
    };
    worker.held_tasks.remove(serial);
    if let Some(report) = final_report(&worker, served, &assignment, completion) {
        worker.outbox.push(report);
    }
}

/// Waits as long as the agent type has asked to. Returns the end of a task that does not begin.
async fn wait_turn(worker: &Worker, served: &Served, assignment: &Assignment) -> Option<RunEnd> {
    tokio::select! {
        biased;
        turn = served.throttle.wait_turn(&worker.random) => turn.err().map(RunEnd::Failed),
        () = assignment.cancelled.cancelled() => Some(RunEnd::Interrupted),
    }
}

async fn begin(worker: &Worker, served: &Served, assignment: &Assignment) -> RunEnd {
    let begun = Instant::now();
    let now_ms = worker.clock.now_ms();
    assignment.started_ms.store(now_ms, Ordering::Relaxed);
    // A stream entry's id begins with the time at which Redis added it.
    let (sent_ms, _) = assignment.entry.parts();
    served.metrics.wait_seconds.record(now_ms.saturating_sub(sent_ms) as f64 / 1_000.0);
    let calls = RecordedCalls::new(worker, assignment);
    let completion = execute(worker, served, assignment, &calls).await;
    served.metrics.run_seconds.record(begun.elapsed().as_secs_f64());
    match &completion {
        RunEnd::Ok(result) => served.throttle.record(begun, result.failure.as_ref()),
        RunEnd::Failed(failure) => served.throttle.record(begun, Some(failure)),
        RunEnd::Suspended(..) | RunEnd::Interrupted => {}
    }
    completion
}

/// Executes within the time limit.
///
/// The work is polled first, so that an immediate result needs no timer.
async fn execute(worker: &Worker, served: &Served, assignment: &Assignment, calls: &RecordedCalls<'_>) -> RunEnd {
    let task = &assignment.task;
    let work = AssertUnwindSafe(execute_task(worker, served, assignment, calls)).catch_unwind();
    let mut work = std::pin::pin!(work);
    let result = tokio::select! {
        biased;
        result = &mut work => result,
        () = assignment.cancelled.cancelled() => {
            drop(tokio::time::timeout(Duration::from_millis(CLEAN_UP_MS), work).await);
            return RunEnd::Interrupted;
        }
        () = tokio::time::sleep(Duration::from_millis(task.timeout_ms)) => {
            assignment.cancelled.cancel();
            let ended = tokio::time::timeout(Duration::from_millis(CLEAN_UP_MS), work).await;
            if assignment.stopped().is_some() {
                return RunEnd::Interrupted;
            }
            let message = format!("the attempt took longer than its limit of {} ms", task.timeout_ms);
            let failure = Failure::new(FailureClass::Timeout, "STEP_TIMEOUT", message);
            // What it has used up until then counts.
            return match ended {
                Ok(Ok(Ok(result))) if result.failure.is_some() => {
                    RunEnd::Ok(ExecutionResult { failure: Some(failure), ..result })
                }
                Ok(_) | Err(_) => RunEnd::Failed(failure),
            };
        }
    };
    match result {
        _ if assignment.stopped().is_some() => RunEnd::Interrupted,
        Ok(result) => {
            let suspended = calls.suspended().filter(|_| result.as_ref().map_or(true, |end| end.failure.is_some()));
            match (suspended, result) {
                (Some(call), result) => RunEnd::Suspended(call, result.unwrap_or_default()),
                (None, Ok(outcome)) if is_accepted(task, &outcome) => RunEnd::Suspended(callback_call(), outcome),
                (None, Ok(outcome)) => RunEnd::Ok(outcome),
                (None, Err(failure)) => RunEnd::Failed(failure),
            }
        }
        Err(panic) => RunEnd::Failed(panicked(panic.as_ref())),
    }
}

/// Whether the agent has accepted the task, and its callback brings the outcome.
fn is_accepted(task: &Task, outcome: &ExecutionResult) -> bool {
    task.callback.is_some() && outcome.failure.is_none() && callback::is_accepted(&outcome.outputs)
}

/// What waits is the whole attempt, and no call of it.
fn callback_call() -> SuspendedCall {
    let wait = CallWait::new(CallWaitKind::Callback, "");
    SuspendedCall { n: 0, name: "callback".into(), inputs: None, wait }
}

async fn execute_task(
    worker: &Worker,
    served: &Served,
    assignment: &Assignment,
    calls: &RecordedCalls<'_>,
) -> Result<ExecutionResult, Failure> {
    let (task, progress, cancelled) = (&assignment.task, &assignment.progress, &assignment.cancelled);
    let outcome = match payload::resolve_references(worker, task).await? {
        Some(resolved) => served.executor.execute_with_calls(&resolved, progress, calls, cancelled).await?,
        None => served.executor.execute_with_calls(task, progress, calls, cancelled).await?,
    };
    check_outcome(&outcome, worker.limits().nesting_max)?;
    if outcome.failure.is_some() {
        return Ok(outcome);
    }
    // The agent has done its work.
    payload::offload_outputs(worker, task, outcome).await.map_err(Failure::with_unknown_outcome)
}

/// Refuses an outcome that cannot be read back from the plan's log.
fn check_outcome(outcome: &ExecutionResult, nesting_max: usize) -> Result<(), Failure> {
    let parts = [
        ("/outputs", Some(&outcome.outputs)),
        ("/adjustments", outcome.adjustments.as_ref()),
        ("/sub_plan", outcome.sub_plan.as_ref()),
    ];
    let invalid = |wrong: &dyn std::fmt::Display| {
        Failure::new(FailureClass::Permanent, "ANSWER_INVALID", format!("the agent's answer is not valid {wrong}"))
    };
    for (field, json) in parts {
        if let Some(Err(wrong)) = json.map(|json| json_limits::check_json(json, nesting_max)) {
            return Err(invalid(&json_limits::JsonLimitError {
                pointer: format!("{field}{}", wrong.pointer),
                ..wrong
            }));
        }
    }
    json_limits::check_split(outcome.usage).map_err(|wrong| invalid(&wrong))?;
    json_limits::check_measures(&outcome.measures).map_err(|wrong| invalid(&wrong))?;
    json_limits::check_usage(Some(outcome.cost), Some(outcome.tokens)).map_err(|wrong| invalid(&wrong))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = format!("the executor panicked: {}", text.unwrap_or("no message"));
    Failure::new(FailureClass::Transient, "EXECUTOR_PANIC", message).with_unknown_outcome()
}

/// Makes a report one of a failed attempt.
fn fail_report(served: &Served, assignment: &Assignment, report: &mut Report, failure: Failure) {
    served.metrics.failed(failure.class).increment(1);
    tracing::debug!(
        plan_id = %assignment.task.plan, step_id = %assignment.task.step, trace_id = assignment.task.trace_id(),
        "attempt {} of step `{}` failed with `{}`", assignment.task.attempt, assignment.task.step, failure.code
    );
    report.what = if failure.class == FailureClass::Lost { What::Lost } else { What::Failed };
    report.failure = Some(failure);
}

fn set_usage(report: &mut Report, result: &ExecutionResult) {
    report.cost = (result.cost > 0.0).then_some(result.cost);
    report.tokens = (result.tokens > 0).then_some(result.tokens);
    report.usage = result.usage;
}

/// The final report on an attempt; `None` when another worker has the task.
fn final_report(worker: &Worker, served: &Served, assignment: &Assignment, completion: RunEnd) -> Option<Report> {
    let mut report = assignment.report(&worker.id, What::Completed);
    report.finished_ms = Some(worker.clock.now_ms());
    match completion {
        RunEnd::Ok(outcome) => {
            set_usage(&mut report, &outcome);
            match outcome.failure {
                Some(failure) => fail_report(served, assignment, &mut report, failure),
                None => {
                    served.metrics.completed.increment(1);
                    report.outputs = Some(outcome.outputs);
                    report.sub_plan = outcome.sub_plan;
                    report.sub_plans = report.sub_plan.as_ref().map(|_| served.sub_plans.clone()).unwrap_or_default();
                }
            }
            if outcome.partial && report.failure.is_none() {
                report.what = What::PartialSuccess;
                report.errors = outcome.errors;
            }
            report.suggested_adjustments = outcome.suggested_adjustments;
            report.currency = outcome.currency;
            report.measures = outcome.measures;
            report.adjustments = outcome.adjustments;
        }
        RunEnd::Failed(failure) => fail_report(served, assignment, &mut report, failure),
        RunEnd::Suspended(call, used) => {
            set_usage(&mut report, &used);
            report.what = What::Suspended;
            report.suspended = Some(Box::new(call));
        }
        RunEnd::Interrupted => match assignment.stopped() {
            Some(StopReason::LeaseLost) => {
                served.metrics.lost.increment(1);
                return None;
            }
            Some(StopReason::Superseded) => {
                served.metrics.superseded.increment(1);
                report.what = What::Released;
            }
            Some(StopReason::Released) | None => {
                served.metrics.released.increment(1);
                report.what = What::Released;
            }
        },
    }
    Some(report)
}
