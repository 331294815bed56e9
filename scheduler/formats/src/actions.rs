//! The form `actions`: nested subtasks are sub-plans, and the metadata counts revisions.

use goalmill_common::document_format::DocumentFormat;
use serde_json::{Map, Value, json};

use super::context::{Conversion, goal_object, object_under};
use goalmill_plan::validate::planning_field;

/// Keys under which a subtask keeps its own subtasks.
const NESTED: [&str; 4] = ["subtasks", "sub_tasks", "children", "steps"];

/// `strategy` and what the metadata say about revisions.
pub(super) fn convert_strategy(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>, at: &str) {
    if map.get("strategy").and_then(Value::as_str).is_some_and(|word| {
        let word = word.to_ascii_lowercase();
        matches!(word.as_str(), "flat" | "hierarchical" | "iterative")
    }) {
        if planning_field("strategy").is_some() {
            let mut own = Map::new();
            if let Some(word) = map.shift_remove("strategy") {
                own.insert("strategy".into(), json!(word.as_str().unwrap_or_default().to_ascii_lowercase()));
            }
            let key = goal_object(conversion.rewrite, map, at);
            if let Some(planning) = object_under(map, key).and_then(|goal| object_under(goal, "planning")) {
                let target = (planning, format!("{at}/{key}/planning"));
                conversion.rewrite.carry((&mut own, at, "strategy"), (target.0, &target.1, "strategy"));
            }
        } else {
            let why = "the plan is there already, and its strategy of planning changes nothing";
            conversion.rewrite.drop_field(map, at, "plan", "strategy", why);
        }
    }
    if !conversion.is(DocumentFormat::Actions) {
        return;
    }
    let inside = format!("{at}/metadata");
    let Some(Value::Object(mut metadata)) = map.shift_remove("metadata") else { return };
    conversion.drop_state(&mut metadata, &inside, "metadata", &["created_at", "updated_at", "replan_count"]);
    if let Some(max) = metadata.shift_remove("max_replans").filter(|max| !max.is_null()) {
        let max = revisions(conversion, &max);
        let before = conversion.rewrite.original(&format!("{inside}/max_replans"));
        if let Some(revision) = object_under(map, "revision")
            && !revision.contains_key("max")
        {
            revision.insert("max".into(), max);
            conversion.rewrite.moved(format!("{at}/revision/max"), before);
        }
    }
    if !metadata.is_empty() {
        map.insert("metadata".into(), Value::Object(metadata));
    }
}

/// A number of revisions that does not pass the limit of the installation.
pub(super) fn revisions(conversion: &Conversion<'_>, max: &Value) -> Value {
    let limit = u64::from(conversion.limits.revisions_max);
    match max.as_u64() {
        Some(n) if n > limit => json!(limit),
        _ => max.clone(),
    }
}

/// A subtask with subtasks of its own is a step with a plan.
pub(super) fn step(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>, at: &str) {
    if map.contains_key("plan") {
        return;
    }
    let Some(key) = NESTED.into_iter().find(|key| map.get(*key).is_some_and(Value::is_array)) else { return };
    let Some(Value::Array(inner)) = map.shift_remove(key) else { return };
    if inner.is_empty() {
        return;
    }
    let before = conversion.rewrite.original(&format!("{at}/{key}"));
    conversion.rewrite.moved(format!("{at}/plan/steps"), before);
    map.insert("plan".into(), json!({ "steps": inner }));
    let is_said = ["kind", "type", "step_type", "task_type"].iter().any(|name| map.contains_key(*name));
    if !is_said {
        map.insert("kind".into(), json!("plan"));
    }
}
