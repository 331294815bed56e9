//! References of other forms to the outputs of steps, as our expressions.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::context::LISTS;
use goalmill_plan::validate::{own_id, step_field};

/// Names that expressions know already.
const KNOWN: [&str; 5] = ["steps", "goal", "inputs", "state", "plan"];

/// The ids of the steps of one plan.
pub(super) fn ids(map: &Map<String, Value>) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    let mut add = |list: &Value| match list {
        Value::Array(items) => ids.extend(items.iter().filter_map(own_id)),
        Value::Object(map) => ids.extend(map.iter().map(|(key, item)| own_id(item).unwrap_or_else(|| key.clone()))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    };
    LISTS.iter().filter_map(|key| map.get(*key)).for_each(&mut add);
    let phases = map.get("phases").and_then(Value::as_array);
    for phase in phases.into_iter().flatten() {
        LISTS.iter().filter_map(|key| phase.get(*key)).for_each(&mut add);
    }
    ids
}

/// Lets `{{ s1 }}` and `{{ s1.rows }}` in inputs be `{{ steps.s1.outputs }}` and `{{ steps.s1.outputs.rows }}`.
pub(super) fn rewrite(map: &mut Map<String, Value>) {
    let ids = ids(map);
    let each = |list: &mut Value| match list {
        Value::Array(items) => items.iter_mut().for_each(|item| step(item, &ids)),
        Value::Object(map) => map.values_mut().for_each(|item| step(item, &ids)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    };
    for key in LISTS {
        if let Some(list) = map.get_mut(key) {
            each(list);
        }
    }
    let Some(Value::Array(phases)) = map.get_mut("phases") else { return };
    for phase in phases {
        for key in LISTS {
            if let Some(list) = phase.get_mut(key) {
                each(list);
            }
        }
    }
}

fn step(step: &mut Value, ids: &BTreeSet<String>) {
    let Some(map) = step.as_object_mut() else { return };
    for (key, value) in map.iter_mut() {
        if matches!(step_field(key), Some("inputs" | "when")) {
            texts(value, &mut |text| {
                if text.contains("{{") {
                    *text = translate(text, ids);
                }
            });
        }
    }
}

/// Every text in a value.
pub(super) fn texts(value: &mut Value, body: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => body(text),
        Value::Array(items) => items.iter_mut().for_each(|item| texts(item, body)),
        Value::Object(map) => map.values_mut().for_each(|item| texts(item, body)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn translate(text: &str, ids: &BTreeSet<String>) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(open) = rest.find("{{") {
        let Some(close) = rest[open..].find("}}").map(|n| open + n) else { break };
        out.push_str(&rest[..open]);
        let inner = rest[open + 2..close].trim();
        match reference(inner, ids) {
            Some(expression) => {
                out.push_str("{{ ");
                out.push_str(&expression);
                out.push_str(" }}");
            }
            None => out.push_str(&rest[open..close + 2]),
        }
        rest = &rest[close + 2..];
    }
    out.push_str(rest);
    out
}

fn reference(inner: &str, ids: &BTreeSet<String>) -> Option<String> {
    let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':'))).unwrap_or(inner.len());
    let (name, mut rest) = inner.split_at(end);
    if KNOWN.contains(&name) || !ids.contains(name) {
        return None;
    }
    if !(rest.is_empty() || rest.starts_with(['.', '[']) || rest.trim_start().starts_with('|')) {
        return None;
    }
    for word in [".outputs", ".output", ".result"] {
        if let Some(after) = rest.strip_prefix(word)
            && !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        {
            rest = after;
            break;
        }
    }
    Some(format!("{}{rest}", outputs_of(name)))
}

/// The expression of the outputs of a step.
pub(super) fn outputs_of(id: &str) -> String {
    let is_plain =
        id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !id.starts_with(|c: char| c.is_ascii_digit());
    if is_plain { format!("steps.{id}.outputs") } else { format!("steps[{}].outputs", Value::from(id)) }
}

/// The steps that the inputs of a step refer to.
pub(super) fn seen(step: &Map<String, Value>, ids: &BTreeSet<String>) -> Vec<String> {
    let mut seen = Vec::new();
    for (key, value) in step {
        if !matches!(step_field(key), Some("inputs" | "when")) {
            continue;
        }
        let text = value.to_string();
        for id in ids {
            let marks = [format!("steps.{id}."), format!("steps[\\\"{id}\\\"]"), format!("steps['{id}']")];
            if !seen.contains(id) && marks.iter().any(|mark| text.contains(mark)) {
                seen.push(id.clone());
            }
        }
    }
    seen
}
