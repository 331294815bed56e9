//! Calls that one attempt makes: a model, a tool, a model again, and so on. Each has a number, a name and a key.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use goalmill_common::agent::Agent;
use goalmill_common::call::{CallNeeds, CallWait};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::report::TokenSplit;
use goalmill_common::task::Task;

/// Identity of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallId {
    /// The same each time the call is made, and that of no other call. Pass it to side effects.
    pub idempotency_key: String,
}

/// What a call cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallUsage {
    /// US dollars.
    pub cost: f64,
    pub tokens: TokenSplit,
}

impl CallUsage {
    /// Adds the usage of another call.
    pub fn add(&mut self, other: &Self) {
        self.cost += other.cost;
        let (sum, more) = (&mut self.tokens, other.tokens);
        sum.prompt_tokens = sum.prompt_tokens.saturating_add(more.prompt_tokens);
        sum.completion_tokens = sum.completion_tokens.saturating_add(more.completion_tokens);
    }
}

/// The result of a finished call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    pub outcome: Json,
    /// The failure that is recorded in place of the outcome: the call is not made again.
    pub error: Option<Failure>,
    pub usage: CallUsage,
    /// The call was not made: an earlier attempt recorded this result.
    pub is_replayed: bool,
}

impl CallResult {
    /// A result that was just obtained.
    pub fn new(outcome: impl Into<Json>, usage: CallUsage) -> Self {
        Self { outcome: outcome.into(), error: None, usage, is_replayed: false }
    }
}

/// Makes a call when its result is not known yet.
pub type MakeCall<'a> = Box<dyn FnOnce(CallId) -> BoxFuture<'a, Result<CallResult, Failure>> + Send + 'a>;

/// One of several calls that do not need each other's results.
pub struct IndependentCall<'a> {
    /// What is called, for example `http_get`.
    pub name: &'a str,
    /// Text that identifies the inputs.
    pub inputs: &'a str,
    pub make: MakeCall<'a>,
}

/// The calls of one attempt. They may run at the same time.
#[async_trait]
pub trait Calls: Send + Sync {
    /// Returns the result of a call, which is made by `make` unless an earlier attempt has recorded it.
    ///
    /// A failure is returned as it is and never kept: the next attempt makes the call again. What the caller can handle,
    /// such as the error of a tool, is a result.
    ///
    /// - `name`: what is called, for example `model` or `http_get`.
    /// - `inputs`: text that identifies the inputs. A recorded call is found by name, inputs and occurrence: the second
    ///   call with the same name and inputs gets the result of the second one that was recorded.
    async fn call<'a>(&'a self, name: &'a str, inputs: &'a str, make: MakeCall<'a>) -> Result<CallResult, Failure> {
        let mut result = self.call_or_error(name, inputs, make).await?;
        match result.error.take() {
            Some(error) => Err(error),
            None => Ok(result),
        }
    }

    /// As [`Calls::call`], for calls whose failures are recorded too: the result has an `error`.
    async fn call_or_error<'a>(
        &'a self,
        name: &'a str,
        inputs: &'a str,
        make: MakeCall<'a>,
    ) -> Result<CallResult, Failure>;

    /// Returns the results of several calls in their order, up to the first failure. Those that are not recorded are made
    /// at the same time, so all of them may be in flight when a worker dies: pass calls that only read.
    async fn call_all<'a>(&'a self, calls: Vec<IndependentCall<'a>>) -> Vec<Result<CallResult, Failure>> {
        let calls = calls.into_iter().map(|IndependentCall { name, inputs, make }| self.call(name, inputs, make));
        let mut results = join_all(calls).await;
        if let Some(first) = results.iter().position(Result::is_err) {
            results.truncate(first + 1);
        }
        results
    }

    /// Returns what a call waits for: what a person decided or answered, or what a plan gave.
    ///
    /// Until it is there, this attempt ends: return the failure. The step then waits without a worker, and a later
    /// attempt gets the outcome here. It is described at [`goalmill_common::call::CallWaitKind`].
    async fn wait<'a>(&'a self, name: &'a str, inputs: &'a str, wait: CallWait) -> Result<CallResult, Failure>;

    /// Ends this attempt because the call that was just refused does not fit into the budget of the task: return the
    /// failure. A later attempt has a larger budget and makes the call again.
    ///
    /// - `name`, `inputs`: of the refused call.
    /// - `needs`: the most that it may use up.
    fn wait_for_budget(&self, name: &str, _inputs: &str, needs: CallNeeds) -> Failure {
        over_budget(name, needs)
    }

    /// The cards of the registered agent types, as they are now.
    async fn agent_cards(&self) -> Result<Vec<Agent>, Failure> {
        Ok(Vec::new())
    }
}

/// The failure of a call that does not fit into the budget of its plan.
pub fn over_budget(name: &str, needs: CallNeeds) -> Failure {
    let CallNeeds { tokens, cost } = needs;
    let message =
        format!("call `{name}` may use up {tokens} tokens and {cost} dollars, and the plan has not so much left");
    Failure::new(FailureClass::ConstraintViolation, "BUDGET_EXCEEDED", message)
}

/// Calls that are added up, and not kept.
pub struct UnrecordedCalls<'t> {
    task: &'t Task,
    last: AtomicU32,
    usage: Mutex<CallUsage>,
}

impl<'t> UnrecordedCalls<'t> {
    /// No calls yet, for an attempt on `task`.
    pub fn new(task: &'t Task) -> Self {
        Self { task, last: AtomicU32::new(0), usage: Mutex::default() }
    }

    /// The usage of the calls so far.
    pub fn usage(&self) -> CallUsage {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, CallUsage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Calls for UnrecordedCalls<'_> {
    async fn call_or_error<'a>(&'a self, _: &'a str, _: &'a str, make: MakeCall<'a>) -> Result<CallResult, Failure> {
        let n = self.last.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let idempotency_key = format!("{}/{}/{n}", self.task.plan, self.task.step);
        let result = make(CallId { idempotency_key }).await?;
        self.lock().add(&result.usage);
        Ok(result)
    }

    async fn wait<'a>(&'a self, name: &'a str, _: &'a str, _: CallWait) -> Result<CallResult, Failure> {
        let message = format!("call `{name}` waits, and this attempt cannot be continued");
        Err(Failure::new(FailureClass::Permanent, "CALL_INVALID", message))
    }
}
