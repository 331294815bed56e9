//! A read-only view of one step.

use goalmill_common::failure::Failure;
use goalmill_common::id::WorkerId;
use goalmill_common::json::Json;
use goalmill_common::plan::Step;
use goalmill_common::status::StepStatus;

use crate::PlanState;
use crate::due_time::at;
use crate::graph::StepIndex;

/// A read-only view of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepSnapshot<'a> {
    pub spec: &'a Step,
    pub status: StepStatus,
    /// The last attempt; 0 before the first.
    pub attempt: u32,
    /// The step's timer, Unix milliseconds.
    pub due_ms: Option<u64>,
    /// When the last attempt was queued, Unix milliseconds.
    pub queued_ms: Option<u64>,
    pub started_ms: Option<u64>,
    pub finished_ms: Option<u64>,
    pub worker: Option<&'a WorkerId>,
    pub outputs: Option<&'a Json>,
    pub failure: Option<&'a Failure>,
    /// Why it is blocked, skipped or cancelled; empty otherwise.
    pub reason: &'a str,
    /// What the step asks a person.
    pub question: Option<&'a str>,
    /// Share that the running attempt reports as done, 0 to 1.
    pub progress: Option<f64>,
    pub message: Option<&'a str>,
}

impl PlanState {
    /// A read-only view of one step.
    pub fn step(&self, i: StepIndex) -> Option<StepSnapshot<'_>> {
        let (spec, state) = (self.plan.get(i)?, self.steps.get(i.as_usize())?);
        // What a call waits for, if no person decides about it.
        let is_retrying = state.status() == StepStatus::Retrying;
        let call = || state.run().suspended().filter(|_| is_retrying).map(|call| call.call.wait.text.as_str());
        Some(StepSnapshot {
            spec,
            status: state.status(),
            attempt: state.attempt(),
            due_ms: state.due_ms(),
            queued_ms: at(state.queued_ms()),
            started_ms: at(state.started_ms()),
            finished_ms: state.run().finished_ms(),
            worker: state.worker(),
            outputs: state.outputs(),
            failure: state.failure(),
            reason: self.reason_of(state),
            question: state.run().question(),
            progress: state.progress(),
            message: state.message().or_else(call),
        })
    }
}
