//! The calls of language models that one plan, or one revision, takes: written down where the plan is before each call
//! and after it.
//!
//! A scheduler that ends in the middle leaves behind what was answered: whoever goes on is given those answers, in their
//! order, and makes the one call again that was under way.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goalmill_common::event::{ModelAnswered, ModelAsked};
use goalmill_common::goal::{Budget, Usage};
use goalmill_common::json::Json;
use goalmill_llm::{Answer, ModelError, Purse, Spent, Usd};
use serde_json::Value;

use crate::llm::account::Account;
use crate::llm::redact::redact;

/// Bytes of an answer that is written down for whoever may have to go on.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Where calls are written down.
#[async_trait]
pub trait Books: Send + Sync {
    /// A call is about to be made; returns once that is safe. `false`: nobody waits for what it is made for.
    async fn asked(&self, call: ModelAsked) -> bool;

    /// What became of it.
    async fn answered(&self, call: ModelAnswered);
}

/// The calls for one plan or revision. Clones are the same ledger; the default one is written down nowhere.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Inner>);

#[derive(Default)]
struct Inner {
    revision: u32,
    books: Option<Arc<dyn Books>>,
    kept: Vec<ModelAnswered>,
    /// Calls so far, by planner.
    calls: Mutex<BTreeMap<&'static str, u32>>,
    tabs: Mutex<Vec<Tab>>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("revision", &self.0.revision).field("kept", &self.0.kept.len()).finish()
    }
}

impl Ledger {
    /// - `revision`: 0 for the plan itself.
    /// - `kept`: answers that another scheduler got before it ended.
    pub fn new(revision: u32, books: Arc<dyn Books>, kept: &[ModelAnswered]) -> Self {
        let kept = kept.iter().filter(|answered| answered.revision == revision).cloned().collect();
        Self(Arc::new(Inner { revision, books: Some(books), kept, ..Inner::default() }))
    }

    /// Whether what calls take is written down, so that nobody else need charge it.
    pub fn is_written(&self) -> bool {
        self.0.books.is_some()
    }

    /// Adds to what is left of a budget what the kept answers took: they are paid for once more from the planner's purse.
    pub fn give_back(&self, left: &mut Budget) {
        for answered in &self.0.kept {
            left.tokens = left.tokens.map(|tokens| tokens.saturating_add(answered.usage.tokens));
            left.cost = left.cost.map(|cost| cost + answered.usage.cost);
        }
    }

    /// Opens a planner's tab.
    pub fn tab(&self, planner: &'static str, purse: &Purse, account: &Account) -> Tab {
        let (purse, account, state) = (purse.clone(), account.clone(), Arc::default());
        let tab = Tab { ledger: self.clone(), planner, purse, account, state };
        lock(&self.0.tabs).push(tab.clone());
        tab
    }

    /// Writes down what calls took that were given up, by planners that are not at work any more.
    pub async fn close(&self) {
        let tabs: Vec<Tab> = std::mem::take(&mut *lock(&self.0.tabs));
        for tab in tabs {
            tab.close().await;
        }
    }

    /// What planners said to models that have not closed their tabs: for those that give nothing else.
    pub fn told(&self) -> Option<Value> {
        lock(&self.0.tabs).last().map(|tab| tab.account.told(&tab.purse.spent())).filter(|told| !told.is_null())
    }

    fn next_call(&self, planner: &'static str) -> u32 {
        let mut calls = lock(&self.0.calls);
        let call = calls.entry(planner).or_default();
        *call = call.saturating_add(1);
        *call
    }

    fn kept(&self, planner: &str, call: u32) -> Option<Answer> {
        let found = self.0.kept.iter().find(|kept| kept.planner == planner && kept.call == call)?;
        serde_json::from_str(found.answer.as_ref()?.text()).ok()
    }
}

/// One planner's calls, paid from one purse.
#[derive(Clone)]
pub struct Tab {
    ledger: Ledger,
    planner: &'static str,
    purse: Purse,
    account: Account,
    state: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    calls: Vec<u32>,
    /// What of the purse is written down.
    written: Written,
}

#[derive(Clone, Copy, Default)]
struct Written {
    tokens: u64,
    cost: Usd,
}

/// How a call begins.
pub enum Begun {
    /// It was made before.
    Kept(Box<Answer>),
    /// It may be made now; its number.
    Call(u32),
    /// Nobody waits for it.
    Gone,
}

impl Tab {
    /// Writes down that a call is about to be made.
    ///
    /// - `reserved`: the most that it may take.
    pub async fn begin(&self, template: &str, reserved: Usage) -> Begun {
        let call = self.ledger.next_call(self.planner);
        if let Some(answer) = self.ledger.kept(self.planner, call) {
            let usage = answer.usage;
            self.purse.book(&usage, answer.cost);
            let mut open = lock(&self.state);
            open.written.tokens = open.written.tokens.saturating_add(usage.total());
            open.written.cost += answer.cost;
            return Begun::Kept(Box::new(answer));
        }
        let Some(books) = &self.ledger.0.books else { return Begun::Call(call) };
        lock(&self.state).calls.push(call);
        let (revision, planner, template) = (self.ledger.0.revision, self.planner.into(), template.into());
        if books.asked(ModelAsked { revision, planner, call, template, reserved, repeated: false }).await {
            return Begun::Call(call);
        }
        lock(&self.state).calls.retain(|open| *open != call);
        Begun::Gone
    }

