//! The revision of a plan in the form `subtasks`, as changes.

use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use serde_json::{Map, Value, json};

use super::{DraftKind, convert_draft};
use goalmill_plan::document::issue;
use goalmill_plan::validate::step_field;

/// The changes of a revision that a person sends for a plan.
///
/// - `plan`: its id.
pub fn checked_revision_changes(revision: &Value, plan: &str) -> Result<Vec<Value>, Vec<Issue>> {
    let mut issues = Vec::new();
    if let Some(other) = revision.get("original_plan_id").filter(|id| *id != plan) {
        let hint = format!("write `{plan}`, or send it for the plan that it revises");
        issues.push(issue("CONFLICT", "/original_plan_id", format!("the revision is for the plan {other}"), hint));
    }
    let changes = revision_changes(revision);
    let modified = revision.get("modified_task_ids").and_then(Value::as_array);
    for (n, id) in modified.into_iter().flatten().enumerate() {
        if !changes.iter().any(|change| change.pointer("/modify_step/step/id") == Some(id)) {
            let detail = format!("the revision does not say how step {id} is modified");
            let hint = "list the step as it is to be under `new_subtasks`, or remove its id";
            issues.push(issue("MISSING_FIELD", &format!("/modified_task_ids/{n}"), detail, hint));
        }
    }
    if issues.is_empty() { Ok(changes) } else { Err(issues) }
}

/// `{"new_subtasks": […], "removed_task_ids": […], "modified_task_ids": […]}` as changes of the steps.
///
/// A modified step is one of the new ones, as it is to be.
pub fn revision_changes(revision: &Value) -> Vec<Value> {
    let list = |name: &str| revision.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let fresh = json!({"subtasks": list("new_subtasks"), "execution_strategy": "parallel"});
    let converted = convert_draft(fresh, &Limits::default(), DraftKind::Answer).document;
    let modified = list("modified_task_ids");
    let mut changes = Vec::new();
    for step in converted.get("subtasks").and_then(Value::as_array).into_iter().flatten() {
        let mut step = step.clone();
        if let Some(fields) = step.as_object_mut() {
            name_by_id(fields);
        }
        let is_modified = step.get("id").is_some_and(|id| modified.contains(id));
        let name = if is_modified { "modify_step" } else { "add_step" };
        changes.push(json!({ name: {"step": step} }));
    }
    changes.extend(list("removed_task_ids").into_iter().map(|id| json!({"remove_step": {"step": id}})));
    changes
}

/// Changes name steps by the canonical field.
fn name_by_id(fields: &mut Map<String, Value>) {
    let key = fields.keys().find(|key| step_field(key) == Some("id")).cloned();
    if let Some(id) = key.filter(|key| key != "id").and_then(|key| fields.shift_remove(&key)) {
        fields.shift_insert(0, "id".into(), id);
    }
}
