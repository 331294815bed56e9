//! The forms in which models write a proposal, made into the one of changes that are tagged by their names.

use goalmill_common::plan::Step;
use goalmill_common::problem::Issue;
use goalmill_common::revision::RevisionStrategy;
use goalmill_formats::{DraftKind, convert_draft, revision_changes};
use goalmill_plan::validate::{own_id, step_field};
use goalmill_reader::ToolCatalogue as Actions;
use serde_json::{Map, Value, json};

use crate::llm::parse_answer::steps;
use crate::llm::tidy_step::tidy_step;
use crate::repair::Edit;
use crate::replan_context::ReplanContext;

/// Names of changes, as they are tagged.
pub(crate) const NAMES: [&str; 11] = [
    "add_step", "modify_step", "set_fields", "remove_step", "skip_step", "retry_step", "replace_step",
    "decompose_step", "order", "add_phase", "skip_phase",
];

/// Keys under which models name a change instead of tagging it.
const TAGS: [&str; 5] = ["type", "change", "kind", "op", "action"];

/// The answer in our form, where it is a plan or a revision of another one.
pub(crate) fn of_other_form(value: &Value, replan: &ReplanContext<'_>, repairs: &mut Vec<Edit>) -> Value {
    if let Some(changes) = listed_revision(value) {
        let why = "new, removed and modified subtasks are changes";
        repairs.push(Edit::new("FORMAT_CONVERTED", "", value.clone(), changes.clone(), why));
        return changes;
    }
    let converted = convert_draft(value.clone(), &replan.request.limits, DraftKind::Answer);
    if converted.format.is_none() || value.get("changes").is_some() {
        return value.clone();
    }
    let note = |note: &Issue| Edit::new(&note.code, &note.pointer, Value::Null, Value::Null, &note.detail);
    repairs.extend(converted.notes.iter().map(note));
    let steps = match steps(&converted.document) {
        Some((_, steps)) => steps.clone(),
        None => steps_in_phases(&converted.document),
    };
    if steps.is_empty() { value.clone() } else { json!({ "steps": steps }) }
}

fn steps_in_phases(document: &Value) -> Vec<Value> {
    let phases = document.get("phases").or_else(|| document.get("plan")?.get("phases")).and_then(Value::as_array);
    let mut all = Vec::new();
    for phase in phases.into_iter().flatten() {
        for step in phase.get("steps").and_then(Value::as_array).into_iter().flatten() {
            let mut step = step.clone();
            if let (Some(map), Some(id)) = (step.as_object_mut(), phase.get("id")) {
                map.entry("phase").or_insert_with(|| id.clone());
            }
            all.push(step);
        }
    }
    all
}

/// `{"new_subtasks": […], "removed_task_ids": […]}` as changes.
fn listed_revision(value: &Value) -> Option<Value> {
    let list = |name: &str| value.get(name).and_then(Value::as_array);
    let (fresh, gone) = (list("new_subtasks"), list("removed_task_ids"));
    if fresh.is_none() && gone.is_none() {
        return None;
    }
    let changes = revision_changes(value);
    let summary = value.get("trigger").and_then(Value::as_str).unwrap_or("subtasks are added and removed");
    Some(json!({"strategy": "replan_remaining", "summary": summary, "changes": changes}))
}

/// Changes name steps by the canonical field.
fn name_by_id(step: &mut Value) {
    let Some(map) = step.as_object_mut().filter(|map| !map.contains_key("id")) else { return };
    let key = map.keys().find(|key| step_field(key) == Some("id")).cloned();
    if let Some(id) = key.and_then(|key| map.shift_remove(&key)) {
        map.shift_insert(0, "id".into(), id);
    }
}