    /// Writes down what became of a call.
    pub async fn end(&self, call: u32, result: &Result<Answer, ModelError>) {
        tracing::debug!(planner = self.planner, "call {call} of planner `{}` has ended", self.planner);
        match result {
            Ok(answer) => self.settle(call, kept_form(answer), String::new()).await,
            Err(ModelError::BrokenOff { partial, .. }) => self.settle(call, kept_form(partial), String::new()).await,
            Err(error) => self.settle(call, None, error.code().into()).await,
        }
    }

    async fn settle(&self, call: u32, answer: Option<Json>, error: String) {
        let Some(books) = &self.ledger.0.books else { return };
        let spent = self.purse.spent();
        let usage = {
            let mut open = lock(&self.state);
            open.calls.retain(|open| *open != call);
            let now = Written { tokens: spent.tokens(), cost: spent.cost };
            let before = std::mem::replace(&mut open.written, now);
            let tokens = now.tokens.saturating_sub(before.tokens);
            Usage { tokens, cost: now.cost.minus(before.cost).dollars() }
        };
        let (revision, planner, estimated) = (self.ledger.0.revision, self.planner.into(), spent.estimated);
        books.answered(ModelAnswered { revision, planner, call, usage, estimated, answer, error }).await;
    }

    /// Settles what is open: whoever made those calls has given up.
    async fn close(&self) {
        let calls = lock(&self.state).calls.clone();
        for call in calls {
            self.settle(call, None, "LLM_CANCELLED".into()).await;
        }
    }

    /// What was spent from the purse, calls that were kept included.
    pub fn spent(&self) -> Spent {
        self.purse.spent()
    }
}

/// An answer as it is written down. What looks like a secret is not, and such a call is made again if need be.
fn kept_form(answer: &Answer) -> Option<Json> {
    let json = Json::of(answer);
    let texts = answer.tool_calls.iter().map(|call| &call.arguments).chain([&answer.text]);
    let is_plain = texts.into_iter().all(|text| redact(text) == *text);
    (is_plain && json.text().len() <= ANSWER_BYTES_MAX).then_some(json)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use goalmill_llm::{Allowance, Usage as Tokens};

    use super::*;

    #[derive(Default)]
    struct Notes(Mutex<Vec<ModelAnswered>>);

    #[async_trait]
    impl Books for Notes {
        async fn asked(&self, call: ModelAsked) -> bool {
            call.call < 3
        }

        async fn answered(&self, call: ModelAnswered) {
            lock(&self.0).push(call);
        }
    }

    #[tokio::test]
    async fn a_call_that_is_given_up_is_settled_with_what_it_is_taken_to_have_used() {
        let notes = Arc::new(Notes::default());
        let ledger = Ledger::new(0, notes.clone(), &[]);
        let purse = Purse::new(Allowance::default());
        let tab = ledger.tab("llm", &purse, &Account::new());
        assert!(matches!(tab.begin("plan", Usage::default()).await, Begun::Call(1)));
        let sent = Tokens { input_tokens: 70, output_tokens: 0, estimated: true };
        let mut call = purse.reserve(&sent, Usd::ZERO).expect("there is no limit");
        call.note(sent, Usd::from_dollars(0.5));
        drop(call);
        assert_eq!(ledger.told().expect("something was spent")["usage"]["tokens"], 70);
        ledger.close().await;
        ledger.close().await;
        let settled = lock(&notes.0).clone();
        assert_eq!(settled.len(), 1, "{settled:?}");
        assert_eq!(settled[0].usage, Usage { tokens: 70, cost: 0.5 });
        assert!(settled[0].estimated && settled[0].error == "LLM_CANCELLED", "{settled:?}");
    }

    #[tokio::test]
    async fn a_planner_is_numbered_on_and_stopped_when_nobody_waits() {
        let ledger = Ledger::new(1, Arc::new(Notes::default()), &[]);
        let tab = || ledger.tab("llm", &Purse::unlimited(), &Account::new());
        assert!(matches!(tab().begin("revise", Usage::default()).await, Begun::Call(1)));
        assert!(matches!(tab().begin("revise", Usage::default()).await, Begun::Call(2)));
        assert!(matches!(tab().begin("revise", Usage::default()).await, Begun::Gone));
    }

    #[test]
    fn an_answer_with_a_secret_is_not_kept() {
        let answer = |text: &str| Answer { text: text.into(), ..answer() };
        let kept = kept_form(&answer("{\"steps\": []}")).expect("it is plain");
        assert_eq!(
            serde_json::from_str::<Answer>(kept.text()).expect("own text reads back"),
            answer("{\"steps\": []}")
        );
        assert!(kept_form(&answer("password: hunter2")).is_none());
        assert!(kept_form(&answer(&"x".repeat(ANSWER_BYTES_MAX))).is_none());
    }

    fn answer() -> Answer {
        Answer {
            text: String::new(),
            tool_calls: Vec::new(),
            thinking: String::new(),
            refusal: String::new(),
            finish: goalmill_llm::Finish::Stop,
            usage: Tokens { input_tokens: 3, output_tokens: 4, estimated: false },
            cost: Usd::from_dollars(0.25),
            model: "m".into(),
            served_by: "m".into(),
            rung: goalmill_llm::Rung::JsonSchema,
            raw: goalmill_llm::Raw::default(),
            latency_ms: 1,
            tries: Vec::new(),
        }
    }
}
