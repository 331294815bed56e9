//! The provenance of a model's plan: every prompt, answer, edit and cost, within bounds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use goalmill_common::id::StepId;
use goalmill_common::plan::Step;
use goalmill_common::problem::Issue;
use goalmill_llm::{Completion, ModelError, ModelTier, Spending};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::llm::Prompt;
use crate::llm::redact::redact;
use crate::repair::Edit;

/// Bytes of texts that one account keeps in all.
const TEXT_BYTES_MAX: usize = 96 << 10;
/// Bytes of one text.
const ONE_TEXT_BYTES_MAX: usize = 24 << 10;
/// Bytes of edits and issues that one account keeps in all; the number of those that did not fit is kept.
const ENTRY_BYTES_MAX: usize = 256 << 10;

/// An account under way. Clones are the same account: it outlives the repair_loop that it is about.
#[derive(Clone, Debug)]
pub struct Provenance(Arc<Mutex<ProvenanceState>>);

#[derive(Debug)]
struct ProvenanceState {
    rounds: Vec<Value>,
    /// Of an answer that is being written: the steps that have begun, and what was changed in them.
    begun: Option<StartedSteps>,
    left: usize,
    entries_left: usize,
    /// Characters of a model's reasoning that one answer keeps.
    reasoning_chars_max: usize,
}

impl ProvenanceState {
    fn entries(&self) -> Vec<Value> {
        self.rounds.iter().chain(self.begun.as_ref().map(|begun| &begun.entry)).cloned().collect()
    }

    /// Forgets the steps that have begun, because their answer is recorded again, and returns the room that they took.
    fn end_begun(&mut self) {
        self.entries_left += self.begun.take().map_or(0, |begun| begun.bytes);
    }
}

/// Steps that have begun.
#[derive(Debug)]
struct StartedSteps {
    entry: Value,
    /// What it took of the room for entries.
    bytes: usize,
}

/// What became of one answer.
#[derive(Debug, Default)]
pub struct Round {
    /// `valid`, `invalid`, `truncated`, `unparseable`; empty without a judge.
    pub outcome: &'static str,
    pub verdict: String,
    pub syntax_repairs: Vec<goalmill_reader::Edit>,
    pub repairs: Vec<Edit>,
    pub issues: Vec<Issue>,
}

impl Provenance {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(ProvenanceState {
            rounds: Vec::new(),
            begun: None,
            left: TEXT_BYTES_MAX,
            entries_left: ENTRY_BYTES_MAX,
            reasoning_chars_max: 0,
        })))
    }

    /// Keeps the beginning of a model's reasoning of each answer.
    pub fn with_reasoning(self, chars_max: usize) -> Self {
        self.inner().reasoning_chars_max = chars_max;
        self
    }

    fn reasoning(&self, answer: &Completion) -> String {
        let chars_max = self.inner().reasoning_chars_max;
        let thinking = answer.thinking.trim();
        if thinking.is_empty() || chars_max == 0 {
            return String::new();
        }
        let reasoning: String = thinking.chars().take(chars_max).collect();
        let is_cut = reasoning.len() < thinking.len();
        self.keep(&if is_cut { format!("{reasoning}… (cut)") } else { reasoning })
    }

    fn inner(&self) -> MutexGuard<'_, ProvenanceState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an answer and what became of it.
    pub fn answered(
        &self,
        prompt: &Prompt,
        stage: ModelTier,
        temperature: Option<f64>,
        answer: &Completion,
        round: &Round,
    ) {
        self.inner().end_begun();
        let mut entry = self.asked(prompt, stage, temperature);
        let calls: Vec<Value> = answer
            .tool_calls
            .iter()
            .map(|call| json!({"name": call.name, "arguments": self.keep(&call.arguments)}))
            .collect();
        let fields = [
            ("model", json!(answer.model)),
            ("served_by", json!(answer.served_by)),
            ("mode", json!(answer.mode)),
            ("raw", json!(self.keep(&answer.text))),
            ("reasoning", json!(self.reasoning(answer))),
            ("raw_calls", Value::Array(calls)),
            ("finish", json!(answer.finish)),
            ("outcome", json!(round.outcome)),
            ("verdict", json!(round.verdict)),
            ("usage", json!(answer.usage)),
            ("cost", json!(answer.cost)),
            ("latency_ms", json!(answer.latency_ms)),
            ("attempts", json!(answer.attempts)),
        ];
        let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty) || *value == json!("");
        entry.extend(fields.into_iter().filter(|(_, value)| !is_empty(value)).map(|(k, v)| (k.to_owned(), v)));
        self.list("syntax_repairs", &round.syntax_repairs, &mut entry);
        self.list("repairs", &round.repairs, &mut entry);
        self.list("issues", &round.issues, &mut entry);
        self.inner().rounds.push(Value::Object(entry));
    }

    /// Adds a list to an entry, as far as there is room, and to `left_out` how much of it there was no room for.
    pub fn list<T: Serialize>(&self, name: &str, list: &[T], entry: &mut Map<String, Value>) {
        within(&mut self.inner().entries_left, name, list, entry);
    }

    /// Notes what was changed in the steps that begin while the rest of the answer is written: it may never come to
    /// its end. Takes the place of the last such note; the whole answer takes the place of all.
    pub fn begun(&self, steps: &[Step], repairs: &[Edit]) {
        let ids: Vec<&StepId> = steps.iter().map(|step| &step.id).collect();
        let mut entry = Map::from_iter([("begun".to_owned(), json!(ids))]);
        let mut inner = self.inner();
        inner.end_begun();
        let left = inner.entries_left;
        within(&mut inner.entries_left, "repairs", repairs, &mut entry);
        let bytes = left - inner.entries_left;
        inner.begun = Some(StartedSteps { entry: Value::Object(entry), bytes });
    }

    /// Notes a question without an answer.
    pub fn failed(&self, prompt: &Prompt, stage: ModelTier, error: &ModelError) {
        let mut entry = self.asked(prompt, stage, None);
        entry.insert("error".into(), json!({"code": error.code(), "detail": error.to_string()}));
        self.inner().rounds.push(Value::Object(entry));
    }

    /// Notes something else that belongs here.
    pub fn note(&self, entry: Value) {
        self.inner().rounds.push(entry);
    }

    /// A text without secrets, cut to what there is room for.
    pub fn keep(&self, text: &str) -> String {
        let text = redact(text);
        let mut inner = self.inner();
        let room = ONE_TEXT_BYTES_MAX.min(inner.left);
        let kept = if text.len() <= room {
            text
        } else {
            let mut end = room;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            format!("{}… ({} bytes in all)", &text[..end], text.len())
        };
        inner.left = inner.left.saturating_sub(kept.len());
        kept
    }

    /// The account, with what it all took.
    pub fn close(&self, head: Value, spent: &Spending) -> Value {
        let mut account = if let Value::Object(map) = head { map } else { Map::from_iter([("head".to_owned(), head)]) };
        account.insert("rounds".into(), Value::Array(self.inner().entries()));
        account.insert("usage".into(), usage(spent));
        Value::Object(account)
    }

    /// What was asked and answered so far; null when nothing was asked and nothing spent.
    pub fn to_json(&self, spent: &Spending) -> Value {
        let rounds = self.inner().entries();
        if rounds.is_empty() && *spent == Spending::default() {
            return Value::Null;
        }
        json!({"rounds": rounds, "usage": usage(spent)})
    }

    fn asked(&self, prompt: &Prompt, stage: ModelTier, temperature: Option<f64>) -> Map<String, Value> {
        let texts: Vec<Value> = prompt.messages.iter().map(|message| json!(self.keep(message.text()))).collect();
        let mut entry = Map::new();
        entry.insert("template".into(), json!({"id": prompt.template, "version": prompt.version}));
        entry.insert("prompt".into(), Value::Array(texts));
        entry.insert("stage".into(), stage.as_str().into());
        if let Some(temperature) = temperature {
            entry.insert("temperature".into(), temperature.into());
        }
        entry
    }
}

