//! Measures how many right calls are read from outputs that a strict decoder rejected.
//!
//! A reading is right when its calls are those of `possible_answer`, in any order: same names, each argument one of the
//! values given for it, none missing that must be there. Values are compared, not the types that schemas declare;
//! strings as the benchmark does, without case, blanks and most punctuation. An output holds the right calls at most if
//! the names and a value for each required argument stand in its text. Source: the checker of the Berkeley
//! Function-Calling Leaderboard, S. G. Patil et al., 2024 (`ast_checker`).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use goalmill_reader::{ParsedCall, ReaderLimits, ToolCatalogue, Verdict, parse_calls};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::rows::{self, Out};

#[derive(Deserialize)]
struct Question {
    id: String,
    functions: Vec<Function>,
    possible_answer: Value,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    parameters: Value,
}

#[derive(Deserialize)]
struct Output {
    id: String,
    q: String,
    bfcl_error: String,
    raw: Value,
}

pub fn run(dir: &Path, out: &mut Out) -> Result<Value> {
    let questions: Vec<Question> = rows::read(&dir.join("parse/bfcl_questions.jsonl"))?;
    let questions: BTreeMap<&str, &Question> = questions.iter().map(|q| (q.id.as_str(), q)).collect();
    let outputs: Vec<Output> = rows::read(&dir.join("parse/bfcl_outputs.jsonl"))?;
    let mut tally: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    let mut invented = 0_u64;
    for output in &outputs {
        let question = questions
            .get(output.q.as_str())
            .with_context(|| format!("`{}` has no question `{}`", output.id, output.q))?;
        let catalogue =
            ToolCatalogue::from_schemas(question.functions.iter().map(|f| (f.name.as_str(), Some(&f.parameters))));
        let text = output.raw.as_str().map_or_else(|| output.raw.to_string(), str::to_owned);
        let reading = parse_calls(&text, &catalogue, &ReaderLimits::default());
        let right = is_right(&reading.calls, question);
        let counted = tally.entry(class(&output.bfcl_error).to_owned()).or_default();
        counted.0 += u64::from(right);
        counted.1 += 1;
        counted.2 += u64::from(right || holds(&text, question));
        let guessed = reading.edits.iter().any(|e| !e.kind.keeps_meaning());
        invented += u64::from(!guessed && reading.verdict == Verdict::Exact && !right && output.bfcl_error.is_empty());
        out.row(&json!({"id": output.id, "verdict": reading.verdict, "calls": reading.calls}))?;
    }
    let mut figures = json!({"what": "calls", "rows": outputs.len(), "exact_but_wrong_controls": invented});
    if let Some(map) = figures.as_object_mut() {
        for (name, (right, all, held)) in &tally {
            map.insert(name.clone(), json!(all));
            map.insert(format!("{name}_right"), json!(right));
            map.insert(format!("{name}_share"), json!(share(*right, *all)));
            map.insert(format!("{name}_holding"), json!(held));
            map.insert(format!("{name}_share_of_holding"), json!(share(*right, *held)));
        }
    }
    Ok(figures)
}

fn class(error: &str) -> &'static str {
    match error {
        "" => "control",
        error if error.contains("decoder") => "rejected",
        _ => "wrong_count",
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share of rows")]
fn share(right: u64, all: u64) -> f64 {
    (right as f64 / all.max(1) as f64 * 10_000.0).round() / 10_000.0
}

fn is_right(calls: &[ParsedCall], question: &Question) -> bool {
    let mut wanted = expected(question);
    wanted.len() == calls.len()
        && calls.iter().all(|call| {
            let at = wanted.iter().position(|(name, arguments)| {
                *name == call.name && arguments.is_some_and(|wanted| fits(&call.arguments, wanted))
            });
            at.map(|at| wanted.swap_remove(at)).is_some()
        })
}

/// The calls of the answer. A name that stands several times carries a number: `f_1`, `f 2`.
fn expected(question: &Question) -> Vec<(String, Option<&Map<String, Value>>)> {
    let answer = &question.possible_answer;
    let tables: Vec<&Map<String, Value>> = match answer.as_array() {
        Some(list) => list.iter().filter_map(Value::as_object).collect(),
        None => answer.as_object().into_iter().collect(),
    };
    let plain = |name: &str| {
        if question.functions.iter().any(|f| f.name == name) {
            return name.to_owned();
        }
        let cut = name.trim_end_matches(|c: char| c.is_ascii_digit());
        cut.strip_suffix([' ', '_']).unwrap_or(name).to_owned()
    };
    tables.into_iter().flatten().map(|(name, arguments)| (plain(name), arguments.as_object())).collect()
}

fn fits(given: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    let each = given.iter().all(|(key, value)| wanted.get(key).is_some_and(|any| is_one_of(value, any)));
    each && wanted.iter().all(|(key, any)| given.contains_key(key) || may_be_missing(any))
}

/// Whether the text names each function as often as the answer calls it, and has a value for each required argument.
fn holds(text: &str, question: &Question) -> bool {
    let (text, plain) = (text.replace("\\_", "_"), bare(text));
    let wanted = expected(question);
    let times = |name: &str| wanted.iter().filter(|(other, _)| other == name).count();
    let named = |name: &str| text.matches(name).count().max(text.matches(&name.replace('.', "_")).count());
    let arguments = wanted.iter().filter_map(|(_, arguments)| *arguments).flatten();
    let mut required = arguments.filter_map(|(_, any)| any.as_array()).filter(|values| values.iter().all(|v| v != ""));
    wanted.iter().all(|(name, _)| named(name) >= times(name))
        && required.all(|values| values.iter().any(|value| stands_in(&plain, value)))
}

/// Whether a value, or each part of it, stands in a text without case and punctuation.
fn stands_in(plain: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => plain.contains(&bare(text)),
        Value::Number(number) => {
            let written = number.to_string();
            let whole = written.strip_suffix(".0").map(str::to_owned);
            plain.contains(&bare(&written)) || whole.is_some_and(|whole| plain.contains(&bare(&whole)))
        }
        Value::Array(items) => items.iter().all(|item| stands_in(plain, item)),
        Value::Object(fields) => fields.values().all(|any| match any.as_array() {
            Some(values) => values.iter().any(|value| stands_in(plain, value)),
            None => stands_in(plain, any),
        }),
        Value::Bool(flag) => plain.contains(if *flag { "true" } else { "false" }),
        Value::Null => true,
    }
}

fn may_be_missing(any: &Value) -> bool {
    any.as_array().is_some_and(|values| values.iter().any(|v| v == ""))
}

fn is_one_of(value: &Value, any: &Value) -> bool {
    any.as_array().is_some_and(|values| values.iter().any(|v| same(value, v)))
}

fn same(given: &Value, wanted: &Value) -> bool {
    match (given, wanted) {
        (Value::String(a), Value::String(b)) => bare(a) == bare(b),
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            let one = |value: &Value, any: &Value| is_one_of(value, any) || same(value, any);
            let each = a.iter().all(|(key, value)| b.get(key).is_some_and(|any| one(value, any)));
            each && b.iter().all(|(key, any)| a.contains_key(key) || may_be_missing(any))
        }
        (a, b) => a == b,
    }
}

fn bare(text: &str) -> String {
    let dropped = |c: &char| !matches!(c, ' ' | ',' | '.' | '/' | '-' | '_' | '*' | '^');
    text.chars().filter(dropped).flat_map(char::to_lowercase).map(|c| if c == '\'' { '"' } else { c }).collect()
}
