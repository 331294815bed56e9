//! Calls of one attempt that are recorded in the plan's log, and given back to the next attempt.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goalmill_common::blob_ref;
use goalmill_common::call::RecordedCall;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::report::What;
use goalmill_common::wire::Inbox;

use crate::executor::{CallId, CallResult, CallUsage, Calls, MakeCall};
use crate::held_tasks::Assignment;
use crate::payload;
use crate::worker::Worker;

/// Larger outcomes are stored as blobs: every further attempt carries all of them.
const OUTCOME_BYTES_MAX: usize = 16 << 10;

/// The calls of one attempt.
pub(crate) struct RecordedCalls<'a> {
    worker: &'a Worker,
    assignment: &'a Assignment,
    state: Mutex<CallsState>,
}

struct CallsState {
    /// The number of the last call.
    last: u32,
    /// Calls of earlier attempts that are still valid.
    replayed_max: usize,
    /// Of all calls that are recorded.
    bytes: usize,
}

/// What becomes of the next call.
enum NextCall<'a> {
    Replay(&'a RecordedCall),
    Make { n: u32 },
}

impl<'a> RecordedCalls<'a> {
    pub fn new(worker: &'a Worker, assignment: &'a Assignment) -> Self {
        let calls = &assignment.task.calls;
        let bytes = calls.iter().map(RecordedCall::bytes).sum();
        Self { worker, assignment, state: Mutex::new(CallsState { last: 0, replayed_max: calls.len(), bytes }) }
    }

    fn state(&self) -> MutexGuard<'_, CallsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers the next call. A name that differs from the recorded one ends the replay.
    fn next(&self, name: &str) -> Result<NextCall<'a>, Failure> {
        let calls = &self.assignment.task.calls;
        let mut state = self.state();
        let at = usize::try_from(state.last).unwrap_or(usize::MAX);
        state.last = state.last.saturating_add(1);
        let n = state.last;
        if let Some(recorded) = calls.get(at).filter(|_| at < state.replayed_max) {
            if recorded.name == name && recorded.n == n {
                return Ok(NextCall::Replay(recorded));
            }
            state.replayed_max = at;
            state.bytes = calls[..at].iter().map(RecordedCall::bytes).sum();
        }
        let limit = self.worker.limits.calls_max;
        if n > limit {
            return Err(exceeded(&format!("the step made more than {limit} calls (`limits.calls_max`)")));
        }
        Ok(NextCall::Make { n })
    }

    async fn replay(&self, recorded: &RecordedCall) -> Result<CallResult, Failure> {
        if let Some(error) = &recorded.error {
            return Err(error.clone());
        }
        let outcome = recorded.outcome.clone().unwrap_or_else(Json::null);
        let outcome = match blob_ref::may_contain(&outcome).then(|| blob_ref::key(&outcome.value()).is_some()) {
            Some(true) => payload::read_json(self.worker, &outcome).await?,
            Some(false) | None => outcome,
        };
        let usage = CallUsage { cost: recorded.cost, tokens: recorded.usage.unwrap_or_default() };
        Ok(CallResult { outcome, usage, is_replayed: true })
    }

    /// Records a finished call; returns when Redis has it.
    async fn record(&self, call: RecordedCall) -> Result<(), Failure> {
        let (worker, assignment) = (self.worker, self.assignment);
        let limit = worker.limits.calls_bytes_max;
        let bytes = {
            let mut state = self.state();
            state.bytes = state.bytes.saturating_add(call.bytes());
            state.bytes
        };
        if bytes > limit {
            return Err(exceeded(&format!(
                "the calls of the step have more than {limit} bytes (`limits.calls_bytes_max`)"
            )));
        }
        let mut report = assignment.report(&worker.id, What::Call);
        report.call = Some(Box::new(call));
        let shard = assignment.task.plan.shard().expect("tasks without a shard are dead letters");
        let fields = Inbox::Reports(vec![report]).fields();
        let mut failures = 0;
        while let Err(error) = worker.broker.send(shard, &fields).await {
            failures += 1;
            worker.connection.set_lost(&error.to_string());
            tokio::time::sleep(worker.backoff(failures)).await;
        }
        Ok(())
    }
}

#[async_trait]
impl Calls for RecordedCalls<'_> {
    async fn call<'c>(&'c self, name: &'c str, make: MakeCall<'c>) -> Result<CallResult, Failure> {
        let n = match self.next(name)? {
            NextCall::Replay(recorded) => return self.replay(recorded).await,
            NextCall::Make { n } => n,
        };
        let task = &self.assignment.task;
        let started_ms = self.worker.clock.now_ms();
        let idempotency_key = format!("{}/{}/{n}", task.plan, task.step);
        let result = make(CallId { n, idempotency_key }).await?;
        let outcome = if result.outcome.text().len() > OUTCOME_BYTES_MAX {
            payload::store_blob(self.worker, task, &format!("-c{n}"), &result.outcome).await
        } else {
            result.outcome.clone()
        };
        let usage = result.usage;
        self.record(RecordedCall {
            n,
            name: name.into(),
            outcome: Some(outcome),
            error: None,
            cost: usage.cost,
            usage: (usage.tokens.sum() > 0).then_some(usage.tokens),
            started_ms: Some(started_ms),
            finished_ms: Some(self.worker.clock.now_ms()),
        })
        .await?;
        Ok(result)
    }
}

fn exceeded(message: &str) -> Failure {
    Failure::new(FailureClass::Permanent, "CALLS_EXCEEDED", message)
}
