//! The form `subtasks`: what a plan says beside its steps, and steps that are known by their numbers.

use goalmill_common::document_format::DocumentFormat;
use serde_json::{Map, Value, json};

use super::context::{Conversion, object_under};

/// `goal_id` and `alternative_plans` are kept in the metadata.
pub(super) fn keep_goal_fields(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>, at: &str) {
    let own = ["plan_id", "planId", "id"].iter().find_map(|key| map.get(*key)).cloned();
    if map.contains_key("goal_id") && map.get("goal_id") == own.as_ref() {
        map.shift_remove("goal_id");
    }
    for key in ["goal_id", "alternative_plans"] {
        if map.get(key).is_some_and(|value| !is_empty(value)) {
            let mut value = Map::new();
            if let Some(found) = map.shift_remove(key) {
                value.insert(key.into(), found);
            }
            let Some(metadata) = object_under(map, "metadata") else { continue };
            conversion.rewrite.carry((&mut value, at, key), (metadata, &format!("{at}/metadata"), key));
        } else {
            map.shift_remove(key);
        }
    }
}

/// Notes a step that does not say what it is to give.
pub(super) fn step(conversion: &mut Conversion<'_>, map: &Map<String, Value>, at: &str) {
    let says = ["expected_outputs", "expectedOutputs", "subtasks", "plan"].iter().any(|key| map.contains_key(*key));
    if conversion.is(DocumentFormat::Subtasks) && map.contains_key("task_id") && !says {
        let what = "is missing: whatever the agent answers completes the step";
        conversion.rewrite.note_as(at, "step", "expected_outputs", what);
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// Tasks without ids depend on each other by their numbers: they get ids, and the numbers become these.
///
/// Numbers count from 0, or from 1 where only that leads to earlier tasks.
pub(super) fn numbered(conversion: &mut Conversion<'_>, list: &mut Value, at: &str, key: &str) {
    if !conversion.is(DocumentFormat::Subtasks) || !matches!(key, "tasks" | "subtasks" | "sub_tasks") {
        return;
    }
    let Some(items) = list.as_array_mut() else { return };
    let is_named =
        |item: &Value| ["id", "task_id", "step_id", "subtask_id", "name"].iter().any(|k| item.get(*k).is_some());
    if items.is_empty() || items.iter().any(|item| !item.is_object() || is_named(item)) {
        return;
    }
    let base = base(items);
    for (index, item) in items.iter_mut().enumerate() {
        let Some(map) = item.as_object_mut() else { continue };
        map.shift_insert(0, "id".into(), json!(format!("step-{}", index + 1)));
        conversion.rewrite.moved(format!("{at}/{index}/id"), conversion.rewrite.original(&format!("{at}/{index}")));
        let Some(base) = base else { continue };
        for number in numbers_mut(map) {
            let Some(target) = number.as_u64().and_then(|n| n.checked_sub(base)) else { continue };
            *number = json!(format!("step-{}", target + 1));
        }
    }
}

const DEPENDENCIES: [&str; 6] = ["dependencies", "depends_on", "dependsOn", "needs", "deps", "requires"];

fn numbers_mut(map: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    map.iter_mut()
        .filter(|(key, _)| DEPENDENCIES.contains(&key.as_str()))
        .filter_map(|(_, list)| list.as_array_mut())
        .flatten()
        .filter(|item| item.is_u64())
}

/// From where the numbers count; none when neither way leads to earlier tasks only.
fn base(items: &mut [Value]) -> Option<u64> {
    let mut is_good = [(0, true), (1, true)];
    for (index, item) in items.iter_mut().enumerate() {
        let Some(map) = item.as_object_mut() else { continue };
        for number in numbers_mut(map) {
            let n = number.as_u64().unwrap_or(u64::MAX);
            for (base, is_good) in &mut is_good {
                *is_good &= n.checked_sub(*base).is_some_and(|target| target < index as u64);
            }
        }
    }
    is_good.into_iter().find(|(_, is_good)| *is_good).map(|(base, _)| base)
}
