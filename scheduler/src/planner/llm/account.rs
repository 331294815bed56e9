//! The provenance of what a model made: every prompt, answer, change and cost, within bounds.

use goalmill_common::problem::Issue;
use serde_json::{Map, Value, json};

use super::prompts::Prompt;
use super::redact::redact;
use crate::model::{Answer, ModelError, Spent};
use crate::planner::mend::Edit;

/// Bytes of texts that one account keeps in all.
const TEXT_BYTES_MAX: usize = 96 << 10;
/// Bytes of one text.
const ONE_TEXT_BYTES_MAX: usize = 24 << 10;
/// Edits and issues of one round that are kept.
const ENTRIES_MAX: usize = 50;

/// An account under way.
#[derive(Debug)]
pub struct Account {
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
        Self { rounds: Vec::new(), left: TEXT_BYTES_MAX }
    }

    /// Questions so far.
    pub fn len(&self) -> usize {
        self.rounds.len()
    }

    /// Notes an answer and what became of it.
    pub fn answered(&mut self, prompt: &Prompt, stage: &str, temperature: Option<f64>, answer: &Answer, round: &Round) {
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
        self.rounds.push(Value::Object(entry));
    }

    /// Notes a question without an answer.
    pub fn failed(&mut self, prompt: &Prompt, stage: &str, error: &ModelError) {
        let mut entry = self.asked(prompt, stage, None);
        entry.insert("error".into(), json!({"code": error.code(), "detail": error.to_string()}));
        self.rounds.push(Value::Object(entry));
    }

    /// Notes something else that belongs here.
    pub fn note(&mut self, entry: Value) {
        self.rounds.push(entry);
    }

    /// A text without secrets, cut to what there is room for.
    pub fn keep(&mut self, text: &str) -> String {
        let text = redact(text);
        let room = ONE_TEXT_BYTES_MAX.min(self.left);
        let kept = if text.len() <= room {
            text
        } else {
            let mut end = room;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            format!("{}… ({} bytes in all)", &text[..end], text.len())
        };
        self.left = self.left.saturating_sub(kept.len());
        kept
    }

    /// The account, with what it all took.
    pub fn close(self, head: Value, spent: &Spent) -> Value {
        let mut account = match head {
            Value::Object(map) => map,
            other => Map::from_iter([("head".to_owned(), other)]),
        };
        account.insert("rounds".into(), Value::Array(self.rounds));
        let usage = json!({"calls": spent.calls, "tokens": spent.tokens(), "input_tokens": spent.input_tokens,
                           "output_tokens": spent.output_tokens, "cost": spent.cost, "estimated": spent.estimated});
        account.insert("usage".into(), usage);
        Value::Object(account)
    }

    fn asked(&mut self, prompt: &Prompt, stage: &str, temperature: Option<f64>) -> Map<String, Value> {
        let texts: Vec<Value> = prompt.messages.iter().map(|message| json!(self.keep(message.text()))).collect();
        let mut entry = Map::new();
        entry.insert("template".into(), json!({"id": prompt.template, "version": prompt.version}));
        entry.insert("prompt".into(), Value::Array(texts));
        entry.insert("stage".into(), stage.into());
        if let Some(temperature) = temperature {
            entry.insert("temperature".into(), temperature.into());
        }
        entry
    }
}

fn some<T: serde::Serialize>(entries: &[T]) -> Value {
    json!(&entries[..entries.len().min(ENTRIES_MAX)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_without_secrets_and_within_bounds() {
        let mut account = Account::new();
        assert_eq!(account.keep("password: hunter2"), "password: [redacted]");
        let long = "ä".repeat(ONE_TEXT_BYTES_MAX);
        for _ in 0..20 {
            account.keep(&long);
        }
        assert!(account.keep(&long).len() < 100);
        assert_eq!(account.left, 0);
    }
}
