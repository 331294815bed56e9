//! Goals of other forms, and what belongs to a goal and stands beside a plan.

use goalmill_common::document_format::DocumentFormat;
use goalmill_common::goal::{CUSTOM, GOAL_TYPES, is_goal_type};
use goalmill_common::limits::Limits;
use serde_json::{Map, Value, json};

use super::context::{Conversion, goal_object, object_under};
use super::rewrite::{Rewrite, STATE};
use super::{DraftKind, plan_and_execute};
use goalmill_common::suggest::nearest;
use goalmill_plan::document::snake;
use goalmill_plan::validate::goal_field;

/// What a plan may say of its goal: fields that a goal has, and a plan has not.
const BESIDE: [&str; 9] = [
    "success_criteria", "constraints", "deadline", "deadline_ms", "start_at", "start_in", "tz", "time_zone", "timezone",
];

/// Moves what is said of the goal beside a plan into the goal.
pub(super) fn beside(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>, at: &str) {
    let mut said = Map::new();
    for name in BESIDE {
        if let Some(value) = map.shift_remove(name).filter(|value| !value.is_null()) {
            said.insert(name.into(), value);
        }
    }
    if said.is_empty() {
        return;
    }
    let key = goal_object(conversion.rewrite, map, at);
    let Some(goal) = object_under(map, key) else { return };
    let names: Vec<String> = said.keys().cloned().collect();
    for name in names {
        conversion.rewrite.carry((&mut said, at, &name), (goal, &format!("{at}/{key}"), &name));
    }
}

/// State of a goal, in snake case.
const GOAL_STATE: [&str; 7] =
    ["status", "result", "created_at", "updated_at", "completed_at", "step_count", "progress"];

pub(super) fn convert(document: &mut Value, format: Option<DocumentFormat>, limits: &Limits, rewrite: &mut Rewrite) {
    let is_workflow = goalmill_plan::foreign::is_workflow(document);
    let Some(map) = document.as_object_mut() else { return };
    let mut conversion = Conversion { format, limits, kind: DraftKind::Document, rewrite };
    if is_workflow {
        super::workflow::to_goal(&mut conversion, map);
    }
    // The state of a planner whose goal is an object.
    if let Some(Value::Object(mut inner)) = map.get("goal").cloned() {
        let is_state = map.keys().any(|key| is_planner_state(key));
        if !is_state && map.len() == 1 {
            fields(&mut conversion, &mut inner, "/goal");
            map.insert("goal".into(), Value::Object(inner));
            return;
        }
        if is_state {
            map.shift_remove("goal");
            for (key, value) in inner {
                let place = format!("/{key}");
                map.entry(key.clone()).or_insert(value);
                conversion.rewrite.moved(place, format!("/goal/{key}"));
            }
        }
    }
    fields(&mut conversion, map, "");
}

fn is_planner_state(key: &str) -> bool {
    matches!(snake(key).as_ref(), "session_id" | "transcript" | "memory_snapshot" | "step_count")
}

fn fields(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>, at: &str) {
    let keys: Vec<String> = map.keys().filter(|key| GOAL_STATE.contains(&snake(key).as_ref())).cloned().collect();
    keys.iter().for_each(|key| conversion.rewrite.drop_field(map, at, "goal", key, STATE));
    session(conversion, map, at);
    custom_type(conversion, map, at);
    let mut settings = plan_and_execute::take_settings(map, true);
    let mut planning = plan_and_execute::planning_settings(conversion, &mut settings, at);
    approval(conversion, &mut settings, at, map);
    revision(conversion, &mut settings, at, map);
    execution(conversion, &mut settings, at, map);
    let why = "it is said of a plan, and this is a goal";
    settings.keys().for_each(|key| conversion.rewrite.note(at, "goal", key, why));
    plan_and_execute::put_planning(conversion, &mut planning, (map, at));
    if map.get("goal_id").is_some_and(|id| !id.is_null()) && goal_field("goal_id").is_none() {
        let mut own = Map::new();
        if let Some(id) = map.shift_remove("goal_id") {
            own.insert("goal_id".into(), id);
        }
        if let Some(metadata) = object_under(map, "metadata") {
            conversion.rewrite.carry((&mut own, at, "goal_id"), (metadata, &format!("{at}/metadata"), "goal_id"));
        }
    }
}

