//! The form `plan_and_execute`: settings that stand beside a plan or a goal.

use serde_json::{Map, Value, json};

use super::actions::revisions;
use super::context::{Conversion, LISTS, goal_object, object_under};
use crate::document::snake;
use crate::validate::{planning_field, step_field};

/// Settings of the planner, in snake case, and their names in a goal's `planning`.
const PLANNING: [(&str, &str); 15] = [
    ("planning_prompt", "prompt"),
    ("prompt_template", "prompt"),
    ("planning_model", "model"),
    ("planning_temperature", "temperature"),
    ("temperature", "temperature"),
    ("max_steps", "max_steps"),
    ("max_subtasks", "max_steps"),
    ("max_decomposition_depth", "max_depth"),
    ("max_depth", "max_depth"),
    ("require_dependencies", "require_dependencies"),
    ("require_fallbacks", "require_fallbacks"),
    ("fallback_after", "fallback_after"),
    ("hierarchical", "strategy"),
    ("structured_output", ""),
    ("enable_streaming", ""),
];

/// Settings of the execution, in snake case.
const EXECUTION: [&str; 16] = [
    "execution_mode", "parallel", "max_concurrent", "step_timeout", "retry_failed_steps", "max_revisions",
    "max_replans", "revision_threshold", "on_subtask_failure", "max_retries", "retry_delay", "subtask_executor",
    "enable_revision", "allow_revision", "revision_strategy", "require_plan_approval",
];

/// Fields of our own plans that may stand beside one.
const BESIDE: [&str; 2] = ["max_parallel", "continue_on_failure"];

/// Whether a field is a setting of this form and nothing else.
pub(super) fn is_setting(key: &str) -> bool {
    let key = snake(key);
    PLANNING.iter().any(|(name, _)| *name == key) || EXECUTION.contains(&key.as_ref())
}

/// Takes the settings out of an object.
///
/// - `is_wrapper`: whether the plan stands inside the object.
pub(super) fn take_settings(map: &mut Map<String, Value>, is_wrapper: bool) -> Map<String, Value> {
    let is_taken = |key: &str| is_setting(key) || is_wrapper && BESIDE.contains(&snake(key).as_ref());
    let keys: Vec<String> = map.keys().filter(|key| is_taken(key)).cloned().collect();
    keys.into_iter().filter_map(|key| map.shift_remove(&key).map(|value| (key, value))).collect()
}

/// What is for the planner goes into the goal's `planning`.
///
/// - `from`: JSON Pointer to where the settings stood.
/// - `outer`: the object there, which holds the goal or is one.
pub(super) fn to_planning(
    conversion: &mut Conversion<'_>,
    settings: &mut Map<String, Value>,
    from: &str,
    outer: &mut Map<String, Value>,
) {
    let mut planning = planning_settings(conversion, settings, from);
    if planning.is_empty() {
        return;
    }
    let key = goal_object(conversion.rewrite, outer, from);
    let Some(target) = object_under(outer, key).and_then(|goal| object_under(goal, "planning")) else { return };
    put(conversion, &mut planning, (target, &format!("{from}/{key}/planning")));
}

