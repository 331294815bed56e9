//! A task's life in this worker: start, execute, offload large outputs, free the slot, report.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::report::{Report, What};
use tokio::time::Instant;

use crate::call_store::AssignmentCalls;
use crate::executor::{ExecutionEnd, ExecutionResult, RecordedCalls, check_result};
use crate::held_tasks::{Assignment, StopReason};
use crate::payload;
use crate::worker::{Served, Worker};

/// Time that a stopped execution has to clean up, in milliseconds.
const CLEAN_UP_MS: u64 = 100;

/// How an attempt ended; `None` if it was stopped from outside, for the reason of [`Assignment::stopped`].
type RunEnd = Option<ExecutionEnd>;

/// The calls of an attempt of this worker.
type AttemptCalls<'a> = RecordedCalls<'a, AssignmentCalls<'a>>;

/// Runs one attempt and reports it.
pub(crate) async fn run_assignment(worker: Arc<Worker>, assignment: Arc<Assignment>, serial: u64) {
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
        turn = served.throttle.wait_turn(&worker.random) => turn.err().map(failed),
        () = assignment.cancelled.cancelled() => Some(None),
    }
}

async fn begin(worker: &Worker, served: &Served, assignment: &Assignment) -> RunEnd {
    let begun = Instant::now();
    let now_ms = worker.clock.now_ms();
    assignment.started_ms.store(now_ms, Ordering::Relaxed);
    // A stream entry's id begins with the time at which Redis added it.
    let (sent_ms, _) = assignment.entry.parts();
    served.metrics.wait_seconds.record(now_ms.saturating_sub(sent_ms) as f64 / 1_000.0);
    let calls = RecordedCalls::new(&assignment.task, AssignmentCalls { worker, assignment });
    let completion = execute(worker, served, assignment, &calls).await;
    served.metrics.run_seconds.record(begun.elapsed().as_secs_f64());
    match &completion {
        Some(ExecutionEnd::Suspended(..)) | None => {}
        Some(end) => served.throttle.record(begun, end.failure()),
    }
    completion
}

/// Executes within the time limit.
///
/// The work is polled first, so that an immediate result needs no timer.
async fn execute(worker: &Worker, served: &Served, assignment: &Assignment, calls: &AttemptCalls<'_>) -> RunEnd {
    let task = &assignment.task;
    let work = AssertUnwindSafe(execute_task(worker, served, assignment, calls)).catch_unwind();
    let mut work = std::pin::pin!(work);
    let result = tokio::select! {
        biased;
        result = &mut work => result,
        () = assignment.cancelled.cancelled() => {
            drop(tokio::time::timeout(Duration::from_millis(CLEAN_UP_MS), work).await);
            return None;
        }
        () = tokio::time::sleep(Duration::from_millis(task.timeout_ms)) => {
            assignment.cancelled.cancel();
            let ended = tokio::time::timeout(Duration::from_millis(CLEAN_UP_MS), work).await;
            if assignment.stopped().is_some() {
                return None;
            }
            let message = format!("the attempt took longer than its limit of {} ms", task.timeout_ms);
            let failure = Failure::new(FailureClass::Timeout, "STEP_TIMEOUT", message);
            // What it has used up until then counts.
            return match ended {
                Ok(Ok(Ok(result))) if result.failure.is_some() => {
                    Some(ExecutionEnd::Ok(ExecutionResult { failure: Some(failure), ..result }))
                }
                Ok(_) | Err(_) => failed(failure),
            };
        }
    };
    match result {
        _ if assignment.stopped().is_some() => None,
        Ok(result) => Some(ExecutionEnd::new(task, calls.suspended(), result)),
        Err(panic) => failed(panicked(panic.as_ref())),
    }
}

async fn execute_task(
    worker: &Worker,
    served: &Served,
    assignment: &Assignment,
    calls: &AttemptCalls<'_>,
) -> Result<ExecutionResult, Failure> {
    let (task, progress, cancelled) = (&assignment.task, &assignment.progress, &assignment.cancelled);
    let outcome = match payload::resolve_references(worker, task).await? {
        Some(resolved) => served.executor.execute_with_calls(&resolved, progress, calls, cancelled).await?,
        None => served.executor.execute_with_calls(task, progress, calls, cancelled).await?,
    };
    check_result(&outcome, worker.limits().nesting_max)?;
    if outcome.failure.is_some() {
        return Ok(outcome);
    }
    // The agent has done its work.
    payload::offload_outputs(worker, task, outcome).await.map_err(Failure::with_unknown_outcome)
}

fn failed(failure: Failure) -> RunEnd {
    Some(ExecutionEnd::Failed(failure))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = format!("the executor panicked: {}", text.unwrap_or("no message"));
    Failure::new(FailureClass::Transient, "EXECUTOR_PANIC", message).with_unknown_outcome()
}

/// Counts the end of an attempt.
fn count(served: &Served, assignment: &Assignment, end: &ExecutionEnd) {
    match end.failure() {
        Some(failure) => {
            served.metrics.failed(failure.class).increment(1);
            tracing::debug!(
                plan_id = %assignment.task.plan, step_id = %assignment.task.step, trace_id = assignment.task.trace_id(),
                "attempt {} of step `{}` failed with `{}`", assignment.task.attempt, assignment.task.step, failure.code
            );
        }
        None if matches!(end, ExecutionEnd::Ok(_)) => served.metrics.completed.increment(1),
        None => {}
    }
}

/// The final report on an attempt; `None` when another worker has the task.
fn final_report(worker: &Worker, served: &Served, assignment: &Assignment, completion: RunEnd) -> Option<Report> {
    let mut report = assignment.report(&worker.id, What::Completed);
    report.finished_ms = Some(worker.clock.now_ms());
    match completion {
        Some(end) => {
            count(served, assignment, &end);
            end.fill(&mut report);
            report.sub_plans = report.sub_plan.as_ref().map(|_| served.sub_plans.clone()).unwrap_or_default();
        }
        None => match assignment.stopped() {
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
