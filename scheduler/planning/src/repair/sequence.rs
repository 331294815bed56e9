//! Lets the steps of a draft that names no dependency run in the order in which they are listed.

use goalmill_plan::validate::{plan_field, step_field};
use serde_json::{Value, json};

use super::context::{RepairContext, StepReference};

/// Makes each step wait for the one before it.
///
/// A draft names dependencies when a step has that field, even an empty one, when it has edges, phases or a strategy, or
/// when a step reads another one. A field that is not known may be a dependency too: then nothing is added.
pub(super) fn complete(work: &mut RepairContext<'_>) {
    // Clean-up steps wait for no other steps.
    let steps: Vec<usize> = (0..work.steps.len()).filter(|step| !work.is_cleanup(*step)).collect();
    if steps.len() < 2 || names_order(work) {
        return;
    }
    let Some(list) = list(work, &steps) else { return };
    let ids: Vec<String> = steps.iter().map(|step| work.id(*step)).collect();
    for (step, before) in steps.into_iter().skip(1).zip(&ids) {
        let pointer = work.steps[step].pointer.clone();
        if let Some(map) = work.draft.pointer_mut(&pointer).and_then(Value::as_object_mut) {
            map.insert("dependencies".to_owned(), json!([before]));
        }
        work.add_key(step, "dependencies");
    }
    let why = "the steps are a list, and the draft names no dependency: each waits for the one before it";
    work.note("SEQUENCE_ADDED", list, Value::Null, json!(ids), why.to_owned());
}

/// Whether a draft says itself which step waits for which.
pub(crate) fn names_dependencies(draft: &Value) -> bool {
    let mut document = draft;
    while let Some(inner) = document.get("plan").filter(|_| !has_steps(document)) {
        document = inner;
    }
    let says = |key: &String| matches!(plan_field(key), Some("edges" | "phases" | "strategy"));
    if document.as_object().is_some_and(|map| map.keys().any(says)) {
        return true;
    }
    let steps = document.as_object().and_then(|map| map.iter().find(|(key, _)| plan_field(key) == Some("steps")));
    let has_field = |step: &Value| {
        step.as_object().is_some_and(|map| map.keys().any(|key| step_field(key).is_none_or(|f| f == "dependencies")))
    };
    match steps.map_or(document, |(_, steps)| steps) {
        Value::Array(items) => items.iter().any(has_field),
        Value::Object(map) => map.values().any(has_field),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn has_steps(document: &Value) -> bool {
    document.as_object().is_some_and(|map| map.keys().any(|key| plan_field(key) == Some("steps")))
}

fn names_order(work: &RepairContext<'_>) -> bool {
    let reads = |seen: &StepReference| !seen.is_undo && !work.is_cleanup(seen.step);
    names_dependencies(&work.draft) || work.seen().iter().any(reads)
}

/// The one place under which these steps stand.
fn list(work: &RepairContext<'_>, steps: &[usize]) -> Option<String> {
    let parent = |pointer: &str| pointer.rsplit_once('/').map(|(list, _)| list.to_owned());
    let list = parent(&work.steps[*steps.first()?].pointer)?;
    steps.iter().all(|step| parent(&work.steps[*step].pointer).as_ref() == Some(&list)).then_some(list)
}