/// The plan, where the answer is a plan and no list of changes: under any name that a plan's steps may have.
pub(crate) fn whole_plan(value: &Value) -> Option<Value> {
    // `strategy` is also how a plan runs its steps.
    let is_revision = |word: &Value| RevisionStrategy::ALL.iter().any(|known| word == known.as_str());
    let has_changes = ["changes", "question"].iter().any(|key| value.get(*key).is_some())
        || value.get("strategy").is_some_and(is_revision);
    let listed = match value {
        Value::Array(items) => items.clone(),
        Value::Object(_) if !has_changes => steps(value)?.1.clone(),
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    let is_step = |step: &Value| step.is_object() && parts(step).is_none_or(|(name, _)| !NAMES.contains(&name));
    (!listed.is_empty() && listed.iter().all(is_step)).then(|| Value::Array(listed))
}

/// The changes that make of the plan as it stands the one that was written: what is over stays, what the new plan does
/// not have goes.
pub(crate) fn towards(steps: Value, replan: &ReplanContext<'_>, actions: &Actions, repairs: &mut Vec<Edit>) -> Value {
    let mut wanted = steps.as_array().cloned().unwrap_or_default();
    for (at, step) in wanted.iter_mut().enumerate() {
        tidy_step(step, &format!("/steps/{at}"), actions, repairs);
        name_by_id(step);
    }
    let ids: Vec<Option<String>> = wanted.iter().map(own_id).collect();
    let mut changes = Vec::new();
    for (step, id) in wanted.into_iter().zip(&ids) {
        match id {
            Some(id) if replan.is_over(id) || says_nothing_new(&step, id, replan) => {}
            Some(id) if replan.knows(id) => changes.push(json!({"modify_step": {"step": step}})),
            Some(_) | None => changes.push(json!({"add_step": {"step": step}})),
        }
    }
    for step in &replan.situation().plan.steps {
        let id = step.id.as_str();
        let is_asked_for = replan.situation().step.as_ref() == Some(&step.id);
        // A new plan says nothing of clean-up that it keeps; the undo of a step that goes is a matter of the engine.
        let stays = replan.is_over(id) || replan.is_final(id) && !is_asked_for || step.is_cleanup();
        if !stays && !ids.iter().flatten().any(|known| known == id) {
            changes.push(json!({"remove_step": {"step": id}}));
        }
    }
    json!({"strategy": "replan_remaining", "summary": "what remains is planned again", "changes": changes})
}

/// Whether every field of a written step is what the plan's step of that id has already.
fn says_nothing_new(written: &Value, id: &str, replan: &ReplanContext<'_>) -> bool {
    let Some(step) = replan.situation().plan.steps.iter().find(|step| step.id.as_str() == id) else { return false };
    let held = serde_json::to_value(step).expect("a step always has a JSON text");
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    let is_held = |(key, value): (&String, &Value)| held.get(key).map_or_else(|| is_empty(value), |held| held == value);
    written.as_object().is_some_and(|fields| fields.iter().all(is_held)) && !drops_dependency(written, step)
}

/// Whether a step that is written with more than its id leaves out something that it waited for, and does not read it.
fn drops_dependency(written: &Value, held: &Step) -> bool {
    let Some(fields) = written.as_object().filter(|fields| fields.len() > 1) else { return false };
    let is_named = fields.keys().any(|key| step_field(key) == Some("dependencies"));
    let text = written.to_string();
    !is_named && held.dependencies.iter().any(|id| !text.contains(id.as_str()))
}

/// `{"type": "skip_step", "step": "a"}` becomes `{"skip_step": {"step": "a"}}`.
pub(crate) fn tag(change: &mut Value) {
    let Some(map) = change.as_object_mut() else { return };
    if map.len() == 1 {
        return;
    }
    let named = TAGS.iter().find_map(|key| {
        let name = map.get(*key)?.as_str().filter(|name| NAMES.contains(name))?;
        Some(((*key).to_owned(), name.to_owned()))
    });
    if let Some((key, name)) = named {
        map.remove(&key);
        let fields = std::mem::take(map);
        map.insert(name, Value::Object(fields));
    }
}

/// The one name and body of a change.
pub(crate) fn parts(change: &Value) -> Option<(&str, &Map<String, Value>)> {
    let map = change.as_object().filter(|map| map.len() == 1)?;
    let (name, body) = map.iter().next()?;
    Some((name, body.as_object()?))
}
