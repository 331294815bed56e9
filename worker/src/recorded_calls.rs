//! Calls of one attempt that are recorded in the plan's log, and given back to the next attempt.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::stream::{FuturesOrdered, StreamExt};
use goalmill_common::agent::Agent;
use goalmill_common::blob_ref;
use goalmill_common::call::{
    CALL_NAME_MAX, CallNeeds, CallWait, CallWaitKind, RecordedCall, SuspendedCall, inputs_digest,
};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::json_limits;
use goalmill_common::number::to_usize;
use goalmill_common::report::What;
use goalmill_common::wire::Inbox;

use crate::executor::{CallId, CallResult, CallUsage, Calls, IndependentCall, MakeCall, over_budget};
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
    /// Of all calls so far, with their whole outcomes.
    bytes: usize,
    /// The call that waits: the attempt is over.
    suspended: Option<SuspendedCall>,
}

/// What becomes of the next call.
enum NextCall<'a> {
    Replay(&'a RecordedCall),
    Make { n: u32 },
}

/// A call that has its result.
enum EndedCall {
    Replayed(CallResult),
    Made { n: u32, started_ms: u64, finished_ms: u64, result: CallResult },
}

impl<'a> RecordedCalls<'a> {
    pub fn new(worker: &'a Worker, assignment: &'a Assignment) -> Self {
        let state = CallsState { last: 0, replayed_max: assignment.task.calls.len(), bytes: 0, suspended: None };
        Self { worker, assignment, state: Mutex::new(state) }
    }

    /// The call that waits, if one does.
    pub fn suspended(&self) -> Option<SuspendedCall> {
        self.state().suspended.clone()
    }

    fn state(&self) -> MutexGuard<'_, CallsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers the next call. A name that differs from the recorded one, or other inputs, end the replay.
    fn next(&self, name: &str, inputs: &str) -> Result<NextCall<'a>, Failure> {
        if name.is_empty() || name.chars().count() > CALL_NAME_MAX {
            let message = format!("the name of a call must have 1 to {CALL_NAME_MAX} characters");
            return Err(Failure::new(FailureClass::Permanent, "CALL_INVALID", message));
        }
        let calls = &self.assignment.task.calls;
        let mut state = self.state();
        let at = to_usize(state.last);
        state.last = state.last.saturating_add(1);
        let n = state.last;
        if let Some(recorded) = calls.get(at).filter(|_| at < state.replayed_max) {
            if recorded.n == n && recorded.is_same(name, Some(inputs)) {
                return Ok(NextCall::Replay(recorded));
            }
            state.replayed_max = at;
        }
        let limit = self.worker.limits().calls_max;
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
        let outcome = if is_reference(&outcome) {
            payload::read_json(self.worker, &self.assignment.task, &outcome).await?
        } else {
            outcome
        };
        // It was within the limit when it was recorded.
        self.count_bytes(recorded.name.len(), &outcome);
        let usage = CallUsage { cost: recorded.cost, tokens: recorded.usage.unwrap_or_default() };
        Ok(CallResult { outcome, usage, is_replayed: true })
    }

    /// Adds the bytes of a call; returns those of all.
    fn count_bytes(&self, name: usize, outcome: &Json) -> usize {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_add(name).saturating_add(outcome.text().len());
        state.bytes
    }

    /// The form of an outcome in the log: a reference when it is large, too deep for the log, or looks like a reference.
    async fn storable(&self, n: u32, outcome: &Json) -> Json {
        let limits = self.worker.limits();
        let is_plain = outcome.text().len() <= OUTCOME_BYTES_MAX.min(limits.inline_bytes_max)
            && !is_reference(outcome)
            && json_limits::check_json(outcome, limits.nesting_max).is_ok();
        if is_plain {
            return outcome.clone();
        }
        let name = format!("{}-call{n}", self.worker.random.token());
        payload::store_blob(self.worker, &self.assignment.task, &name, outcome).await
    }

    /// Records a finished call; returns when Redis has it.
    async fn record(&self, call: RecordedCall) {
        let (worker, assignment) = (self.worker, self.assignment);
        let mut report = assignment.report(&worker.id, What::Call);
        report.call = Some(Box::new(call));
        let shard = assignment.task.plan.shard().expect("tasks without a shard are dead letters");
        let fields = Inbox::Reports(vec![report]).fields();
        let mut failures = 0;
        while let Err(error) = worker.broker.send(shard, &fields).await {
            failures += 1;
            worker.connection.set_lost(&error);
            tokio::time::sleep(worker.backoff(failures)).await;
        }
    }

    /// Makes a call, or gives back its recorded result.
    async fn obtain(&self, next: NextCall<'_>, make: MakeCall<'_>) -> Result<EndedCall, Failure> {
        let n = match next {
            NextCall::Replay(recorded) => return self.replay(recorded).await.map(EndedCall::Replayed),
            NextCall::Make { n } => n,
        };
        let task = &self.assignment.task;
        let started_ms = self.worker.clock.now_ms();
        let idempotency_key = format!("{}/{}/{n}", task.plan, task.step);
        let result = make(CallId { n, idempotency_key }).await?;
        Ok(EndedCall::Made { n, started_ms, finished_ms: self.worker.clock.now_ms(), result })
    }

    /// Records a call that was made.
    async fn keep(&self, name: &str, inputs: String, ended: EndedCall) -> Result<CallResult, Failure> {
        let (n, started_ms, finished_ms, result) = match ended {
            EndedCall::Replayed(result) => return Ok(result),
            EndedCall::Made { n, started_ms, finished_ms, result } => (n, started_ms, finished_ms, result),
        };
        let limit = self.worker.limits().calls_bytes_max;
        if self.count_bytes(name.len(), &result.outcome) > limit {
            let message = format!("the calls of the step have more than {limit} bytes (`limits.calls_bytes_max`)");
            return Err(exceeded(&message));
        }
        let (outcome, usage) = (self.storable(n, &result.outcome).await, result.usage);
        self.record(RecordedCall {
            n,
            name: name.into(),
            inputs: Some(inputs),
            outcome: Some(outcome),
            error: None,
            cost: usage.cost,
            usage: (usage.tokens.sum() > 0).then_some(usage.tokens),
            started_ms: Some(started_ms),
            finished_ms: Some(finished_ms),
        })
        .await;
        Ok(result)
    }
}

