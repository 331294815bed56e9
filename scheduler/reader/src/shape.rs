//! Scores values by the shape of plans and steps.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::catalogue::ToolCatalogue;
use crate::node::{Node, NodeKind};

/// Keys under which plans keep their steps, best first.
const LISTS: [&str; 14] = [
    "steps", "plan", "tasks", "actions", "tool_calls", "calls", "function_calls", "nodes", "subtasks", "phases",
    "task_steps", "items", "output", "result",
];

/// Keys that name the action of a step.
pub(crate) const NAMES: [&str; 11] = [
    "action", "tool", "name", "function", "tool_name", "function_name", "api", "api_name", "func", "agent_type",
    "method",
];

/// Other keys that steps have.
const KEYS: [&str; 15] = [
    "id", "step", "description", "task", "title", "thought", "dependencies", "depends_on", "needs", "inputs",
    "arguments", "parameters", "args", "agent", "objective",
];

/// How deep a list of steps may lie below the top of a value.
const DEPTH_MAX: usize = 4;

/// The steps of a value: the items of its list of steps, or the value itself when it is one step.
pub(crate) fn steps<'a>(node: &'a Node, source: &str) -> Vec<&'a Node> {
    steps_in(node, source, &Value::Null).into_iter().map(|(step, _)| step).collect()
}

/// The same with their values, as far as they stand in the value of the whole: dear to make a second time.
pub(crate) fn steps_in<'a, 'v>(node: &'a Node, source: &str, value: &'v Value) -> Vec<(&'a Node, Option<&'v Value>)> {
    match list(node, source, 0) {
        Some(List { items, keys }) => {
            let held = keys.iter().rev().try_fold(value, |value, key| value.get(*key)).and_then(Value::as_array);
            // Of what is cut not every part has a value.
            let held = held.filter(|values| node.whole && values.len() == items.len());
            let values = held.into_iter().flatten().map(Some).chain(std::iter::repeat(None));
            items.iter().zip(values).filter(|(item, _)| item.whole).collect()
        }
        None if node.is_container() && node.whole && (is_step(node, source) || node.call().is_some()) => {
            vec![(node, Some(value).filter(|value| !value.is_null()))]
        }
        None => Vec::new(),
    }
}

/// A list of steps.
struct List<'a, 's> {
    items: &'a [Node],
    /// The keys that lead to it, the outermost last.
    keys: Vec<&'s str>,
}

fn list<'a, 's>(node: &'a Node, source: &'s str, depth: usize) -> Option<List<'a, 's>>
where
    'a: 's,
{
    if let Some(items) = node.list() {
        return Some(List { items, keys: Vec::new() });
    }
    let pairs = node.map().filter(|_| depth < DEPTH_MAX)?;
    LISTS.iter().find_map(|key| {
        let (key, value) = pairs.iter().rev().find(|(k, _)| k.slice(source).eq_ignore_ascii_case(key))?;
        let mut found = list(value, source, depth + 1).filter(|list| list.items.iter().any(Node::is_container))?;
        found.keys.push(key.slice(source));
        Some(found)
    })
}

/// The ids of the steps of a document that holds nothing but a list of steps, each with an id of its own.
pub(crate) fn lone_ids<'a>(node: &'a Node, source: &'a str) -> Option<BTreeSet<&'a str>> {
    let [(key, value)] = node.map()? else { return None };
    let items = value.list().filter(|items| is_list_key(key.slice(source)) && !items.is_empty())?;
    let ids: Option<BTreeSet<&str>> = items.iter().map(|item| item.get("id", source)?.text(source)).collect();
    ids.filter(|ids| ids.len() == items.len())
}

/// Whether plans keep their steps under this key.
pub(crate) fn is_list_key(key: &str) -> bool {
    LISTS.iter().any(|known| key.eq_ignore_ascii_case(known))
}

/// Whether steps have a key of this name.
pub(crate) fn is_step_key(key: &str) -> bool {
    NAMES.iter().chain(&KEYS).any(|known| key.eq_ignore_ascii_case(known))
}

/// Whether a value looks like one step or one call.
pub(crate) fn is_step(node: &Node, source: &str) -> bool {
    match &node.kind {
        NodeKind::Call(_) => true,
        NodeKind::Map(pairs) => pairs.iter().any(|(k, _)| is_step_key(k.slice(source))),
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) | NodeKind::List(_) => false,
    }
}

/// The action a step names.
fn action<'a>(node: &'a Node, source: &'a str) -> Option<&'a str> {
    if let Some(call) = node.call() {
        return Some(call.name.slice(source));
    }
    NAMES.iter().find_map(|key| node.get(key, source)?.text(source))
}

/// How well a value fits what a plan looks like. Guesses count against it.
pub(crate) fn score(node: &Node, source: &str, guesses: usize, catalogue: &ToolCatalogue) -> i64 {
    let steps = steps(node, source);
    let stepped = steps.iter().filter(|s| is_step(s, source)).count();
    let known = steps.iter().filter(|s| action(s, source).is_some_and(|name| catalogue.find(name).is_some())).count();
    let mut score = 0;
    if stepped > 0 {
        score += 100 + 10 * number(stepped) - 10 * number(steps.len() - stepped);
    }
    if node.is_container() {
        score += 5 + number(node.span.len().min(2000)) / 100;
    }
    score + 30 * number(known) - 5 * number(guesses)
}

fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