fn usage(spent: &Spending) -> Value {
    json!({"calls": spent.calls, "tokens": spent.tokens(), "input_tokens": spent.input_tokens,
           "output_tokens": spent.output_tokens, "cost": spent.cost, "estimated": spent.estimated})
}

/// Adds a list to an entry, as far as there is room for it.
fn within<T: Serialize>(room: &mut usize, name: &str, list: &[T], entry: &mut Map<String, Value>) {
    if list.is_empty() {
        return;
    }
    let mut kept = Vec::new();
    for item in list.iter().map(|item| json!(item)) {
        let bytes = item.to_string().len();
        if bytes <= *room {
            *room -= bytes;
            kept.push(item);
        }
    }
    if kept.len() < list.len() {
        let left_out = entry.entry("left_out").or_insert_with(|| json!({}));
        left_out[name] = (list.len() - kept.len()).into();
    }
    entry.insert(name.to_owned(), Value::Array(kept));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_without_secrets_and_within_bounds() {
        let account = Provenance::new();
        assert_eq!(account.keep("password: hunter2"), "password: [redacted]");
        let long = "ä".repeat(ONE_TEXT_BYTES_MAX);
        for _ in 0..20 {
            account.keep(&long);
        }
        assert!(account.keep(&long).len() < 100);
        assert_eq!(account.inner().left, 0);
    }

    #[test]
    fn every_edit_is_kept_and_what_does_not_fit_is_counted() {
        let account = Provenance::new();
        let listed = |texts: &[String]| {
            let mut entry = Map::new();
            account.list("repairs", texts, &mut entry);
            Value::Object(entry)
        };
        let many: Vec<String> = (0..500).map(|n| format!("edit {n}")).collect();
        assert_eq!(listed(&many), json!({ "repairs": many }));
        let large = ["x".repeat(ENTRY_BYTES_MAX), "small".into()];
        assert_eq!(listed(&large), json!({"repairs": ["small"], "left_out": {"repairs": 1}}));
        assert_eq!(listed(&[]), json!({}));
    }

    #[test]
    fn started_steps_count_until_they_are_recorded_again() {
        let account = Provenance::new();
        let edit = |length| Edit {
            code: "X".into(),
            pointer: String::new(),
            was: Value::Null,
            became: Value::Null,
            why: "x".repeat(length),
        };
        let left = || account.inner().entries_left;
        account.begun(&[], &[edit(ENTRY_BYTES_MAX / 2)]);
        account.begun(&[], &[edit(100)]);
        assert!(left() < ENTRY_BYTES_MAX && left() > ENTRY_BYTES_MAX - 400, "the second took the place of the first");
        account.inner().end_begun();
        assert_eq!(left(), ENTRY_BYTES_MAX);
    }
}
