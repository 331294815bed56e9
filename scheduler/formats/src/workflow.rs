//! Workflows of plan actions: the nodes become a goal, or a plan, with the settings of its planning and execution.

use goalmill_common::text::pointer_part;
use serde_json::{Map, Value, json};

use goalmill_plan::foreign::action_verb as verb;

use super::context::Conversion;

/// The plan that a workflow executes without making it, in an object with the settings of its execution.
pub fn workflow_plan(document: &Value) -> Option<Value> {
    let nodes = document.get("nodes")?.as_array()?;
    if nodes.iter().any(|node| verb(node) == Some("decompose")) {
        return None;
    }
    let node = nodes.iter().find(|node| verb(node) == Some("execute"))?;
    let with = node.get("with")?.as_object()?;
    with.get("plan").filter(|plan| plan.is_object())?;
    let mut plan = Value::Object(with.clone());
    let state = document.get("state").unwrap_or(&Value::Null);
    super::references::texts(&mut plan, &mut |text| *text = render(text, state, &mut |_| {}));
    Some(plan)
}

/// Makes a goal of a workflow; what stands beside its nodes stays.
pub(super) fn to_goal(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>) {
    let Some(Value::Array(nodes)) = map.shift_remove("nodes") else { return };
    let state = map.shift_remove("state").unwrap_or_default();
    map.shift_remove("name");
    let has = |wanted: &str| nodes.iter().any(|node| verb(node) == Some(wanted));
    for (n, node) in nodes.iter().enumerate() {
        let Some(verb) = verb(node) else { continue };
        let known = |key: &str| matches!(key, "name" | "action" | "uses" | "with" | "output");
        for (key, _) in node.as_object().into_iter().flatten().filter(|(key, _)| !known(key)) {
            let detail = format!("`{key}` of a node has no meaning here: the nodes of a workflow run as one goal");
            let hint = "remove it, or write the steps of a plan, which have `when` and `dependencies`";
            conversion.rewrite.refuse("UNKNOWN_FIELD", &format!("/nodes/{n}/{}", pointer_part(key)), detail, hint);
        }
        let with = node.get("with").and_then(Value::as_object).cloned().unwrap_or_default();
        node_fields(conversion, map, (verb, with, &format!("/nodes/{n}/with")), &state);
    }
    if has("replan") {
        map.entry("on_subtask_failure").or_insert_with(|| json!("replan"));
    }
    if !has("execute") {
        // What is only decomposed is not executed before somebody agrees.
        planning_field(map).insert("require_approval".into(), json!(true));
    }
}

/// The parameters of one node become fields of the goal.
fn node_fields(
    conversion: &mut Conversion<'_>,
    map: &mut Map<String, Value>,
    (verb, with, at): (&str, Map<String, Value>, &str),
    state: &Value,
) {
    for (key, mut value) in with {
        if matches!((verb, key.as_str()), ("execute" | "replan" | "status", "plan") | ("status", _)) {
            let why = "the plan is the one that the workflow made, and its state can be asked for at any time";
            conversion.rewrite.note(at, verb, &key, why);
            continue;
        }
        let missing = &mut |name: &str| {
            let detail = format!("the workflow needs `state.{name}`");
            let hint = format!("give it under `state`, or with `--state {name}=…`");
            conversion.rewrite.refuse("MISSING_FIELD", &format!("/state/{}", pointer_part(name)), detail, hint);
        };
        super::references::texts(&mut value, &mut |text| *text = render(text, state, &mut *missing));
        let name = match (verb, key.as_str()) {
            ("decompose", "goal") => "description",
            ("decompose", "model" | "strategy") => {
                planning(conversion, map, at, &key, value);
                continue;
            }
            _ => &key,
        };
        if map.get(name).is_some_and(|first| *first != value) {
            let detail = format!("`{key}` says something else than an earlier node");
            conversion.rewrite.refuse("CONFLICTING_FIELDS", &format!("{at}/{key}"), detail, "say the same in both");
            continue;
        }
        conversion.rewrite.moved(format!("/{name}"), format!("{at}/{key}"));
        map.entry(name).or_insert(value);
    }
}

fn planning_field(map: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let entry = map.entry("planning").or_insert_with(|| json!({}));
    if !entry.is_object() {
        *entry = json!({});
    }
    entry.as_object_mut().expect("it was made an object")
}

fn planning(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>, at: &str, key: &str, value: Value) {
    if goalmill_plan::validate::planning_field(key).is_none() {
        conversion.rewrite.note(at, "workflow", key, "no planner has this setting");
        return;
    }
    planning_field(map).entry(key).or_insert(value);
    conversion.rewrite.moved(format!("/planning/{key}"), format!("{at}/{key}"));
}

/// Fills in `{{ state.x }}` where the state has it.
///
/// - `missing`: gets each name that it does not have.
fn render(text: &str, state: &Value, missing: &mut dyn FnMut(&str)) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find("{{") {
        let Some(close) = rest[open..].find("}}").map(|n| open + n) else { break };
        out.push_str(&rest[..open]);
        let path = rest[open + 2..close].trim().strip_prefix("state.");
        let found = path.and_then(|path| path.split('.').try_fold(state, |value, key| value.get(key)));
        match found {
            Some(Value::String(text)) => out.push_str(text),
            Some(value) => out.push_str(&value.to_string()),
            None => {
                path.into_iter().for_each(&mut *missing);
                out.push_str(&rest[open..close + 2]);
            }
        }
        rest = &rest[close + 2..];
    }
    out.push_str(rest);
    out
}
