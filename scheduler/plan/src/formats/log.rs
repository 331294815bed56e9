//! The log of a plan in the form `phases`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// The types of that form's log, by ours; other events have no entry there.
const TYPES: [(&str, &str); 18] = [
    ("goal_accepted", "session_started"),
    ("plan_created", "plan_created"),
    ("phase_added", "phase_added"),
    ("phase_started", "phase_started"),
    ("phase_completed", "phase_completed"),
    ("phase_skipped", "phase_completed"),
    ("phase_failed", "phase_failed"),
    ("step_added", "step_added"),
    ("step_modified", "step_modified"),
    ("step_removed", "step_removed"),
    ("step_started", "step_started"),
    ("step_completed", "step_completed"),
    ("step_failed", "step_failed"),
    ("step_skipped", "step_skipped"),
    ("step_cancelled", "step_skipped"),
    ("plan_completed", "session_completed"),
    ("plan_failed", "session_failed"),
    ("plan_cancelled", "session_failed"),
];

/// Writes events, as `GET /v1/events` gives them and in their order, as log entries of the form `phases`.
pub fn log_entries(events: &[Value]) -> Vec<Value> {
    // What an attempt received is told when it is queued, and belongs to the entry of its start there.
    let mut inputs: BTreeMap<String, Value> = BTreeMap::new();
    // Plans that are being revised: what ends it without a revision is an end there too.
    let mut in_revision: BTreeSet<&str> = BTreeSet::new();
    let mut entries = Vec::new();
    for event in events {
        let attempt = format!("{}/{}/{}", event["plan_id"], event["step_id"], event["attempt"]);
        if event["type"] == "step_queued" {
            let given = event.pointer("/data/inputs").filter(|inputs| !inputs.is_null());
            inputs.extend(given.map(|given| (attempt, given.clone())));
            continue;
        }
        let name = event["type"].as_str().unwrap_or_default();
        let plan = event["plan_id"].as_str().unwrap_or_default();
        let theirs = match name {
            "replan_triggered" => in_revision.insert(plan).then_some(name),
            "plan_revised" | "planning_failed" | "plan_resumed" => {
                let was_open = in_revision.remove(plan);
                (was_open || name == "plan_revised").then_some("replan_completed")
            }
            _ => TYPES.iter().find(|(ours, _)| *ours == name).map(|(_, theirs)| *theirs),
        };
        entries.extend(theirs.map(|theirs| entry(event, name, theirs, inputs.get(&attempt))));
    }
    entries
}

fn entry(event: &Value, name: &str, theirs: &str, input: Option<&Value>) -> Value {
    let plan = event["plan_id"].as_str().unwrap_or_default();
    let mut entry = Map::new();
    entry.insert("id".into(), json!(format!("{plan}-{}", event["seq"])));
    entry.insert("logId".into(), json!(plan));
    entry.insert("timestamp".into(), event["time"].clone());
    entry.insert("eventType".into(), json!(theirs));
    entry.insert("planId".into(), json!(plan));
    for (places, key) in [(["/phase", "/data/phase"], "phaseId"), (["/step_id", "/step_id"], "stepId")] {
        if let Some(id) = places.iter().find_map(|place| event.pointer(place)).filter(|id| id.is_string()) {
            entry.insert(key.into(), id.clone());
        }
    }
    entry.insert("data".into(), Value::Object(data(event, name, input)));
    Value::Object(entry)
}

fn data(event: &Value, name: &str, input: Option<&Value>) -> Map<String, Value> {
    let mut rest = event.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut data = Map::new();
    if let Some(input) = input {
        data.insert("input".into(), input.clone());
    }
    if let Some(outputs) = rest.shift_remove("outputs") {
        data.insert("output".into(), outputs);
    }
    let usage = rest.shift_remove("usage");
    let total = rest.shift_remove("tokens").and_then(|tokens| tokens.as_u64());
    if usage.is_some() || total.is_some() {
        let part = |names: [&str; 2]| names.iter().find_map(|name| usage.as_ref()?.get(*name).and_then(Value::as_u64));
        let (prompt, completion) = (part(["prompt", "prompt_tokens"]), part(["completion", "completion_tokens"]));
        let total = total.or_else(|| Some(prompt? + completion?));
        data.insert("tokensUsed".into(), json!({"prompt": prompt, "completion": completion, "total": total}));
    }
    if let Some(ms) = rest.shift_remove("duration_ms") {
        data.insert("durationMs".into(), ms);
    }
    if name == "planning_failed" {
        let reason = rest.shift_remove("reason").unwrap_or_default();
        data.insert("error".into(), json!({"message": reason, "code": "PLANNING_FAILED", "stack": null}));
    }
    if let Some(failure) = rest.shift_remove("failure").filter(|failure| !failure.is_null()) {
        let field = |name: &str| failure.get(name).cloned().unwrap_or(Value::Null);
        data.insert("error".into(), json!({"message": field("message"), "code": field("code"), "stack": null}));
    }
    for (key, value) in [("type", json!(name)), ("seq", event["seq"].clone()), ("attempt", event["attempt"].clone())] {
        if !value.is_null() {
            rest.insert(key.into(), value);
        }
    }
    data.insert("metadata".into(), Value::Object(rest));
    data
}
