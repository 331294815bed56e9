//! The log of model calls of one plan or revision, written to the plan's own log before and after each call.
//!
//! A scheduler that ends in the middle leaves its recorded answers behind: its successor gets those answers, in their
//! order, and makes the one call again that was under way.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goalmill_common::event::{ModelAnswered, ModelAsked, PlannerToolCall, ToolsCalled};
use goalmill_common::goal::{Budget, Usage};
use goalmill_common::id::PlanId;
use goalmill_common::json::Json;
use goalmill_llm::{Completion, ModelError, ProgressMeter, SpendBudget, Usd};
use serde_json::Value;

use crate::llm::redact::redact;
use crate::provenance::Provenance;

/// Bytes of an answer that is recorded for a successor.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Bytes of the arguments, or of the result, of a tool call that are recorded.
const TOOL_TEXT_BYTES_MAX: usize = 4 << 10;
/// Bytes of the tool calls of one answer that are recorded.
const TOOLS_BYTES_MAX: usize = 64 << 10;

/// Where calls are written down.
#[async_trait]
pub trait CallRecorder: Send + Sync {
    /// The plan that is planned.
    fn plan(&self) -> Option<&PlanId> {
        None
    }

    /// A call is about to be made; returns once that is safe. `false`: its result is not awaited.
    async fn asked(&self, call: ModelAsked) -> bool;

    /// The tools that its answer has called have run.
    async fn tools_called(&self, called: ToolsCalled);

    /// What became of it.
    async fn answered(&self, call: ModelAnswered);
}

/// The calls for one plan or revision. Clones are the same call_log; the default one is written down nowhere.
#[derive(Clone, Default)]
pub struct CallLog(Arc<CallLogState>);

#[derive(Default)]
struct CallLogState {
    revision: u32,
    recorder: Option<Arc<dyn CallRecorder>>,
    progress: Option<ProgressMeter>,
    kept: Vec<ModelAnswered>,
    /// Calls so far, by planner.
    calls: Mutex<BTreeMap<&'static str, u32>>,
    scopes: Mutex<Vec<CallScope>>,
    /// What closed scopes have spent.
    spent: Mutex<Charged>,
}

impl fmt::Debug for CallLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallLog").field("revision", &self.0.revision).field("kept", &self.0.kept.len()).finish()
    }
}

impl CallLog {
    /// - `revision`: 0 for the plan itself.
    /// - `kept`: answers that another scheduler got before it ended.
    pub fn new(revision: u32, recorder: Arc<dyn CallRecorder>, kept: &[ModelAnswered]) -> Self {
        let kept = kept.iter().filter(|answered| answered.revision == revision).cloned().collect();
        Self(Arc::new(CallLogState { revision, recorder: Some(recorder), kept, ..CallLogState::default() }))
    }

    /// Calls that are written down nowhere and move a meter.
    pub fn watched(progress: ProgressMeter) -> Self {
        Self(Arc::new(CallLogState { progress: Some(progress), ..CallLogState::default() }))
    }

    /// Whether what calls take is written down, so that no other place need charge it.
    pub fn is_written(&self) -> bool {
        self.0.recorder.is_some()
    }

    /// Adds to the remaining budget what replayed calls cost: they are charged to the planner again.
    pub fn refund_replayed(&self, left: &mut Budget) {
        for answered in &self.0.kept {
            left.tokens = left.tokens.map(|tokens| tokens.saturating_add(answered.usage.tokens));
            left.cost = left.cost.map(|cost| cost + answered.usage.cost);
        }
    }

    /// The plan that is planned; none where calls are written down nowhere.
    pub fn plan(&self) -> Option<&PlanId> {
        self.0.recorder.as_ref()?.plan()
    }

    /// Writes down that a planning agent is about to be asked. Returns the number of the call; `None` if no plan waits for
    /// it.
    pub(crate) async fn begin_agent(&self, planner: &'static str, action: &str) -> Option<u32> {
        let call = self.next_call(planner);
        let Some(recorder) = self.0.recorder.as_ref().filter(|_| !self.has_ended(planner, call)) else {
            return Some(call);
        };
        let asked = ModelAsked {
            revision: self.0.revision,
            planner: planner.into(),
            call,
            template: action.into(),
            ..ModelAsked::default()
        };
        recorder.asked(asked).await.then_some(call)
    }

