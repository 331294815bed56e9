//! The form `plan_and_execute`: settings that stand beside a plan or a goal.

use serde_json::{Map, Value, json};

use super::actions::revisions;
use super::context::{Conversion, LISTS, goal_object, object_under};
use super::{executor, prompts};
use goalmill_plan::document::snake;
use goalmill_plan::validate::{goal_field, plan_field, planning_field, step_field};

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
    let Some(goal) = object_under(outer, key) else { return };
    put_planning(conversion, &mut planning, (goal, &format!("{from}/{key}")));
}

/// Puts settings of the planner into the `planning` of a goal, its prompt filled in.
pub(super) fn put_planning(
    conversion: &mut Conversion<'_>,
    taken: &mut TakenSettings,
    (goal, at): (&mut Map<String, Value>, &str),
) {
    if taken.is_empty() {
        return;
    }
    let prompt = taken.iter().find(|(name, _, _)| *name == "prompt").map(|(_, _, before)| before.clone());
    let description = goal.iter().find(|(key, _)| goal_field(key) == Some("description")).map(|(_, text)| text);
    let description = description.and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(target) = object_under(goal, "planning") else { return };
    put(conversion, taken, (target, &format!("{at}/planning")));
    if let Some(place) = prompt {
        prompts::planning_prompt(conversion, target, &place, &description);
    }
}

/// A setting under its new name, and where it stood.
pub(super) type TakenSettings = Vec<(&'static str, Value, String)>;

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

fn put(conversion: &mut Conversion<'_>, taken: &mut TakenSettings, (target, at): (&mut Map<String, Value>, &str)) {
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
    let mut is_revised = None;
    for (key, value) in std::mem::take(settings) {
        if value.is_null() {
            continue;
        }
        let name = snake(&key).into_owned();
        let value = match (name.as_str(), value) {
            ("parallel", Value::Bool(is_parallel)) => json!(if is_parallel { "parallel" } else { "sequential" }),
            ("max_revisions" | "max_replans", max) => revisions(conversion, &max),
            ("enable_revision" | "allow_revision", Value::Bool(false)) => json!(0),
            (_, value) => value,
        };
        if let Some(says) = asks_for_revisions(&name, &value) {
            is_revised = Some(is_revised.unwrap_or(true) && says);
        }
        let Some(place) = place_in_plan(&name, &value) else { continue };
        let before = conversion.rewrite.original(&format!("{from}/{key}"));
        match set_plan_field(plan, place, value) {
            Ok(()) => conversion.rewrite.moved(format!("{at}/{place}"), before),
            Err(first) => {
                let detail = format!("`{key}` says something else than the plan, which has {first}");
                conversion.rewrite.refuse(
                    "CONFLICTING_FIELDS",
                    &before,
                    detail,
                    "say the same in both, or leave one out",
                );
            }
        }
    }
    if is_revised == Some(true) && !plan.contains_key("on_subtask_failure") && !continues(plan) {
        plan.insert("on_subtask_failure".into(), json!("replan"));
        let what = "is `replan` for steps that say nothing else, because the document asks for revisions";
        let hint = "say `on_subtask_failure: abort`, or `on_failure` of a step, to have it otherwise".to_owned();
        conversion.rewrite.note_default(from, "on_failure", what, hint);
    }
}

/// Whether failed steps let the plan continue: then their share alone asks for a revision.
pub(super) fn continues(fields: &Map<String, Value>) -> bool {
    fields.iter().any(|(key, value)| plan_field(key) == Some("continue_on_failure") && *value == Value::Bool(true))
}

/// Whether a setting asks for revisions of a plan whose steps fail, or forbids them.
pub(super) fn asks_for_revisions(name: &str, value: &Value) -> Option<bool> {
    match name {
        "max_revisions" | "max_replans" | "enable_revision" | "allow_revision" => Some(*value != json!(0)),
        "revision_strategy" => Some(true),
        _ => None,
    }
}

/// Where in the plan a setting is said; none if it says nothing about the plan.
fn place_in_plan(name: &str, value: &Value) -> Option<&'static str> {
    Some(match name {
        "execution_mode" | "parallel" => "execution_strategy",
        "max_concurrent" | "max_parallel" => "max_parallel",
        "continue_on_failure" => "continue_on_failure",
        "enable_revision" | "allow_revision" if *value == Value::Bool(true) => return None,
        "max_revisions" | "max_replans" | "enable_revision" | "allow_revision" => "revision/max",
        "revision_threshold" => "revision/threshold",
        "revision_strategy" => "revision/strategy",
        "require_plan_approval" => "approval_required",
        // A field of our own, and what is for each step.
        name => EXECUTION.iter().find(|known| **known == name)?,
    })
}

/// Says something at a place of a plan; what is said there already, if that is something else.
fn set_plan_field(plan: &mut Map<String, Value>, place: &'static str, value: Value) -> Result<(), Value> {
    if let Some(field) = place.strip_prefix("revision/") {
        let said = plan.get("revision").is_some_and(|revision| !revision.is_object());
        let Some(revision) = object_under(plan, "revision").filter(|_| !said) else { return Ok(()) };
        let first = revision.entry(field).or_insert_with(|| value.clone());
        return if *first == value { Ok(()) } else { Err(first.clone()) };
    }
    let is_planning = |said: &Value| matches!(said.as_str(), Some("flat" | "hierarchical" | "iterative"));
    let is_same = |key: &str| plan_field(key).is_some() && plan_field(key) == plan_field(place) || key == place;
    match plan.iter().find(|(key, said)| is_same(key) && !said.is_null() && !is_planning(said)) {
        Some((_, said)) if *said != value => Err(said.clone()),
        Some(_) => Ok(()),
        None => {
            plan.insert(place.into(), value);
            Ok(())
        }
    }
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
        defaults.fields.extend(executor::executor_fields(conversion, &executor, &before));
    }
    if defaults.fields.is_empty() {
        return;
    }
    each_step(plan, at, &mut |step, at| defaults.apply_to_step(conversion, step, at));
}

impl StepDefaults {
    fn apply_to_step(&self, conversion: &mut Conversion<'_>, step: &mut Map<String, Value>, at: &str) {
        let says = |step: &Map<String, Value>, name: &str| step.keys().any(|key| step_field(key) == step_field(name));
        let is_plan = says(step, "plan");
        for (name, value, before) in &self.fields {
            // No agent does a plan inside, and its own steps have their limits.
            if is_plan && matches!(*name, "agent_type" | "kind" | "timeout_seconds" | "retry" | executor::PROMPT)
                || matches!(*name, "kind" | "agent_type" | executor::PROMPT) && !is_done_by_agent(step)
            {
                continue;
            }
            if *name == executor::PROMPT {
                executor::give_prompt(conversion, step, at, (value, before));
                continue;
            }
            if says(step, name) {
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
