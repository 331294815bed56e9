//! The durable calls of one task in the program.

use std::collections::HashMap;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use goalmill_common::call::{CallBudget, CallNeeds};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::task::Task;
use goalmill_worker::executor::{CallId, CallResult, CallUsage, Calls, MakeCall, over_budget};
use tokio::sync::oneshot;

use crate::frames::{CallAnswer, CallBegins, CallMade, CallRef, CallReservation, CallWaits, ToProgram};
use crate::link::ProgramLink;

/// The code of a call that the program gave up. No report has it.
const ABANDONED: &str = "CALL_ABANDONED";

/// How a call has ended for the program.
enum CallEnd {
    /// It was made or found.
    Result(Result<CallResult, Failure>),
    /// It waits, or its outcome was found.
    Waited(Result<CallResult, Failure>),
}

/// The calls of one task that run in the program, or wait for their record.
pub(crate) struct TaskCalls<'c> {
    calls: &'c dyn Calls,
    link: ProgramLink,
    task: u64,
    running: FuturesUnordered<BoxFuture<'c, (u64, CallEnd)>>,
    /// Calls that the program makes.
    making: HashMap<u64, oneshot::Sender<Result<CallResult, Failure>>>,
    /// Recorded calls that this attempt has not asked for yet.
    unasked: usize,
    /// What further calls may use up.
    budget: Option<CallBudget>,
    /// The shares of the budget of calls that are not made yet.
    reserved: HashMap<u64, CallNeeds>,
}

impl<'c> TaskCalls<'c> {
    pub fn new(calls: &'c dyn Calls, task: &Task, link: ProgramLink, number: u64) -> Self {
        Self {
            calls,
            link,
            task: number,
            running: FuturesUnordered::new(),
            making: HashMap::new(),
            unasked: task.calls.len(),
            budget: task.budget,
            reserved: HashMap::new(),
        }
    }

    /// Whether no call runs.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// A call begins: the program gets its recorded outcome, or its key.
    pub fn begin(&mut self, CallBegins { call, name, inputs, .. }: CallBegins) {
        let (sender, receiver) = oneshot::channel();
        self.making.insert(call, sender);
        let (calls, link, task) = (self.calls, self.link.clone(), self.task);
        self.running.push(Box::pin(async move {
            let make: MakeCall<'_> = Box::new(move |id: CallId| {
                let answer = CallAnswer { task, call, key: Some(&id.idempotency_key), outcome: None, error: None };
                link.send(&ToProgram::Call(answer));
                Box::pin(async move { receiver.await.unwrap_or_else(|_| Err(abandoned())) })
            });
            (call, CallEnd::Result(calls.call_or_error(&name, &inputs, make).await))
        }));
    }

    /// The program has made a call.
    pub fn made(&mut self, made: CallMade) {
        let CallMade { call, outcome, error, cost, usage: tokens, .. } = made;
        self.reserved.remove(&call);
        if let Some(budget) = &mut self.budget {
            budget.tokens = budget.tokens.map(|left| left.saturating_sub(tokens.sum()));
            budget.cost = budget.cost.map(|left| (left - cost).max(0.0));
        }
        if let Some(making) = self.making.remove(&call) {
            let result =
                CallResult { error, ..CallResult::new(outcome.unwrap_or_else(Json::null), CallUsage { cost, tokens }) };
            drop(making.send(Ok(result)));
        }
    }

    /// The program gives a call up.
    pub fn abandon(&mut self, call: u64) {
        self.reserved.remove(&call);
        self.making.remove(&call);
    }

    /// A call waits for a person or a plan.
    pub fn wait(&mut self, CallWaits { call, name, inputs, wait, .. }: CallWaits) {
        let calls = self.calls;
        self.running.push(Box::pin(async move { (call, CallEnd::Waited(calls.wait(&name, &inputs, wait).await)) }));
    }

    /// A call that has not begun may use up so much. It waits without a worker if the budget has no room now.
    pub fn reserve(&mut self, CallReservation { task, call, tokens, cost }: CallReservation) {
        let (id, needs) = (CallRef { task, call }, CallNeeds { tokens, cost });
        match &self.budget {
            // The next call is found.
            _ if self.unasked > 0 => self.link.send(&ToProgram::Reserved(id)),
            Some(budget) if !self.fits(budget, needs) && budget.last => {
                let error = over_budget("budget", needs);
                self.answer(call, None, Some(&error));
            }
            Some(budget) if !self.fits(budget, needs) => {
                self.calls.wait_for_budget("budget", "", needs);
                self.link.send(&ToProgram::Suspended(id));
            }
            Some(_) | None => {
                self.reserved.insert(call, needs);
                self.link.send(&ToProgram::Reserved(id));
            }
        }
    }

    /// Whether a budget has room beside the calls that are made now.
    fn fits(&self, budget: &CallBudget, CallNeeds { tokens, cost }: CallNeeds) -> bool {
        let tokens = self.reserved.values().fold(tokens, |sum, call| sum.saturating_add(call.tokens));
        let cost = self.reserved.values().fold(cost, |sum, call| sum + call.cost);
        budget.tokens.is_none_or(|left| tokens <= left) && budget.cost.is_none_or(|left| cost <= left)
    }

    /// Waits for the end of a call, and tells the program.
    ///
    /// # Errors
    ///
    /// The call cannot be recorded: the attempt is over.
    pub async fn advance(&mut self) -> Result<(), Failure> {
        let Some((call, end)) = self.running.next().await else { return Ok(()) };
        let id = CallRef { task: self.task, call };
        self.making.remove(&call);
        match end {
            CallEnd::Result(Ok(result)) if result.is_replayed => self.found(call, &result),
            CallEnd::Waited(Ok(result)) => self.found(call, &result),
            CallEnd::Result(Ok(_)) => self.link.send(&ToProgram::Recorded(id)),
            CallEnd::Waited(Err(failure)) if failure.code == "SUSPENDED" => self.link.send(&ToProgram::Suspended(id)),
            CallEnd::Result(Err(failure)) if failure.code == ABANDONED => {}
            CallEnd::Result(Err(failure)) | CallEnd::Waited(Err(failure)) => return Err(failure),
        }
        Ok(())
    }

    /// Gives up the calls that the program did not make, and waits for the records of all others.
    pub async fn finish(&mut self) -> Result<(), Failure> {
        self.making.clear();
        while !self.is_idle() {
            self.advance().await?;
        }
        Ok(())
    }

    fn found(&mut self, call: u64, result: &CallResult) {
        self.unasked = self.unasked.saturating_sub(1);
        self.reserved.remove(&call);
        match &result.error {
            Some(error) => self.answer(call, None, Some(error)),
            None => self.answer(call, Some(&result.outcome), None),
        }
    }

    fn answer(&self, call: u64, outcome: Option<&Json>, error: Option<&Failure>) {
        self.link.send(&ToProgram::Call(CallAnswer { task: self.task, call, key: None, outcome, error }));
    }
}

fn abandoned() -> Failure {
    Failure::new(FailureClass::Transient, ABANDONED, "the program gave the call up")
}