    /// Writes down what a planning agent took, unless another scheduler has done so. Its answer is kept by the plan in which
    /// it worked.
    pub(crate) async fn end_agent(&self, planner: &'static str, call: u32, usage: Usage, error: String) {
        let Some(recorder) = self.0.recorder.as_ref().filter(|_| !self.has_ended(planner, call)) else { return };
        let (revision, planner) = (self.0.revision, planner.into());
        let answered = ModelAnswered { revision, planner, call, usage, error, ..ModelAnswered::default() };
        recorder.answered(answered).await;
    }

    /// Whether another scheduler has recorded the end of a call.
    fn has_ended(&self, planner: &str, call: u32) -> bool {
        self.0.kept.iter().any(|kept| kept.planner == planner && kept.call == call)
    }

    /// Opens a planner's scope.
    pub fn scope(&self, planner: &'static str, spend: &SpendBudget, provenance: &Provenance) -> CallScope {
        let (spend, provenance, state) = (spend.clone(), provenance.clone(), Arc::default());
        let scope = CallScope { call_log: self.clone(), planner, spend, provenance, state };
        lock(&self.0.scopes).push(scope.clone());
        scope
    }

    /// Writes down what calls took that were given up, by planners that are not at work any more.
    pub async fn close(&self) {
        let scopes: Vec<CallScope> = std::mem::take(&mut *lock(&self.0.scopes));
        for scope in scopes {
            scope.close().await;
            let spent = scope.spend.spent();
            let mut sum = lock(&self.0.spent);
            sum.tokens = sum.tokens.saturating_add(spent.tokens());
            sum.cost += spent.cost;
        }
    }

    /// What is left of a budget after the planners that have closed their scopes.
    pub fn left_of(&self, budget: &Budget) -> Budget {
        let spent = *lock(&self.0.spent);
        Budget {
            tokens: budget.tokens.map(|tokens| tokens.saturating_sub(spent.tokens)),
            cost: budget.cost.map(|cost| (cost - spent.cost.dollars()).max(0.0)),
            ..*budget
        }
    }

    /// What planners said to models that have not closed their scopes: for those that give nothing else.
    pub fn to_json(&self) -> Option<Value> {
        lock(&self.0.scopes)
            .last()
            .map(|scope| scope.provenance.to_json(&scope.spend.spent()))
            .filter(|value| !value.is_null())
    }

    fn next_call(&self, planner: &'static str) -> u32 {
        let mut calls = lock(&self.0.calls);
        let call = calls.entry(planner).or_default();
        *call = call.saturating_add(1);
        *call
    }

    fn last_call(&self, planner: &str) -> u32 {
        lock(&self.0.calls).get(planner).copied().unwrap_or_default()
    }

    fn kept(&self, planner: &str, call: u32) -> Option<Completion> {
        let found = self.0.kept.iter().find(|kept| kept.planner == planner && kept.call == call)?;
        serde_json::from_str(found.answer.as_ref()?.text()).ok()
    }
}

/// One planner's calls, charged to one budget.
#[derive(Clone)]
pub struct CallScope {
    call_log: CallLog,
    planner: &'static str,
    spend: SpendBudget,
    provenance: Provenance,
    state: Arc<Mutex<OpenCall>>,
}

#[derive(Default)]
struct OpenCall {
    calls: Vec<u32>,
    /// The part of the spending that is recorded.
    written: Charged,
}

#[derive(Clone, Copy, Default)]
struct Charged {
    tokens: u64,
    cost: Usd,
}

/// How a call begins.
pub enum CallStart {
    /// It was made before.
    Replayed(Box<Completion>),
    /// It may be made now; its number.
    Call(u32),
    /// It is not awaited.
    Abandoned,
}