/// A setting under its new name, and where it stood.
type TakenSettings = Vec<(&'static str, Value, String)>;

/// What of the settings is for the planner; what no planner here has is noted.
pub(super) fn planning_settings(
    conversion: &mut Conversion<'_>,
    settings: &mut Map<String, Value>,
    from: &str,
) -> TakenSettings {
    let mut taken = TakenSettings::new();
    for (name, ours) in PLANNING {
        let Some(key) = settings.keys().find(|key| snake(key) == name).cloned() else { continue };
        let Some(value) = settings.shift_remove(&key).filter(|value| !value.is_null()) else { continue };
        if ours.is_empty() || planning_field(ours).is_none() {
            conversion.rewrite.note(from, "plan", &key, "no planner has this setting");
            continue;
        }
        let value = match (name, &value) {
            ("hierarchical", Value::Bool(true)) => json!("hierarchical"),
            ("hierarchical", Value::Bool(false)) => json!("flat"),
            _ => value,
        };
        taken.push((ours, value, conversion.rewrite.original(&format!("{from}/{key}"))));
    }
    taken
}

pub(super) fn put(
    conversion: &mut Conversion<'_>,
    taken: &mut TakenSettings,
    (target, at): (&mut Map<String, Value>, &str),
) {
    for (name, value, before) in taken.drain(..) {
        if !target.contains_key(name) {
            target.insert(name.into(), value);
            conversion.rewrite.moved(format!("{at}/{name}"), before);
        }
    }
}

/// What is for the execution goes into the plan; what is for each step waits there for [`spread`].
pub(super) fn to_plan(
    conversion: &mut Conversion<'_>,
    settings: &mut Map<String, Value>,
    from: &str,
    (plan, at): (&mut Map<String, Value>, &str),
) {
    for (key, value) in std::mem::take(settings) {
        if value.is_null() {
            continue;
        }
        let before = conversion.rewrite.original(&format!("{from}/{key}"));
        let place = match snake(&key).as_ref() {
            "execution_mode" if !plan.contains_key("strategy") => keep(plan, "strategy", value),
            "parallel" if value.is_boolean() && !plan.contains_key("strategy") => {
                keep(plan, "strategy", json!(if value == true { "parallel" } else { "sequential" }))
            }
            "max_concurrent" | "max_parallel" if !plan.contains_key("max_parallel") => {
                keep(plan, "max_parallel", value)
            }
            "continue_on_failure" if !plan.contains_key("continue_on_failure") => {
                keep(plan, "continue_on_failure", value)
            }
            "max_revisions" | "max_replans" => {
                let max = revisions(conversion, &value);
                set_revision(plan, "max", max);
                "revision/max"
            }
            "revision_threshold" => {
                set_revision(plan, "threshold", value);
                "revision/threshold"
            }
            "enable_revision" | "allow_revision" if value.is_boolean() => {
                let policy = if value == true { json!({}) } else { json!({ "max": 0 }) };
                plan.entry("revision").or_insert(policy);
                "revision"
            }
            "revision_strategy" => {
                set_revision(plan, "strategy", value);
                "revision/strategy"
            }
            "require_plan_approval" => {
                plan.entry("approval_required").or_insert(value);
                "approval_required"
            }
            "step_timeout" => keep(plan, "step_timeout", value),
            "retry_failed_steps" => keep(plan, "retry_failed_steps", value),
            "on_subtask_failure" => keep(plan, "on_subtask_failure", value),
            "max_retries" => keep(plan, "max_retries", value),
            "retry_delay" => keep(plan, "retry_delay", value),
            "subtask_executor" => keep(plan, "subtask_executor", value),
            _ => {
                conversion.rewrite.note(from, "plan", &key, "the plan says it already, or it says nothing new");
                continue;
            }
        };
        conversion.rewrite.moved(format!("{at}/{place}"), before);
    }
}

/// Sets a field of the revision policy that has none yet.
fn set_revision(plan: &mut Map<String, Value>, field: &str, value: Value) {
    if let Some(revision) = object_under(plan, "revision") {
        revision.entry(field).or_insert(value);
    }
}

fn keep(plan: &mut Map<String, Value>, name: &'static str, value: Value) -> &'static str {
    plan.insert(name.into(), value);
    name
}

/// What every step of a plan gets unless it says otherwise, each with the place where it was said.
#[derive(Default)]
struct StepDefaults {
    fields: Vec<(&'static str, Value, String)>,
    /// Where the parts of `retry` were said.
    retry_places: Vec<(&'static str, String)>,
}

/// Gives the settings for steps to each step that says nothing else.
pub(super) fn spread(conversion: &mut Conversion<'_>, plan: &mut Map<String, Value>, at: &str) {
    let mut defaults = StepDefaults::default();
    let mut take = |name: &str| {
        let value = plan.shift_remove(name).filter(|value| !value.is_null())?;
        Some((value, conversion.rewrite.original(&format!("{at}/{name}"))))
    };
    if let Some((value, before)) = take("step_timeout") {
        defaults.fields.push(("timeout_seconds", value, before));
    }
    let failed = take("on_subtask_failure");
    let mut retry = Map::new();
    let mut retried_at = None;
    if let Some((value, before)) = take("retry_failed_steps") {
        defaults.retry_places.push(("max", before.clone()));
        match value {
            Value::Bool(false) => drop(retry.insert("max".into(), json!(0))),
            Value::Bool(true) => {}
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                drop(retry.insert("max".into(), value));
            }
        }
        retried_at = Some(before);
    }
    if let Some((value, before)) = take("max_retries") {
        retry.insert("max".into(), value);
        defaults.retry_places.push(("max", before.clone()));
        retried_at = Some(before);
    }
    if let Some((value, before)) = take("retry_delay") {
        retry.insert("initial".into(), value);
        defaults.retry_places.push(("initial", before.clone()));
        retried_at = retried_at.or(Some(before));
    }
    if let Some((word, before)) = failed {
        let is_retry = word.as_str().is_some_and(|word| word.eq_ignore_ascii_case("retry"));
        if is_retry {
            retry.insert("backoff".into(), json!("exponential"));
            retried_at = retried_at.or(Some(before.clone()));
        }
        defaults.fields.push(("on_failure", if is_retry { json!("abort") } else { word }, before));
    }
    if let (false, Some(before)) = (retry.is_empty(), retried_at) {
        defaults.fields.push(("retry", Value::Object(retry), before));
    }
    if let Some((executor, before)) = take("subtask_executor") {
        match executor_field(conversion, &executor, &before) {
            Some((field, value)) => defaults.fields.push((field, value, before)),
            None => conversion.rewrite.note(at, "plan", "subtask_executor", "it names no agent"),
        }
    }
    if defaults.fields.is_empty() {
        return;
    }
    each_step(plan, at, &mut |step, at| defaults.give(conversion, step, at));
}

/// What an executor says about each step: who does it, or that a model does.
fn executor_field(conversion: &mut Conversion<'_>, executor: &Value, before: &str) -> Option<(&'static str, Value)> {
    for (at, key) in unused_parts(executor) {
        conversion.rewrite.note_at(&format!("{before}{at}"), "executor", &key, OWN_SETTINGS);
    }
    let with = |name: &str| executor.get("with").and_then(|with| with.get(name)).cloned();
    if let Some(agent) = with("agent").or_else(|| with("agent_type")).or_else(|| with("name")) {
        return Some(("agent_type", agent));
    }
    let action = executor.get("action").or_else(|| executor.get("type")).and_then(Value::as_str);
    (action == Some("llm.call")).then(|| ("kind", json!("llm")))
}

/// Why parts of an executor mean nothing.
const OWN_SETTINGS: &str =
    "an agent has its own model and parameters; choose another agent type, or change its settings";

/// What an executor says beside who does the steps: the object that it stands in, and its name.
fn unused_parts(executor: &Value) -> Vec<(&'static str, String)> {
    let of = |at, object: Option<&Value>, known: &[&str]| -> Vec<(&'static str, String)> {
        let fields = object.and_then(Value::as_object).into_iter().flatten();
        fields.filter(|(key, _)| !known.contains(&key.as_str())).map(|(key, _)| (at, key.clone())).collect()
    };
    let mut unused = of("", Some(executor), &["action", "type", "with"]);
    unused.extend(of("/with", executor.get("with"), &["agent", "agent_type", "name"]));
    unused
}

impl StepDefaults {
    fn give(&self, conversion: &mut Conversion<'_>, step: &mut Map<String, Value>, at: &str) {
        let says = |step: &Map<String, Value>, name: &str| step.keys().any(|key| step_field(key) == step_field(name));
        let is_plan = says(step, "plan");
        for (name, value, before) in &self.fields {
            // A plan inside is done by nobody, and its own steps have their limits.
            if says(step, name) || is_plan && matches!(*name, "agent_type" | "kind" | "timeout_seconds" | "retry") {
                continue;
            }
            if matches!(*name, "kind" | "agent_type") && says(step, "kind") && !is_done_by_agent(step) {
                continue;
            }
            step.insert((*name).into(), value.clone());
            conversion.rewrite.moved(format!("{at}/{name}"), before.clone());
            for (part, before) in self.retry_places.iter().filter(|_| *name == "retry") {
                conversion.rewrite.moved(format!("{at}/retry/{part}"), before.clone());
            }
        }
    }
}

fn is_done_by_agent(step: &Map<String, Value>) -> bool {
    let kind = step.iter().find(|(key, _)| step_field(key) == Some("kind")).and_then(|(_, kind)| kind.as_str());
    kind.is_none_or(|kind| !matches!(kind, "message" | "finish" | "internal" | "plan"))
}

/// Every step of a plan, also those of the plans inside.
fn each_step(plan: &mut Map<String, Value>, at: &str, body: &mut dyn FnMut(&mut Map<String, Value>, &str)) {
    for key in LISTS {
        if let Some(list) = plan.get_mut(key) {
            each_of(list, &format!("{at}/{key}"), body);
        }
    }
    if let Some(Value::Array(phases)) = plan.get_mut("phases") {
        for (index, phase) in phases.iter_mut().enumerate() {
            for key in LISTS {
                if let Some(list) = phase.get_mut(key) {
                    each_of(list, &format!("{at}/phases/{index}/{key}"), body);
                }
            }
        }
    }
}

fn each_of(list: &mut Value, at: &str, body: &mut dyn FnMut(&mut Map<String, Value>, &str)) {
    let mut one = |item: &mut Value, at: &str| {
        let Some(step) = item.as_object_mut() else { return };
        body(step, at);
        if let Some(Value::Object(inner)) = step.get_mut("plan") {
            each_step(inner, &format!("{at}/plan"), body);
        }
    };
    match list {
        Value::Array(items) => {
            items.iter_mut().enumerate().for_each(|(index, item)| one(item, &format!("{at}/{index}")));
        }
        Value::Object(map) => map.iter_mut().for_each(|(id, item)| one(item, &format!("{at}/{id}"))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
