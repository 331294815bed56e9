//! Workflows of plan actions: the nodes become a goal, or a plan, with the settings of its planning and execution.

use goalmill_common::problem::Issue;
use serde_json::{Map, Value, json};

use super::context::Conversion;
use crate::document::issue;

/// Whether a document is a workflow of plan actions.
pub fn is_workflow(document: &Value) -> bool {
    let nodes = document.get("nodes").and_then(Value::as_array);
    nodes.is_some_and(|nodes| nodes.iter().any(|node| verb(node).is_some()))
}

/// `decompose`, `execute`, `replan` or `status`.
fn verb(node: &Value) -> Option<&str> {
    let verb = node.get("action")?.as_str()?.strip_prefix("plan.")?;
    matches!(verb, "decompose" | "execute" | "replan" | "status").then_some(verb)
}

/// The plan that a workflow executes without making it, in an object with the settings of its execution.
pub fn workflow_plan(document: &Value) -> Option<Value> {
    let nodes = document.get("nodes")?.as_array()?;
    if nodes.iter().any(|node| verb(node) == Some("decompose")) {
        return None;
    }
    let node = nodes.iter().find(|node| verb(node) == Some("execute"))?;
    let with = node.get("with")?.as_object()?;
    with.get("plan").filter(|plan| plan.is_object())?;
    Some(Value::Object(with.clone()))
}

/// What a goal that comes from a workflow still needs.
pub fn missing_state(description: &str) -> Option<Issue> {
    let open = description.find("{{")?;
    let name = description[open + 2..].trim_start().strip_prefix("state.")?;
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(name.len());
    let name = &name[..end];
    let hint = format!("give it under `state`, or with `--state {name}=…`");
    Some(issue("MISSING_FIELD", &format!("/state/{name}"), format!("the workflow needs `state.{name}`"), hint))
}

/// Makes a goal of a workflow; what stands beside its nodes stays.
pub(super) fn to_goal(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>) {
    let Some(Value::Array(nodes)) = map.shift_remove("nodes") else { return };
    let state = map.shift_remove("state").unwrap_or_default();
    map.shift_remove("name");
    let mut is_executed = false;
    for (n, node) in nodes.iter().enumerate() {
        let at = format!("/nodes/{n}/with");
        let Some(verb) = verb(node) else {
            conversion.rewrite.note("", "workflow", "nodes", "only nodes of plan actions mean something here");
            continue;
        };
        let known = |key: &str| matches!(key, "name" | "action" | "uses" | "with" | "output");
        let others = node.as_object().into_iter().flatten().filter(|(key, _)| !known(key));
        others.for_each(|(key, _)| {
            conversion.rewrite.note(&format!("/nodes/{n}"), "node", key, "the workflow runs as one goal");
        });
        is_executed |= verb == "execute";
        let with = node.get("with").and_then(Value::as_object).cloned().unwrap_or_default();
        for (key, mut value) in with {
            super::references::texts(&mut value, &mut |text| *text = render(text, &state));
            let name = match (verb, key.as_str()) {
                ("decompose", "goal") => "description",
                ("decompose", "model" | "strategy") => {
                    planning(conversion, map, &at, &key, value);
                    continue;
                }
                ("execute" | "replan" | "status", "plan") | ("status", _) => {
                    let why = "the plan is the one that the workflow made, and its state can be asked for at any time";
                    conversion.rewrite.note(&at, verb, &key, why);
                    continue;
                }
                _ => &key,
            };
            if map.get(name).is_some_and(|first| *first != value) {
                conversion.rewrite.note(&at, verb, &key, "an earlier node says something else");
                continue;
            }
            conversion.rewrite.moved(format!("/{name}"), format!("{at}/{key}"));
            map.entry(name).or_insert(value);
        }
    }
    if !is_executed {
        // What is only decomposed is not executed before somebody agrees.
        planning_field(map).insert("require_approval".into(), json!(true));
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
    if crate::validate::planning_field(key).is_none() {
        conversion.rewrite.note(at, "workflow", key, "no planner has this setting");
        return;
    }
    planning_field(map).entry(key).or_insert(value);
    conversion.rewrite.moved(format!("/planning/{key}"), format!("{at}/{key}"));
}

/// Fills in `{{ state.x }}` where the state has it.
fn render(text: &str, state: &Value) -> String {
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
            None => out.push_str(&rest[open..close + 2]),
        }
        rest = &rest[close + 2..];
    }
    out.push_str(rest);
    out
}