/// Other planners have types of their own: one that is no misspelling of ours is a custom type.
fn custom_type(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>, at: &str) {
    if conversion.format.is_none() {
        return;
    }
    let Some(key) = map.keys().find(|key| goal_field(key) == Some("type")).cloned() else { return };
    let Some(given) = map.get(&key).and_then(Value::as_str) else { return };
    let spelled = given.trim().to_lowercase().replace([' ', '-'], "_");
    let own = format!("{CUSTOM}:{spelled}");
    let is_known = is_goal_type(given) || GOAL_TYPES.contains(&spelled.as_str());
    if is_known || nearest(&spelled, GOAL_TYPES).is_some() || !is_goal_type(&own) {
        return;
    }
    conversion.rewrite.note(at, "goal", &key, "it is no type that is known here, and is kept as a custom one");
    map.insert(key, json!(own));
}

/// Whether a person approves the plan before it runs.
fn approval(
    conversion: &mut Conversion<'_>,
    settings: &mut Map<String, Value>,
    at: &str,
    map: &mut Map<String, Value>,
) {
    let Some(key) = settings.keys().find(|key| snake(key) == "require_plan_approval").cloned() else { return };
    let Some(value) = settings.shift_remove(&key).filter(|value| !value.is_null()) else { return };
    let before = conversion.rewrite.original(&format!("{at}/{key}"));
    if let Some(planning) = object_under(map, "planning") {
        planning.entry("require_approval").or_insert(value);
        conversion.rewrite.moved(format!("{at}/planning/require_approval"), before);
    }
}

/// How often and when a plan may be revised is said of a goal too.
fn revision(
    conversion: &mut Conversion<'_>,
    settings: &mut Map<String, Value>,
    at: &str,
    map: &mut Map<String, Value>,
) {
    let keys: Vec<String> = settings.keys().filter(|key| REVISION.contains(&snake(key).as_ref())).cloned().collect();
    let mut own: Map<String, Value> =
        keys.into_iter().filter_map(|key| settings.shift_remove(&key).map(|value| (key, value))).collect();
    if own.is_empty() {
        return;
    }
    let continues = plan_and_execute::continues(settings);
    let Some(planning) = object_under(map, "planning") else { return };
    if continues {
        planning.insert("continue_on_failure".into(), json!(true));
    }
    plan_and_execute::to_plan(conversion, &mut own, at, (planning, &format!("{at}/planning")));
    if continues {
        planning.shift_remove("continue_on_failure");
    }
    if let Some(reaction) = planning.shift_remove("on_subtask_failure") {
        settings.entry("on_subtask_failure").or_insert(reaction);
    }
}

/// Settings of the revisions of a plan, in snake case.
const REVISION: [&str; 6] =
    ["max_revisions", "max_replans", "revision_threshold", "revision_strategy", "enable_revision", "allow_revision"];

