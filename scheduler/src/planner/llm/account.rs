//! The provenance of what a model made: every prompt, answer, change and cost, within bounds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use goalmill_common::problem::Issue;
use serde_json::{Map, Value, json};

use super::prompts::Prompt;
use super::redact::redact;
use crate::model::{Answer, ModelError, Spent, Stage};
use crate::planner::mend::Edit;

/// Bytes of texts that one account keeps in all.
const TEXT_BYTES_MAX: usize = 96 << 10;
/// Bytes of one text.
const ONE_TEXT_BYTES_MAX: usize = 24 << 10;
/// Edits and issues of one round that are kept.
const ENTRIES_MAX: usize = 50;

/// An account under way. Clones are the same account: it outlives the talk that it is about.
#[derive(Clone, Debug)]
pub struct Account(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    rounds: Vec<Value>,
    left: usize,
}

/// What became of one answer.
#[derive(Debug, Default)]
pub struct Round {
    pub verdict: String,
    pub repairs: Vec<goalmill_reader::Edit>,
    pub mends: Vec<Edit>,
    pub issues: Vec<Issue>,
}

impl Account {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Inner { rounds: Vec::new(), left: TEXT_BYTES_MAX })))
    }

    /// Questions so far.
    pub fn len(&self) -> usize {
        self.inner().rounds.len()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an answer and what became of it.
    pub fn answered(&self, prompt: &Prompt, stage: Stage, temperature: Option<f64>, answer: &Answer, round: &Round) {
        let mut entry = self.asked(prompt, stage, temperature);
        let calls: Vec<Value> = answer
            .tool_calls
            .iter()
            .map(|call| json!({"name": call.name, "arguments": self.keep(&call.arguments)}))
            .collect();
        let fields = [
            ("model", json!(answer.model)),
            ("served_by", json!(answer.served_by)),
            ("rung", json!(answer.rung)),
            ("raw", json!(self.keep(&answer.text))),
            ("raw_calls", Value::Array(calls)),
            ("finish", json!(answer.finish)),
            ("verdict", json!(round.verdict)),
            ("repairs", some(&round.repairs)),
            ("mends", some(&round.mends)),
            ("issues", some(&round.issues)),
            ("usage", json!(answer.usage)),
            ("cost", json!(answer.cost)),
            ("latency_ms", json!(answer.latency_ms)),
            ("tries", json!(answer.tries)),
        ];
        let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty) || *value == json!("");
        entry.extend(fields.into_iter().filter(|(_, value)| !is_empty(value)).map(|(k, v)| (k.to_owned(), v)));
        self.inner().rounds.push(Value::Object(entry));
    }

    /// Notes a question without an answer.
    pub fn failed(&self, prompt: &Prompt, stage: Stage, error: &ModelError) {
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
    pub fn close(&self, head: Value, spent: &Spent) -> Value {
        let mut account = match head {
            Value::Object(map) => map,
            other => Map::from_iter([("head".to_owned(), other)]),
        };
        account.insert("rounds".into(), Value::Array(self.inner().rounds.clone()));
        account.insert("usage".into(), usage(spent));
        Value::Object(account)
    }

    /// What was answered so far, without what was asked; null when nothing was asked and nothing spent.
    pub fn told(&self, spent: &Spent) -> Value {
        let mut rounds = self.inner().rounds.clone();
        if rounds.is_empty() && *spent == Spent::default() {
            return Value::Null;
        }
        for round in rounds.iter_mut().filter_map(Value::as_object_mut) {
            round.remove("prompt");
        }
        json!({"rounds": rounds, "usage": usage(spent)})
    }

    fn asked(&self, prompt: &Prompt, stage: Stage, temperature: Option<f64>) -> Map<String, Value> {
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

fn usage(spent: &Spent) -> Value {
    json!({"calls": spent.calls, "tokens": spent.tokens(), "input_tokens": spent.input_tokens,
           "output_tokens": spent.output_tokens, "cost": spent.cost, "estimated": spent.estimated})
}

fn some<T: serde::Serialize>(entries: &[T]) -> Value {
    json!(&entries[..entries.len().min(ENTRIES_MAX)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_without_secrets_and_within_bounds() {
        let account = Account::new();
        assert_eq!(account.keep("password: hunter2"), "password: [redacted]");
        let long = "ä".repeat(ONE_TEXT_BYTES_MAX);
        for _ in 0..20 {
            account.keep(&long);
        }
        assert!(account.keep(&long).len() < 100);
        assert_eq!(account.inner().left, 0);
    }
}