#[async_trait]
impl Calls for RecordedCalls<'_> {
    async fn call<'c>(&'c self, name: &'c str, inputs: &'c str, make: MakeCall<'c>) -> Result<CallResult, Failure> {
        let inputs = inputs_digest(inputs);
        let next = self.next(name, &inputs)?;
        let ended = self.obtain(next, make).await?;
        self.keep(name, inputs, ended).await
    }

    async fn call_all<'c>(&'c self, calls: Vec<IndependentCall<'c>>) -> Vec<Result<CallResult, Failure>> {
        // All have their numbers before the first one is made: the order of their ends does not matter.
        let mut running = FuturesOrdered::new();
        for IndependentCall { name, inputs, make } in calls {
            let inputs = inputs_digest(inputs);
            let next = self.next(name, &inputs);
            let is_refused = next.is_err();
            running.push_back(async move { Ok((name, inputs, self.obtain(next?, make).await?)) });
            if is_refused {
                break;
            }
        }
        let mut results = Vec::with_capacity(running.len());
        while let Some(ended) = running.next().await {
            let result = match ended {
                Ok((name, inputs, ended)) => self.keep(name, inputs, ended).await,
                Err(failure) => Err(failure),
            };
            results.push(result);
            if results.last().is_some_and(Result::is_err) {
                break;
            }
        }
        results
    }

    async fn wait<'c>(&'c self, name: &'c str, inputs: &'c str, wait: CallWait) -> Result<CallResult, Failure> {
        let inputs = inputs_digest(inputs);
        let n = match self.next(name, &inputs)? {
            NextCall::Replay(recorded) => return self.replay(recorded).await,
            NextCall::Make { n } => n,
        };
        self.state().suspended = Some(SuspendedCall { n, name: name.into(), inputs: Some(inputs), wait });
        Err(Failure::new(FailureClass::Permanent, "SUSPENDED", format!("call `{name}` waits")))
    }

    fn wait_for_budget(&self, name: &str, inputs: &str, needs: CallNeeds) -> Failure {
        let text = format!("call `{name}` may use up {} tokens and {} dollars", needs.tokens, needs.cost);
        let wait = CallWait { needs: Some(needs), ..CallWait::new(CallWaitKind::Budget, text) };
        let mut state = self.state();
        let n = state.last;
        state.suspended = Some(SuspendedCall { n, name: name.into(), inputs: Some(inputs_digest(inputs)), wait });
        over_budget(name, needs)
    }

    async fn agent_cards(&self) -> Result<Vec<Agent>, Failure> {
        let registry = self.worker.broker.agents().await;
        registry.map(|registry| registry.agents).map_err(|error| {
            let message = format!("the registered agent types cannot be read: {error}");
            Failure::new(FailureClass::Transient, "BLOB_UNAVAILABLE", message)
        })
    }
}

fn is_reference(outcome: &Json) -> bool {
    blob_ref::may_contain(outcome) && blob_ref::key(&outcome.value()).is_some()
}

fn exceeded(message: &str) -> Failure {
    Failure::new(FailureClass::Permanent, "CALLS_EXCEEDED", message)
}
