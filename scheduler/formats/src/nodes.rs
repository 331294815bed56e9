//! The form `nodes`: nodes and edges by id, and streams of steps.

use std::collections::BTreeSet;

use goalmill_common::document_format::DocumentFormat;
use goalmill_common::text::pointer_part;
use serde_json::{Map, Value, json};

use super::context::Conversion;
use super::{DraftKind, references};
use goalmill_plan::document::snake;
use goalmill_plan::validate::{own_id, step_field};

/// Steps whose order is found from what they refer to.
const STEPS_MAX: usize = 2_000;

/// What a step's `meta` may call the steps that come before it.
const AFTER: [&str; 6] = ["after", "dependencies", "depends_on", "deps", "requires", "needs"];

/// `edges` by id become a list of edges.
pub(super) fn convert_edges(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>, at: &str) {
    let Some(Value::Object(edges)) = map.get("edges") else { return };
    if !edges.values().all(|targets| targets.is_array() || targets.is_string() || targets.is_null()) {
        return;
    }
    let mut list = Vec::new();
    let mut places = Vec::new();
    for (from, targets) in edges {
        let own = format!("{at}/edges/{}", pointer_part(from));
        let items: Vec<(Value, String)> = match targets {
            Value::Array(items) => items.iter().enumerate().map(|(n, to)| (to.clone(), format!("{own}/{n}"))).collect(),
            Value::Null => Vec::new(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                vec![(targets.clone(), own.clone())]
            }
        };
        for (to, place) in items {
            places.push((format!("{at}/edges/{}", list.len()), place.clone(), own.clone()));
            list.push(json!({"from": from, "to": to}));
        }
    }
    drop_named(map, &mut list, &mut places);
    for (n, (_, target, source)) in places.into_iter().enumerate() {
        let place = format!("{at}/edges/{n}");
        let (target, source) = (conversion.rewrite.original(&target), conversion.rewrite.original(&source));
        conversion.rewrite.moved(format!("{place}/to"), target.clone());
        conversion.rewrite.moved(format!("{place}/from"), source);
        conversion.rewrite.moved(place, target);
    }
    map.insert("edges".into(), Value::Array(list));
}

/// Takes out edges that the step itself names among its dependencies.
fn drop_named(map: &Map<String, Value>, list: &mut Vec<Value>, places: &mut Vec<(String, String, String)>) {
    let named = |to: &str| -> Option<&Vec<Value>> {
        let steps = map.get("nodes").or_else(|| map.get("steps"))?;
        let step = if let Value::Object(map) = steps {
            map.get(to)?
        } else if let Value::Array(items) = steps {
            items.iter().find(|item| own_id(item).as_deref() == Some(to))?
        } else {
            return None;
        };
        step.get("dependencies")?.as_array()
    };
    let keeps: Vec<bool> = list
        .iter()
        .map(|edge| {
            let known = edge["to"].as_str().and_then(named);
            known.is_none_or(|known| !known.contains(&edge["from"]))
        })
        .collect();
    let mut keep = keeps.iter();
    list.retain(|_| *keep.next().unwrap_or(&true));
    let mut keep = keeps.iter();
    places.retain(|_| *keep.next().unwrap_or(&true));
}

/// A step of a stream that still stands in its line, and what `meta` says of the order.
pub(super) fn step(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>, at: &str) {
    if !conversion.is(DocumentFormat::Nodes) {
        return;
    }
    let Some(Value::Object(meta)) = map.get("meta") else { return };
    let Some(key) = meta.keys().find(|key| AFTER.contains(&snake(key).as_ref())).cloned() else {
        conversion.rewrite.drop_field(map, at, "step", "meta", "nothing is kept beside a step");
        return;
    };
    let is_alone = meta.len() == 1;
    let after = meta.get(&key).cloned().unwrap_or_default();
    let is_said = map.keys().any(|key| step_field(key) == Some("dependencies"));
    let before = conversion.rewrite.original(&format!("{at}/meta/{key}"));
    if is_alone {
        map.shift_remove("meta");
    } else {
        conversion.rewrite.drop_field(
            map,
            at,
            "step",
            "meta",
            "nothing is kept beside a step but what comes before it",
        );
    }
    if !is_said {
        map.insert("dependencies".into(), after);
        conversion.rewrite.moved(format!("{at}/dependencies"), before);
    }
}