/// How the goal's plan is executed, as settings of other forms say it.
fn execution(
    conversion: &mut Conversion<'_>,
    settings: &mut Map<String, Value>,
    at: &str,
    map: &mut Map<String, Value>,
) {
    let mut plan = Map::new();
    let mut own = Map::new();
    let keys: Vec<String> = settings.keys().cloned().collect();
    keys.iter().filter_map(|key| settings.shift_remove(key).map(|value| (key, value))).for_each(|(key, value)| {
        own.insert(key.clone(), value);
    });
    // A workflow executes its plan, whatever it says about that.
    if own.is_empty() && !conversion.is(DocumentFormat::Actions) {
        return;
    }
    // The one step gets what every step of the plan would get.
    plan.insert("steps".into(), json!([{}]));
    plan_and_execute::to_plan(conversion, &mut own, at, (&mut plan, &format!("{at}/execution")));
    if map.get("execution").and_then(|execution| execution.get("strategy")).is_none() {
        super::defaults::set_default_strategy(conversion, &mut plan, at);
    }
    plan_and_execute::spread(conversion, &mut plan, &format!("{at}/execution"));
    let step = plan.get_mut("steps").and_then(|steps| steps.get_mut(0)).and_then(Value::as_object_mut);
    let mut fields = step.map(std::mem::take).unwrap_or_default();
    for name in ["kind", "inputs"] {
        if fields.shift_remove(name).is_some() {
            let before = conversion.rewrite.original(&format!("{at}/execution/subtask_executor"));
            let detail = "planners choose the kind and the prompt of each step";
            let hint =
                "name an agent type with `with: {agent: NAME}`, and say in `prompt_template` what steps are to be";
            conversion.rewrite.refuse("INVALID_VALUE", &before, detail, hint);
        }
    }
    for name in ["strategy", "execution_strategy", "max_parallel", "continue_on_failure"] {
        fields.extend(plan.shift_remove(name).map(|value| (name.to_owned(), value)));
    }
    if fields.is_empty() {
        return;
    }
    let Some(execution) = object_under(map, "execution") else { return };
    for (name, value) in fields {
        for part in ["", "/max", "/initial"] {
            let before = conversion.rewrite.original(&format!("{at}/execution/steps/0/{name}{part}"));
            if !before.starts_with(&format!("{at}/execution/")) {
                conversion.rewrite.moved(format!("{at}/execution/{name}{part}"), before);
            }
        }
        execution.entry(name).or_insert(value);
    }
}

/// The state of a planner: a session with its transcript, its memory and its limits.
fn session(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>, at: &str) {
    let find = |map: &Map<String, Value>, name: &str| map.keys().find(|key| snake(key) == name).cloned();
    let holder = if goal_field("context").is_some() { "context" } else { "metadata" };
    for (name, ours) in [("transcript", "transcript"), ("memory_snapshot", "memory")] {
        let Some(key) = find(map, name) else { continue };
        let mut own = Map::new();
        if let Some(value) = map.shift_remove(&key).filter(|value| !value.is_null()) {
            own.insert(key.clone(), value);
        }
        let Some(target) = object_under(map, holder) else { continue };
        let (target, place) = match holder {
            "context" => (Some(target), format!("{at}/context")),
            _ => (object_under(target, "inputs"), format!("{at}/metadata/inputs")),
        };
        if let Some(target) = target {
            conversion.rewrite.carry((&mut own, at, &key), (target, &place, ours));
        }
    }
    if let Some(key) = find(map, "session_id") {
        let mut own = Map::new();
        if let Some(value) = map.shift_remove(&key).filter(|value| !value.is_null()) {
            own.insert(key.clone(), value);
        }
        if let Some(metadata) = object_under(map, "metadata") {
            conversion.rewrite.carry((&mut own, at, &key), (metadata, &format!("{at}/metadata"), "session_id"));
        }
    }
    let Some(Value::Object(limits)) = map.get("limits").cloned() else { return };
    map.shift_remove("limits");
    for (key, value) in limits {
        let before = conversion.rewrite.original(&format!("{at}/limits/{key}"));
        match snake(&key).as_ref() {
            "max_steps" if goal_knows("max_steps") => {
                if let Some(planning) = object_under(map, "planning") {
                    planning.entry("max_steps").or_insert(value);
                    conversion.rewrite.moved(format!("{at}/planning/max_steps"), before);
                }
            }
            "cost_ceiling" | "max_cost" | "max_tokens" | "token_ceiling" => {
                let ours = if snake(&key).contains("cost") { "cost" } else { "tokens" };
                if let Some(budget) = object_under(map, "budget") {
                    budget.entry(ours).or_insert(value);
                    conversion.rewrite.moved(format!("{at}/budget/{ours}"), before);
                }
            }
            "max_steps" => {
                conversion.rewrite.note(&format!("{at}/limits"), "limits", &key, "no planner has this setting");
            }
            _ => {
                // An unknown field is refused where it stood.
                let limits = map.entry("limits").or_insert_with(|| json!({}));
                if let Some(limits) = limits.as_object_mut() {
                    limits.insert(key, value);
                }
            }
        }
    }
}

fn goal_knows(planning: &str) -> bool {
    goalmill_plan::validate::planning_field(planning).is_some()
}
