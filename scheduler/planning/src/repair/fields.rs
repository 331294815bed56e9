//! Renames and converts inputs to the names and types of the action's schema.

use goalmill_common::text::pointer_part;
use goalmill_plan::validate::names::{alike, normal, only_slip};
use serde_json::{Map, Value};

use super::context::RepairContext;

/// Renames inputs that the schema has under another spelling, and writes numbers and truth values as such.
pub(super) fn align(work: &mut RepairContext<'_>) {
    for step in 0..work.steps.len() {
        let Some(schema) = work.action_entry(step).and_then(|action_entry| action_entry.inputs.as_ref()) else {
            continue;
        };
        let Some(known) = schema.get("properties").and_then(Value::as_object) else { continue };
        wrap(work, step, schema, known);
        rename(work, step, schema, known);
        convert(work, step, known);
    }
}

/// Inputs that are one value are the only input that the action has, or needs.
fn wrap(work: &mut RepairContext<'_>, step: usize, schema: &Value, known: &Map<String, Value>) {
    let Some(given) = work.field(step, "inputs").filter(|given| given.is_string() || given.is_number()).cloned() else {
        return;
    };
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let only = match (required, known.len()) {
        ([only], _) => only.as_str().map(str::to_owned),
        ([], 1) => known.keys().next().cloned(),
        (_, _) => None,
    };
    if let Some(only) = only.filter(|_| !given.as_str().is_some_and(|text| text.contains("{{"))) {
        let became = Value::Object(Map::from_iter([(only, given)]));
        work.set(step, "inputs", became, "INPUT_NAMED", "the only input that the action needs".to_owned());
    }
}

fn rename(work: &mut RepairContext<'_>, step: usize, schema: &Value, known: &Map<String, Value>) {
    let place = work.place(step, "inputs");
    let Some(inputs) = work.draft.pointer(&place).and_then(Value::as_object) else { return };
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let free: Vec<&String> = known.keys().filter(|name| !inputs.contains_key(*name)).collect();
    let mut renames: Vec<(String, String)> = Vec::new();
    for given in inputs.keys().filter(|name| !known.contains_key(*name)) {
        let same: Vec<&&String> = free.iter().filter(|name| normal(name) == normal(given)).collect();
        let slip = only_slip(given, free.iter().map(|name| name.as_str()));
        let near: Vec<&&String> = free.iter().filter(|name| alike(name, given) >= 0.75).collect();
        let is_needed = |name: &str| is_closed || required.contains(&name);
        let became = match (same.as_slice(), near.as_slice()) {
            ([only], _) => Some((**only).clone()),
            ([], _) if slip.is_some() => slip.map(str::to_owned),
            ([], [only]) if is_needed(only) => Some((**only).clone()),
            _ => None,
        };
        if let Some(became) = became.filter(|became| !renames.iter().any(|(_, taken)| taken == became)) {
            renames.push((given.clone(), became));
        }
    }
    for (given, became) in renames {
        let Some(map) = work.draft.pointer_mut(&place).and_then(Value::as_object_mut) else { return };
        let entries = std::mem::take(map).into_iter();
        *map = entries.map(|(key, value)| if key == given { (became.clone(), value) } else { (key, value) }).collect();
        let why = "the action's schema has this input under that name".to_owned();
        work.note("INPUT_RENAMED", format!("{place}/{}", pointer_part(&given)), given.into(), became.into(), why);
    }
}

fn convert(work: &mut RepairContext<'_>, step: usize, known: &Map<String, Value>) {
    let place = work.place(step, "inputs");
    let Some(inputs) = work.draft.pointer(&place).and_then(Value::as_object) else { return };
    let changes: Vec<(String, Value)> = inputs
        .iter()
        .filter_map(|(name, given)| Some((name.clone(), converted(given, known.get(name)?.get("type")?.as_str()?)?)))
        .collect();
    for (name, became) in changes {
        let why = "the same value in the type of the action's schema".to_owned();
        work.replace(&format!("{place}/{}", pointer_part(&name)), became, "INPUT_TYPE", why);
    }
}

/// The same value in another type; none when it is of that type, or could not be turned back.
fn converted(given: &Value, wanted: &str) -> Option<Value> {
    match (given, wanted) {
        (Value::String(text), "integer") => {
            let number: i64 = text.trim().parse().ok()?;
            (number.to_string() == text.trim()).then(|| number.into())
        }
        (Value::String(text), "number") => {
            let number: Value = serde_json::from_str(text.trim()).ok()?;
            let spelled = number.to_string();
            (number.is_number() && spelled == text.trim()).then_some(number)
        }
        (Value::String(text), "boolean") => match text.trim() {
            "true" | "True" => Some(true.into()),
            "false" | "False" => Some(false.into()),
            _ => None,
        },
        (Value::Number(_) | Value::Bool(_), "string") => Some(given.to_string().into()),
        _ => None,
    }
}
