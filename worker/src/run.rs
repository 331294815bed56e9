//! A task's life in this worker: begin, execute, pack, give up the slot, report.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::foreign;
use goalmill_common::report::{Report, What};
use tokio::time::Instant;

use crate::executor::Outcome;
use crate::payload;
use crate::table::{Assignment, Why};
use crate::worker::{Served, Worker};

/// How long an execution that was told to stop may clean up, in milliseconds.
const CLEAN_UP_MS: u64 = 100;

/// How an execution ended.
enum Ended {
    Well(Outcome),
    Badly(Failure),
    /// Something outside ended it: [`Assignment::stopped`] says what.
    Early,
}

/// Runs one attempt and reports it.
pub(crate) async fn run(worker: Arc<Worker>, assignment: Arc<Assignment>, serial: u64) {
    let served = &worker.served[&assignment.agent_type];
    let begun = Instant::now();
    let now_ms = worker.clock.now_ms();
    assignment.started_ms.store(now_ms, Ordering::Relaxed);
    // The id of a stream entry begins with the time at which Redis took it.
    let (sent_ms, _) = assignment.entry.parts();
    served.meter.wait_seconds.record(now_ms.saturating_sub(sent_ms) as f64 / 1_000.0);
    let ended = execute(&worker, served, &assignment).await;
    worker.table.remove(serial);
    served.meter.run_seconds.record(begun.elapsed().as_secs_f64());
    if let Some(report) = classify(&worker, served, &assignment, ended) {
        worker.outbox.push(report);
    }
}

/// Executes within the time limit, and packs what it gave.
///
/// The work is polled first: what ends at once never costs a timer.
async fn execute(worker: &Worker, served: &Served, assignment: &Assignment) -> Ended {
    let task = &assignment.task;
    let work = AssertUnwindSafe(work(worker, served, assignment)).catch_unwind();
    let mut work = std::pin::pin!(work);
    let result = tokio::select! {
        biased;
        result = &mut work => result,
        () = assignment.cancelled.cancelled() => {
            drop(tokio::time::timeout(Duration::from_millis(CLEAN_UP_MS), work).await);
            return Ended::Early;
        }
        () = tokio::time::sleep(Duration::from_millis(task.timeout_ms)) => {
            assignment.cancelled.cancel();
            drop(tokio::time::timeout(Duration::from_millis(CLEAN_UP_MS), work).await);
            if assignment.stopped().is_some() {
                return Ended::Early;
            }
            let message = format!("the attempt took longer than its limit of {} ms", task.timeout_ms);
            return Ended::Badly(Failure::new(FailureClass::Timeout, "STEP_TIMEOUT", message));
        }
    };
    match result {
        _ if assignment.stopped().is_some() => Ended::Early,
        Ok(Ok(outcome)) => Ended::Well(outcome),
        Ok(Err(failure)) => Ended::Badly(failure),
        Err(panic) => Ended::Badly(panicked(panic.as_ref())),
    }
}

async fn work(worker: &Worker, served: &Served, assignment: &Assignment) -> Result<Outcome, Failure> {
    let (task, progress, cancelled) = (&assignment.task, &assignment.progress, &assignment.cancelled);
    let outcome = match payload::resolve(worker, task).await? {
        Some(resolved) => served.executor.execute(&resolved, progress, cancelled).await?,
        None => served.executor.execute(task, progress, cancelled).await?,
    };
    check(&outcome, worker.limits.nesting_max)?;
    payload::pack(worker, task, outcome).await
}

/// Refuses what no reader of the plan's log could read back.
fn check(outcome: &Outcome, nesting_max: usize) -> Result<(), Failure> {
    let parts = [
        ("/outputs", Some(&outcome.outputs)),
        ("/adjustments", outcome.adjustments.as_ref()),
        ("/sub_plan", outcome.sub_plan.as_ref()),
    ];
    let invalid = |wrong: &dyn std::fmt::Display| {
        Failure::new(FailureClass::Permanent, "ANSWER_INVALID", format!("the agent's answer is not valid {wrong}"))
    };
    for (field, json) in parts {
        if let Some(Err(wrong)) = json.map(|json| foreign::check(json, nesting_max)) {
            return Err(invalid(&foreign::Unreadable { pointer: format!("{field}{}", wrong.pointer), ..wrong }));
        }
    }
    foreign::check_spent(Some(outcome.cost), Some(outcome.tokens)).map_err(|wrong| invalid(&wrong))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = format!("the executor panicked: {}", text.unwrap_or("no message"));
    Failure::new(FailureClass::Transient, "EXECUTOR_PANIC", message)
}

/// The report on an attempt; `None` when the task is somebody else's.
fn classify(worker: &Worker, served: &Served, assignment: &Assignment, ended: Ended) -> Option<Report> {
    let mut report = assignment.report(&worker.id, What::Completed);
    report.finished_ms = Some(worker.clock.now_ms());
    match ended {
        Ended::Well(outcome) => {
            served.meter.completed.increment(1);
            report.outputs = Some(outcome.outputs);
            report.cost = (outcome.cost > 0.0).then_some(outcome.cost);
            report.tokens = (outcome.tokens > 0).then_some(outcome.tokens);
            report.adjustments = outcome.adjustments;
            report.sub_plan = outcome.sub_plan;
        }
        Ended::Badly(failure) => {
            served.meter.failed(failure.class).increment(1);
            tracing::debug!(
                plan_id = %assignment.task.plan, step_id = %assignment.task.step, trace_id = assignment.task.trace_id(),
                "attempt {} of step `{}` failed with `{}`", assignment.task.attempt, assignment.task.step, failure.code
            );
            report.what = What::Failed;
            report.failure = Some(failure);
        }
        Ended::Early => match assignment.stopped() {
            Some(Why::LeaseLost) => {
                served.meter.lost.increment(1);
                return None;
            }
            Some(Why::Superseded) => {
                served.meter.superseded.increment(1);
                report.what = What::Released;
            }
            Some(Why::HandedBack) | None => {
                served.meter.released.increment(1);
                report.what = What::Released;
            }
        },
    }
    Some(report)
}
