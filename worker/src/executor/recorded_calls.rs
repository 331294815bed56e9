//! Calls of one attempt that are recorded in the plan's log, and given back to the next attempt.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goalmill_common::agent::Agent;
use goalmill_common::blob_ref;
use goalmill_common::call::{
    CALL_NAME_MAX, CallNeeds, CallWait, CallWaitKind, RecordedCall, SuspendedCall, call_key, inputs_digest,
};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::json_limits;
use goalmill_common::limits::TaskLimits;
use goalmill_common::number::to_usize;
use goalmill_common::task::Task;

use super::{CallId, CallResult, CallUsage, Calls, MakeCall, over_budget};

/// Larger outcomes are stored as blobs: every further attempt carries all of them.
const OUTCOME_BYTES_MAX: usize = 16 << 10;

/// Identifies a call of the step: its name, and the digest of its inputs with the occurrence (`9f86…`, `9f86…#2`).
type CallIdentity = (String, String);

/// Where the calls of an attempt are recorded.
#[async_trait]
pub trait CallStore: Send + Sync {
    /// The limits of the installation.
    fn limits(&self) -> TaskLimits;

    /// Unix milliseconds.
    fn now_ms(&self) -> u64;

    /// The outcome that a reference stands for.
    async fn load(&self, reference: Json) -> Result<Json, Failure>;

    /// Stores an outcome; returns its reference.
    async fn store(&self, outcome: &Json) -> Json;

    /// Records a finished call; returns when the record is safe.
    async fn record(&self, call: RecordedCall);

    /// The cards of the registered agent types.
    async fn agent_cards(&self) -> Result<Vec<Agent>, Failure> {
        Ok(Vec::new())
    }
}

/// The calls of one attempt.
///
/// A call is found again by its identity, so calls may run at the same time and in any order. Their numbers are the
/// order in which they were recorded.
pub struct RecordedCalls<'t, S> {
    task: &'t Task,
    store: S,
    /// Calls of earlier attempts.
    known: HashMap<CallIdentity, &'t RecordedCall>,
    state: Mutex<CallsState>,
    /// The number of the last recorded call. `None` after a record that was interrupted and may be in Redis or not.
    last: tokio::sync::Mutex<Option<u32>>,
}

#[derive(Default)]
struct CallsState {
    /// By name and digest of the inputs.
    occurrences: HashMap<CallIdentity, Occurrences>,
    /// Calls that are made and not known from earlier attempts.
    new: u32,
    /// Of all calls so far, with their whole outcomes.
    bytes: usize,
    /// The call that waits: the attempt is over.
    suspended: Option<SuspendedCall>,
}

/// Which occurrences of one call are taken in this attempt. A call that failed makes room for the next try.
#[derive(Default)]
struct Occurrences {
    taken: u32,
    free: BTreeSet<u32>,
}

impl Occurrences {
    fn take_number(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.taken = self.taken.saturating_add(1);
            self.taken
        })
    }
}

/// A call that has begun.
struct BegunCall {
    name: String,
    digest: String,
    occurrence: u32,
}

impl BegunCall {
    /// What the log has as the inputs of the call.
    fn inputs(&self) -> String {
        occurrence_of(&self.digest, self.occurrence)
    }

    fn identity(&self) -> CallIdentity {
        (self.name.clone(), self.inputs())
    }
}

fn occurrence_of(digest: &str, occurrence: u32) -> String {
    if occurrence == 1 { digest.to_owned() } else { format!("{digest}#{occurrence}") }
}

impl<'t, S: CallStore> RecordedCalls<'t, S> {
    /// The calls of an attempt on `task`, with those that earlier attempts have recorded.
    pub fn new(task: &'t Task, store: S) -> Self {
        let calls = &task.calls;
        let mut known = HashMap::with_capacity(calls.len());
        for call in calls {
            let digest = call.inputs.as_deref().unwrap_or_default();
            // Other programs record the same call under the same text each time.
            let mut identity = (call.name.clone(), digest.to_owned());
            let mut occurrence = 1;
            while known.contains_key(&identity) {
                occurrence += 1;
                identity.1 = occurrence_of(digest, occurrence);
            }
            known.insert(identity, call);
        }
        let last = calls.last().map_or(0, |call| call.n);
        Self { task, store, known, state: Mutex::default(), last: tokio::sync::Mutex::new(Some(last)) }
    }

    /// The call that waits, if one does. Its number is that of the next recorded call.
    pub fn suspended(&self) -> Option<SuspendedCall> {
        let last = self.last.try_lock().ok().and_then(|last| *last);
        Some(SuspendedCall { n: last?.saturating_add(1), ..self.state().suspended.clone()? })
    }