/// Gives an order to steps without edges: what their inputs refer to, else the order of the list; `finish` comes last.
pub(super) fn order(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>) {
    if !conversion.is(DocumentFormat::Nodes) || map.contains_key("edges") || map.contains_key("phases") {
        return;
    }
    let ids = references::ids(map);
    if ids.len() > STEPS_MAX {
        return;
    }
    if let Some(Value::Object(nodes)) = map.get_mut("nodes") {
        let keys: Vec<String> = nodes.keys().cloned().collect();
        arrange(conversion, nodes.values_mut().collect(), &keys, &ids, false);
    } else if let Some(Value::Array(items)) = map.get_mut("steps") {
        arrange(conversion, items.iter_mut().collect(), &[], &ids, true);
    }
}

fn arrange(
    conversion: &mut Conversion<'_>,
    mut steps: Vec<&mut Value>,
    keys: &[String],
    ids: &BTreeSet<String>,
    is_list: bool,
) {
    let names: Vec<Option<String>> =
        steps.iter().enumerate().map(|(n, step)| own_id(step).or_else(|| keys.get(n).cloned())).collect();
    let is_named = |step: &Value| {
        step.as_object().is_some_and(|map| map.keys().any(|key| step_field(key) == Some("dependencies")))
    };
    let says_order = steps.iter().any(|step| is_named(step));
    for step in &mut steps {
        if is_named(step) {
            continue;
        }
        let Some(map) = step.as_object_mut() else { continue };
        let own = own_id(&Value::Object(map.clone()));
        let seen: Vec<String> = references::seen(map, ids).into_iter().filter(|id| Some(id) != own.as_ref()).collect();
        if !seen.is_empty() {
            map.insert("dependencies".into(), json!(seen));
        }
    }
    if is_list && !says_order && conversion.kind != DraftKind::Correction {
        for n in 1..steps.len() {
            if let (Some(before), false) = (&names[n - 1], is_named(steps[n]))
                && let Some(map) = steps[n].as_object_mut()
            {
                map.insert("dependencies".into(), json!([before]));
                conversion.rewrite.is_sequence = true;
            }
        }
    }
    if conversion.kind != DraftKind::Correction {
        finish_last(&mut steps, &names);
    }
}

/// A finish that says nothing waits for every step that no other one waits for.
fn finish_last(steps: &mut [&mut Value], names: &[Option<String>]) {
    let kind = |step: &Value| {
        let map = step.as_object()?;
        map.iter().find(|(key, _)| step_field(key) == Some("kind"))?.1.as_str().map(str::to_owned)
    };
    let is_finish: Vec<bool> = steps.iter().map(|step| kind(step).as_deref() == Some("finish")).collect();
    let needs = |step: &Value| -> Vec<String> {
        let map = step.as_object();
        let list = map.and_then(|map| map.iter().find(|(key, _)| step_field(key) == Some("dependencies")));
        list.and_then(|(_, list)| list.as_array())
            .map(|list| list.iter().filter_map(|id| id.as_str().map(str::to_owned)).collect())
            .unwrap_or_default()
    };
    let waited: BTreeSet<String> = steps.iter().flat_map(|step| needs(step)).collect();
    let last: Vec<&String> = names
        .iter()
        .zip(&is_finish)
        .filter(|(name, is_finish)| !**is_finish && name.as_ref().is_some_and(|name| !waited.contains(name)))
        .filter_map(|(name, _)| name.as_ref())
        .collect();
    for (step, is_finish) in steps.iter_mut().zip(&is_finish) {
        let Some(map) = step.as_object_mut().filter(|_| *is_finish) else { continue };
        if !map.keys().any(|key| step_field(key) == Some("dependencies")) && !last.is_empty() {
            map.insert("dependencies".into(), json!(last));
        }
    }
}
