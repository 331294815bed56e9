//! The values in a text that a model wrote: the tolerant reader of plans, with what only answers need.

use goalmill_reader::{ReaderLimits, Reading, ToolCatalogue, Verdict, parse_value, without_thoughts};
use serde_json::{Map, Value};

/// Other values of one text that are looked at.
const OTHERS_MAX: usize = 20;
/// Levels of a schema in which texts are unwrapped.
const DEPTH_MAX: usize = 16;

/// The whole values in a text, the best one first; a text that is JSON is one value.
///
/// A value is left out if the reader had to guess: then the model is asked again.
pub(crate) fn read_values(text: &str) -> Result<Vec<Value>, String> {
    let error = match serde_json::from_str::<Value>(text.trim()) {
        Ok(Value::String(inner)) if inner.trim_start().starts_with(['{', '[']) => return read_values(&inner),
        Ok(value) => return Ok(vec![value]),
        Err(error) => error,
    };
    let text = without_thoughts(text);
    let read = |text: &str| parse_value(text, &ToolCatalogue::default(), &ReaderLimits::default());
    let reading = read(text);
    let reason = match reading.verdict {
        Verdict::Truncated { .. } => "the reply ends in the middle of the answer".to_owned(),
        Verdict::Unreadable { reason } => format!("the answer is not a JSON object: {reason}"),
        Verdict::Exact | Verdict::Repaired => format!("the answer is not a JSON object: {error}"),
    };
    let others = reading.others.iter().take(OTHERS_MAX);
    let others: Vec<Value> =
        others.filter_map(|other| sure_value(read(&text[other.span.start..other.span.end]))).collect();
    let values: Vec<Value> = sure_value(reading).into_iter().chain(others).collect();
    if values.is_empty() { Err(reason) } else { Ok(values) }
}

/// The arguments of a tool call.
pub(crate) fn read_arguments(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match read_values(text)?.into_iter().next() {
        Some(value @ Value::Object(_)) => Ok(value),
        Some(_) | None => Err("they must be one JSON object".into()),
    }
}

/// The value of a reading that is whole and was not guessed.
fn sure_value(reading: Reading) -> Option<Value> {
    let is_sure = matches!(reading.verdict, Verdict::Exact | Verdict::Repaired)
        && reading.edits.iter().all(|edit| edit.kind.keeps_meaning());
    reading.value.filter(|_| is_sure)
}

/// Replaces texts that hold JSON by what they hold, where the schema wants a list or an object and no text.
///
/// Returns whether a text was replaced.
pub(crate) fn unwrap_texts(value: &mut Value, schema: &Value) -> bool {
    unwrap_to_depth(value, schema, DEPTH_MAX)
}

fn unwrap_to_depth(value: &mut Value, schema: &Value, depth: usize) -> bool {
    if depth == 0 {
        return false;
    }
    let mut is_changed = false;
    if let Value::String(text) = value {
        let held = serde_json::from_str::<Value>(text.trim()).ok();
        let Some(held) = held.filter(|held| wants(schema, held)) else { return false };
        *value = held;
        is_changed = true;
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let inner = schema.get("properties").and_then(|known| known.get(name));
                is_changed |= inner.is_some_and(|inner| unwrap_to_depth(field, inner, depth - 1));
            }
        }
        Value::Array(items) => {
            if let Some(inner) = schema.get("items") {
                for item in items {
                    is_changed |= unwrap_to_depth(item, inner, depth - 1);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    is_changed
}

/// Whether a schema wants such a list or object, and no text.
fn wants(schema: &Value, held: &Value) -> bool {
    let name = match held {
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return false,
    };
    match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(all)) => all.iter().any(|one| one == name) && !all.iter().any(|one| one == "string"),
        Some(_) | None => false,
    }
}
