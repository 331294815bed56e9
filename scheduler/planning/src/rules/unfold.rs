//! Unfolds and renders the steps of a rule: a step with `needs_fact` is left out without that fact, one with `unless_fact` with it,
//! and a step with `each` becomes one step for each member of a list, such as the sub-tasks of the goal.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::render::TemplateRenderer;
use super::rule::Rule;

/// The ids that became of a step's id in the rule; none when it is left out.
type Unfolded = BTreeMap<String, Vec<String>>;

/// The rendered plan. When it has more steps than allowed, the lists are not unfolded.
///
/// - `known`: facts and constraints by name.
pub(super) fn unfold(rule: &Rule, known: &Map<String, Value>, steps_max: usize) -> Result<Value, String> {
    let plan = with_lists(rule, known, true)?;
    if steps(&plan).len() <= steps_max { Ok(plan) } else { with_lists(rule, known, false) }
}

fn steps(plan: &Value) -> &[Value] {
    plan.get("steps").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn with_lists(rule: &Rule, known: &Map<String, Value>, unfolds: bool) -> Result<Value, String> {
    let mut unfolded = Unfolded::new();
    let mut rendered = Vec::new();
    for template in steps(&rule.plan) {
        let id = template.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let copies = copies(rule, template, known, unfolds)?;
        let ids = copies.iter().filter_map(|step| Some(step.get("id")?.as_str()?.to_owned())).collect();
        unfolded.insert(id, ids);
        rendered.extend(copies);
    }
    for step in &mut rendered {
        relink(step, &unfolded);
    }
    let mut plan = rule.plan.clone();
    if let Some(fields) = plan.as_object_mut() {
        fields.remove("steps");
    }
    let mut plan = TemplateRenderer::new(known).render_rule_plan(&plan)?;
    plan["steps"] = Value::Array(rendered);
    Ok(plan)
}

/// What becomes of one step of the rule.
fn copies(rule: &Rule, template: &Value, known: &Map<String, Value>, unfolds: bool) -> Result<Vec<Value>, String> {
    let mut template = template.clone();
    let Some(fields) = template.as_object_mut() else { return Ok(vec![template]) };
    let mut knows = |name: &str| Some(known.contains_key(fields.remove(name)?.as_str()?));
    if knows("needs_fact") == Some(false) || knows("unless_fact") == Some(true) {
        return Ok(Vec::new());
    }
    let each = fields.remove("each").filter(|_| unfolds);
    let in_order = fields.remove("in_order").is_some_and(|order| order == true);
    share_inputs(rule, fields);
    let render = TemplateRenderer::new(known);
    let items = match each.map(|list| render.render_rule_plan(&list)).transpose()? {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    if items.is_empty() {
        return render.render_rule_plan(&template).map(|step| vec![step]);
    }
    let id = template.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut copies = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        let mut seen = known.clone();
        seen.insert("item".into(), item);
        seen.insert("index".into(), (index + 1).into());
        let mut step = TemplateRenderer::new(&seen).render_rule_plan(&template)?;
        step["id"] = format!("{id}_{}", index + 1).into();
        if in_order && index > 0 {
            depend(&mut step, format!("{id}_{index}"));
        }
        copies.push(step);
    }
    Ok(copies)
}

/// Adds the inputs that every step of a worker gets.
fn share_inputs(rule: &Rule, step: &mut Map<String, Value>) {
    let is_inline = matches!(step.get("kind").and_then(Value::as_str), Some("message" | "finish" | "internal"));
    if rule.inputs.is_empty() || is_inline {
        return;
    }
    let inputs = step.entry("inputs").or_insert_with(|| json!({}));
    if let Some(inputs) = inputs.as_object_mut() {
        for (name, value) in &rule.inputs {
            inputs.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

fn depend(step: &mut Value, id: String) {
    let Some(fields) = step.as_object_mut() else { return };
    let dependencies = fields.entry("dependencies").or_insert_with(|| json!([]));
    if let Some(list) = dependencies.as_array_mut() {
        list.push(id.into());
    }
}

/// Points dependencies and inputs to the ids that became of their steps.
fn relink(step: &mut Value, unfolded: &Unfolded) {
    let became = |id: &str| unfolded.get(id).cloned().unwrap_or_else(|| vec![id.to_owned()]);
    if let Some(list) = step.get_mut("dependencies").and_then(Value::as_array_mut) {
        *list = list.iter().filter_map(Value::as_str).flat_map(became).map(Value::String).collect();
    }
    if let Some(items) = step.pointer_mut("/for_each/items")
        && let Some((id, rest)) = items.as_str().and_then(reference)
        && let [only] = became(id).as_slice()
    {
        *items = format!("{{{{ steps.{only}.{rest} }}}}").into();
    }
    let Some(inputs) = step.get_mut("inputs").and_then(Value::as_object_mut) else { return };
    let mut linked = Map::new();
    for (name, value) in std::mem::take(inputs) {
        let Some((id, rest)) = value.as_str().and_then(reference) else {
            linked.insert(name, value);
            continue;
        };
        let mut texts: Vec<Value> = became(id).iter().map(|id| format!("{{{{ steps.{id}.{rest} }}}}").into()).collect();
        match texts.len() {
            0 => {}
            1 => drop(linked.insert(name, texts.remove(0))),
            _ => drop(linked.insert(name, Value::Array(texts))),
        }
    }
    *inputs = linked;
}

/// The step and the rest of a text that is one reference: `{{ steps.a.outputs.x }}`.
fn reference(text: &str) -> Option<(&str, &str)> {
    let path = text.strip_prefix("{{")?.strip_suffix("}}")?.trim().strip_prefix("steps.")?;
    let (id, rest) = path.split_once('.')?;
    rest.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_')).then_some((id, rest))
}