impl CallScope {
    /// Writes down that a call is about to be made.
    ///
    /// - `reserved`: the most that it may take.
    pub async fn begin(&self, template: &str, reserved: Usage) -> CallStart {
        let call = self.call_log.next_call(self.planner);
        if let Some(answer) = self.call_log.kept(self.planner, call) {
            let usage = answer.usage;
            self.spend.record_call(&usage, answer.cost);
            let mut open = lock(&self.state);
            open.written.tokens = open.written.tokens.saturating_add(usage.total());
            open.written.cost += answer.cost;
            return CallStart::Replayed(Box::new(answer));
        }
        let Some(recorder) = &self.call_log.0.recorder else { return CallStart::Call(call) };
        lock(&self.state).calls.push(call);
        let (revision, planner, template) = (self.call_log.0.revision, self.planner.into(), template.into());
        if recorder.asked(ModelAsked { revision, planner, call, template, reserved, repeated: false }).await {
            return CallStart::Call(call);
        }
        lock(&self.state).calls.retain(|open| *open != call);
        CallStart::Abandoned
    }

    /// Writes down what became of a call.
    pub async fn end(&self, call: u32, result: &Result<Completion, ModelError>) {
        tracing::debug!(planner = self.planner, "call {call} of planner `{}` has ended", self.planner);
        match result {
            Ok(answer) => self.settle(call, kept_form(answer), String::new()).await,
            Err(ModelError::Interrupted { partial, .. }) => self.settle(call, kept_form(partial), String::new()).await,
            Err(error) => self.settle(call, None, error.code().into()).await,
        }
    }

    /// Writes down the tools that the answer to the last call has called.
    ///
    /// - `ran`: in order.
    pub async fn tools_called(&self, ran: Vec<RanTool>) {
        let Some(recorder) = self.call_log.0.recorder.as_ref().filter(|_| !ran.is_empty()) else { return };
        let (mut room, mut left_out, mut tools) = (TOOLS_BYTES_MAX, 0, Vec::new());
        for tool in ran {
            let call = tool.recorded();
            let bytes = call.arguments.text().len() + call.result.as_ref().map_or(0, |result| result.text().len());
            if bytes <= room {
                room -= bytes;
                tools.push(call);
            } else {
                left_out += 1;
            }
        }
        let (revision, call) = (self.call_log.0.revision, self.call_log.last_call(self.planner));
        recorder.tools_called(ToolsCalled { revision, planner: self.planner.into(), call, tools, left_out }).await;
    }

    async fn settle(&self, call: u32, answer: Option<Json>, error: String) {
        let Some(recorder) = &self.call_log.0.recorder else { return };
        let spent = self.spend.spent();
        let usage = {
            let mut open = lock(&self.state);
            open.calls.retain(|open| *open != call);
            let now = Charged { tokens: spent.tokens(), cost: spent.cost };
            let before = std::mem::replace(&mut open.written, now);
            let tokens = now.tokens.saturating_sub(before.tokens);
            Usage { tokens, cost: now.cost.minus(before.cost).dollars() }
        };
        let (revision, planner, estimated) = (self.call_log.0.revision, self.planner.into(), spent.estimated);
        recorder.answered(ModelAnswered { revision, planner, call, usage, estimated, answer, error }).await;
    }

    /// Settles open calls of a planner that has stopped.
    async fn close(&self) {
        let calls = lock(&self.state).calls.clone();
        for call in calls {
            self.settle(call, None, "LLM_CANCELLED".into()).await;
        }
    }

    /// What the calls move.
    pub fn progress(&self) -> Option<ProgressMeter> {
        self.call_log.0.progress.clone()
    }
}

/// A tool that a planner's model has called, and its result.
pub struct RanTool {
    pub name: String,
    pub arguments: Value,
    pub ok: bool,
    /// None when the call ends the planning.
    pub result: Option<Value>,
}

impl RanTool {
    fn recorded(self) -> PlannerToolCall {
        let result = self.result.as_ref().map(recorded_value);
        PlannerToolCall { tool: self.name, arguments: recorded_value(&self.arguments), ok: self.ok, result }
    }
}

/// A value as it is recorded: as it is, or as a text that is cut and masked.
fn recorded_value(value: &Value) -> Json {
    let text = value.to_string();
    let plain = redact(&text);
    if plain == text && text.len() <= TOOL_TEXT_BYTES_MAX {
        return Json::from_value(value);
    }
    let end = plain.floor_char_boundary(TOOL_TEXT_BYTES_MAX);
    let rest = if end < plain.len() { "… (cut)" } else { "" };
    Json::from_value(&format!("{}{rest}", &plain[..end]))
}

