//! Repairs misspelled names of fields of the plan and its steps.

use goalmill_common::text::pointer_part;
use goalmill_plan::validate::names::only_slip;
use goalmill_plan::validate::{plan_field, step_field};
use serde_json::{Map, Value};

use super::Edit;

/// Canonical names of the fields that a misspelled one can stand for.
const STEP_FIELDS: [&str; 10] = [
    "description", "agent_type", "action", "inputs", "dependencies", "depends_on", "parameters", "arguments", "params",
    "args",
];
const PLAN_FIELDS: [&str; 6] = ["steps", "phases", "edges", "name", "subtasks", "tasks"];

/// Renames every unknown field that differs by one wrong letter from exactly one field that is not given.
pub(super) fn repair(draft: &mut Value, edits: &mut Vec<Edit>) {
    let mut root = String::new();
    let mut document = draft;
    loop {
        if document.as_object().is_none_or(|map| map.keys().any(|key| plan_field(key) == Some("steps"))) {
            break;
        }
        match document.get("plan") {
            Some(Value::Object(_) | Value::Array(_)) => {}
            _ => break,
        }
        root.push_str("/plan");
        document = &mut document["plan"];
    }
    if let Some(map) = document.as_object_mut() {
        rename(map, &root, &PLAN_FIELDS, plan_field, edits);
        for (key, value) in map.iter_mut().filter(|(key, _)| plan_field(key) == Some("steps")) {
            steps(value, &format!("{root}/{}", pointer_part(key)), edits);
        }
        return;
    }
    steps(document, &root, edits);
}

fn steps(list: &mut Value, at: &str, edits: &mut Vec<Edit>) {
    let mut step = |step: &mut Value, at: String| {
        if let Some(map) = step.as_object_mut() {
            rename(map, &at, &STEP_FIELDS, step_field, edits);
        }
    };
    match list {
        Value::Array(items) => {
            items.iter_mut().enumerate().for_each(|(index, item)| step(item, format!("{at}/{index}")));
        }
        Value::Object(map) => {
            map.iter_mut().for_each(|(key, item)| step(item, format!("{at}/{}", pointer_part(key))));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn rename(
    map: &mut Map<String, Value>,
    at: &str,
    names: &[&'static str],
    known: fn(&str) -> Option<&'static str>,
    edits: &mut Vec<Edit>,
) {
    let slips: Vec<(String, &str)> = map
        .keys()
        .filter(|key| known(key).is_none())
        .filter_map(|key| Some((key.clone(), only_slip(key, names.iter().copied())?)))
        .collect();
    for (given, became) in slips {
        if map.keys().any(|key| known(key) == known(became)) {
            continue;
        }
        let entries = std::mem::take(map).into_iter();
        *map =
            entries.map(|(key, value)| if key == given { (became.to_owned(), value) } else { (key, value) }).collect();
        edits.push(Edit {
            code: "FIELD_RENAMED".to_owned(),
            pointer: format!("{at}/{}", pointer_part(&given)),
            was: given.into(),
            became: became.into(),
            why: "one letter of the field's name is wrong".to_owned(),
        });
    }
}
