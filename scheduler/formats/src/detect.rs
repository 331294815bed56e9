//! Recognises the form of a document by its marks.

use serde_json::{Map, Value};

use goalmill_plan::foreign::{has_steps, is_workflow};

use super::DocumentFormat;
use super::plan_and_execute::is_setting;
use goalmill_plan::document::snake;

/// Steps that are looked at for marks.
const LOOKED_AT: usize = 50;

/// The form of a plan; none for our own form, and for what has no marks.
pub(super) fn detect_format(draft: &Value) -> Option<DocumentFormat> {
    match draft {
        Value::Array(_) => steps(draft, "steps"),
        Value::Object(map) => {
            let inner = map.get("plan").filter(|inner| inner.is_object() || inner.is_array());
            match inner {
                Some(inner) if !has_steps(map) => detect_format(inner).or_else(|| object(map)),
                Some(_) | None => object(map),
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The form of a goal.
pub(super) fn goal(draft: &Value) -> Option<DocumentFormat> {
    let map = draft.as_object()?;
    if is_workflow(draft) {
        return Some(DocumentFormat::Actions);
    }
    let has = |names: &[&str]| map.keys().any(|key| names.contains(&snake(key).as_ref()));
    if has(&["session_id", "transcript", "memory_snapshot", "step_count"]) {
        return Some(DocumentFormat::Nodes);
    }
    if has(&["goal_id"]) {
        return Some(DocumentFormat::Subtasks);
    }
    let listed = map.get("constraints").and_then(Value::as_array);
    if listed.is_some_and(|list| list.iter().any(|item| item.get("type").is_some() && item.get("value").is_some())) {
        return Some(DocumentFormat::Subtasks);
    }
    map.keys().any(|key| is_setting(key)).then_some(DocumentFormat::PlanAndExecute)
}

fn object(map: &Map<String, Value>) -> Option<DocumentFormat> {
    let has = |names: &[&str]| map.keys().any(|key| names.contains(&snake(key).as_ref()));
    if map.get("edges").is_some_and(Value::is_object) || map.get("nodes").is_some_and(Value::is_object) {
        return Some(DocumentFormat::Nodes);
    }
    if map.get("phases").and_then(Value::as_array).is_some_and(|phases| phases.iter().any(is_phase)) {
        return Some(DocumentFormat::Phases);
    }
    let word = map.get("strategy").and_then(Value::as_str).unwrap_or_default();
    let metadata = |name: &str| map.get("metadata").is_some_and(|metadata| metadata.get(name).is_some());
    if matches!(word, "flat" | "hierarchical" | "iterative") || metadata("replan_count") || metadata("max_replans") {
        return Some(DocumentFormat::Actions);
    }
    if has(&["goal_id", "execution_strategy", "estimated_total_duration", "confidence_score", "alternative_plans"]) {
        return Some(DocumentFormat::Subtasks);
    }
    let found = ["subtasks", "sub_tasks", "tasks", "steps", "nodes"]
        .iter()
        .find_map(|name| map.get(*name).and_then(|list| steps(list, name)));
    if found.is_some() {
        return found;
    }
    let is_configured = map.contains_key("success_criteria") || map.keys().any(|key| is_setting(key));
    if has(&["estimated_total_tokens"]) || is_configured && map.contains_key("steps") {
        return Some(DocumentFormat::PlanAndExecute);
    }
    let is_contract = map.contains_key("planId") && map.get("steps").is_some_and(Value::is_array);
    is_contract.then_some(DocumentFormat::Nodes)
}

fn is_phase(phase: &Value) -> bool {
    let Some(map) = phase.as_object() else { return false };
    let marks = ["replan_checkpoint", "plan_id", "order", "status"];
    map.keys().any(|key| marks.contains(&snake(key).as_ref()))
        || map.get("steps").and_then(|list| steps(list, "phases")).is_some()
}

/// The form that the fields of steps tell.
fn steps(list: &Value, under: &str) -> Option<DocumentFormat> {
    let items: Vec<&Value> = match list {
        Value::Array(items) => items.iter().take(LOOKED_AT).collect(),
        Value::Object(map) => map.values().take(LOOKED_AT).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    let any = |names: &[&str]| {
        let keys = items.iter().filter_map(|item| item.as_object()).flat_map(Map::keys);
        keys.into_iter().any(|key| names.contains(&snake(key).as_ref()))
    };
    let nested = |item: &&Value| ["subtasks", "sub_tasks", "children"].iter().any(|name| item.get(*name).is_some());
    if items.iter().any(nested) {
        return Some(DocumentFormat::Actions);
    }
    if any(&["tool_id"]) {
        return Some(DocumentFormat::Nodes);
    }
    if any(&["phase_id"]) && any(&["tool_name", "config", "order"])
        || under == "phases" && any(&["config", "tool_name"])
    {
        return Some(DocumentFormat::Phases);
    }
    if any(&["fallback_action", "estimated_tokens"]) || any(&["parameters"]) && any(&["expected_output"]) {
        return Some(DocumentFormat::PlanAndExecute);
    }
    if any(&["estimated_duration_seconds"]) || any(&["task_id"]) && any(&["expected_outputs", "status", "retry_policy"])
    {
        return Some(DocumentFormat::Subtasks);
    }
    if matches!(under, "subtasks" | "sub_tasks") && any(&["result", "status"]) {
        return Some(DocumentFormat::Actions);
    }
    let unnamed = |item: &&Value| ["id", "task_id", "step_id", "name"].iter().all(|key| item.get(*key).is_none());
    (under == "tasks" && !items.is_empty() && items.iter().all(unnamed)).then_some(DocumentFormat::Subtasks)
}