    fn state(&self) -> MutexGuard<'_, CallsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, name: &str, inputs: &str) -> Result<BegunCall, Failure> {
        if name.is_empty() || name.chars().count() > CALL_NAME_MAX {
            let message = format!("the name of a call must have 1 to {CALL_NAME_MAX} characters");
            return Err(Failure::new(FailureClass::Permanent, "CALL_INVALID", message));
        }
        let (name, digest) = (name.to_owned(), inputs_digest(inputs));
        let occurrence = self.state().occurrences.entry((name.clone(), digest.clone())).or_default().take_number();
        Ok(BegunCall { name, digest, occurrence })
    }

    /// Gives the occurrence of a call that has failed to the next try, which has the same key.
    fn free(&self, call: &BegunCall) {
        let mut state = self.state();
        state.new = state.new.saturating_sub(1);
        if let Some(occurrences) = state.occurrences.get_mut(&(call.name.clone(), call.digest.clone())) {
            occurrences.free.insert(call.occurrence);
        }
    }

    async fn replay(&self, recorded: &RecordedCall) -> Result<CallResult, Failure> {
        let outcome = recorded.outcome.clone().unwrap_or_else(Json::null);
        let outcome = if is_reference(&outcome) { self.store.load(outcome).await? } else { outcome };
        // It was within the limit when it was recorded.
        self.count_bytes(recorded.name.len(), &outcome);
        let usage = CallUsage { cost: recorded.cost, tokens: recorded.usage.unwrap_or_default() };
        Ok(CallResult { outcome, error: recorded.error.clone(), usage, is_replayed: true })
    }

    /// Adds the bytes of a call; returns those of all.
    fn count_bytes(&self, name: usize, outcome: &Json) -> usize {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_add(name).saturating_add(outcome.text().len());
        state.bytes
    }

    /// The form of an outcome in the log: a reference when it is large, too deep for the log, or looks like a reference.
    async fn storable(&self, outcome: &Json) -> Json {
        let limits = self.store.limits();
        let is_plain = outcome.text().len() <= OUTCOME_BYTES_MAX.min(limits.inline_bytes_max)
            && !is_reference(outcome)
            && json_limits::check_json(outcome, limits.nesting_max).is_ok();
        if is_plain { outcome.clone() } else { self.store.store(outcome).await }
    }

    /// Records a finished call under the next number; returns when the record is safe. One call is recorded after the other.
    async fn record(&self, call: RecordedCall) -> Result<(), Failure> {
        let mut last = self.last.lock().await;
        let n = last.take().map(|last| last.saturating_add(1)).ok_or_else(|| {
            let message = "the record of another call of this attempt was interrupted";
            Failure::new(FailureClass::Transient, "CALL_INVALID", message)
        })?;
        self.store.record(RecordedCall { n, ..call }).await;
        *last = Some(n);
        Ok(())
    }

    /// Gives back the recorded result of a call, or makes the call and records it.
    async fn obtain(&self, call: &BegunCall, make: MakeCall<'_>) -> Result<CallResult, Failure> {
        let identity = call.identity();
        if let Some(recorded) = self.known.get(&identity) {
            return self.replay(recorded).await;
        }
        let limits = self.store.limits();
        let made = {
            let mut state = self.state();
            state.new = state.new.saturating_add(1);
            self.known.len().saturating_add(to_usize(state.new))
        };
        if made > to_usize(limits.calls_max) {
            let message = format!("the step made more than {} calls (`limits.calls_max`)", limits.calls_max);
            return Err(exceeded(&message));
        }
        let started_ms = self.store.now_ms();
        let idempotency_key = call_key(&self.task.idempotency_key, &call.name, &identity.1);
        let result = match make(CallId { idempotency_key }).await {
            Ok(result) => result,
            Err(failure) => {
                self.free(call);
                return Err(failure);
            }
        };
        let finished_ms = self.store.now_ms();
        let most = limits.calls_bytes_max;
        if self.count_bytes(call.name.len(), &result.outcome) > most {
            let message = format!("the calls of the step have more than {most} bytes (`limits.calls_bytes_max`)");
            return Err(exceeded(&message));
        }
        let (outcome, usage) = (self.storable(&result.outcome).await, result.usage);
        let (name, inputs) = identity;
        self.record(RecordedCall {
            n: 0,
            name,
            inputs: Some(inputs),
            outcome: result.error.is_none().then_some(outcome),
            error: result.error.clone(),
            cost: usage.cost,
            usage: (usage.tokens.sum() > 0).then_some(usage.tokens),
            started_ms: Some(started_ms),
            finished_ms: Some(finished_ms),
        })
        .await?;
        Ok(result)
    }

    /// Ends the attempt for a call that waits. The first one counts.
    fn suspend(&self, call: &BegunCall, wait: CallWait) {
        let (name, inputs) = call.identity();
        self.state().suspended.get_or_insert(SuspendedCall { n: 0, name, inputs: Some(inputs), wait });
    }
}

#[async_trait]
impl<S: CallStore> Calls for RecordedCalls<'_, S> {
    async fn call_or_error<'c>(
        &'c self,
        name: &'c str,
        inputs: &'c str,
        make: MakeCall<'c>,
    ) -> Result<CallResult, Failure> {
        let call = self.begin(name, inputs)?;
        self.obtain(&call, make).await
    }

    async fn wait<'c>(&'c self, name: &'c str, inputs: &'c str, wait: CallWait) -> Result<CallResult, Failure> {
        let call = self.begin(name, inputs)?;
        if let Some(recorded) = self.known.get(&call.identity()) {
            return self.replay(recorded).await;
        }
        self.suspend(&call, wait);
        Err(Failure::new(FailureClass::Permanent, "SUSPENDED", format!("call `{name}` waits")))
    }

    fn wait_for_budget(&self, name: &str, inputs: &str, needs: CallNeeds) -> Failure {
        let text = format!("call `{name}` may use up {} tokens and {} dollars", needs.tokens, needs.cost);
        let wait = CallWait { needs: Some(needs), ..CallWait::new(CallWaitKind::Budget, text) };
        match self.begin(name, inputs) {
            Ok(call) => self.suspend(&call, wait),
            Err(failure) => return failure,
        }
        over_budget(name, needs)
    }

    async fn agent_cards(&self) -> Result<Vec<Agent>, Failure> {
        self.store.agent_cards().await
    }
}

fn is_reference(outcome: &Json) -> bool {
    blob_ref::may_contain(outcome) && blob_ref::key(&outcome.value()).is_some()
}

fn exceeded(message: &str) -> Failure {
    Failure::new(FailureClass::Permanent, "CALLS_EXCEEDED", message)
}