/// An answer as it is written down. What looks like a secret is not, and such a call is made again if need be.
fn kept_form(answer: &Completion) -> Option<Json> {
    let json = Json::from_value(answer);
    let texts = answer.tool_calls.iter().map(|call| &call.arguments).chain([&answer.text]);
    let is_plain = texts.into_iter().all(|text| redact(text) == *text);
    (is_plain && json.text().len() <= ANSWER_BYTES_MAX).then_some(json)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use goalmill_llm::{SpendLimit, TokenUsage as Tokens};

    use super::*;

    #[derive(Default)]
    struct Notes(Mutex<Vec<ModelAnswered>>);

    #[async_trait]
    impl CallRecorder for Notes {
        async fn asked(&self, call: ModelAsked) -> bool {
            call.call < 3
        }

        async fn tools_called(&self, _: ToolsCalled) {}

        async fn answered(&self, call: ModelAnswered) {
            lock(&self.0).push(call);
        }
    }

    #[tokio::test]
    async fn a_call_that_is_given_up_is_settled_with_what_it_is_taken_to_have_used() {
        let notes = Arc::new(Notes::default());
        let call_log = CallLog::new(0, notes.clone(), &[]);
        let spend = SpendBudget::new(SpendLimit::default());
        let scope = call_log.scope("llm", &spend, &Provenance::new());
        assert!(matches!(scope.begin("plan", Usage::default()).await, CallStart::Call(1)));
        let sent = Tokens { input_tokens: 70, output_tokens: 0, estimated: true };
        let mut call = spend.reserve(&sent, Usd::ZERO).expect("there is no limit");
        call.update(sent, Usd::from_dollars(0.5));
        drop(call);
        assert_eq!(call_log.to_json().expect("something was spent")["usage"]["tokens"], 70);
        call_log.close().await;
        call_log.close().await;
        let accepted = lock(&notes.0).clone();
        assert_eq!(accepted.len(), 1, "{accepted:?}");
        assert_eq!(accepted[0].usage, Usage { tokens: 70, cost: 0.5 });
        assert!(accepted[0].estimated && accepted[0].error == "LLM_CANCELLED", "{accepted:?}");
    }

    #[tokio::test]
    async fn a_planner_is_numbered_on_and_stopped_when_nobody_waits() {
        let call_log = CallLog::new(1, Arc::new(Notes::default()), &[]);
        let scope = || call_log.scope("llm", &SpendBudget::unlimited(), &Provenance::new());
        assert!(matches!(scope().begin("revise", Usage::default()).await, CallStart::Call(1)));
        assert!(matches!(scope().begin("revise", Usage::default()).await, CallStart::Call(2)));
        assert!(matches!(scope().begin("revise", Usage::default()).await, CallStart::Abandoned));
    }

    #[test]
    fn an_answer_with_a_secret_is_not_kept() {
        let answer = |text: &str| Completion { text: text.into(), ..answer() };
        let kept = kept_form(&answer("{\"steps\": []}")).expect("it is plain");
        assert_eq!(
            serde_json::from_str::<Completion>(kept.text()).expect("own text reads back"),
            answer("{\"steps\": []}")
        );
        assert!(kept_form(&answer("password: hunter2")).is_none());
        assert!(kept_form(&answer(&"x".repeat(ANSWER_BYTES_MAX))).is_none());
    }

    fn answer() -> Completion {
        Completion {
            text: String::new(),
            tool_calls: Vec::new(),
            thinking: String::new(),
            provider_fields: goalmill_llm::ProviderFields::default(),
            refusal: String::new(),
            finish: goalmill_llm::FinishReason::Stop,
            usage: Tokens { input_tokens: 3, output_tokens: 4, estimated: false },
            cost: Usd::from_dollars(0.25),
            model: "m".into(),
            served_by: "m".into(),
            mode: goalmill_llm::ResponseMode::JsonSchema,
            raw: goalmill_llm::RawResponse::default(),
            latency_ms: 1,
            attempts: Vec::new(),
        }
    }
}
