//! Converts the solution of the search into plan steps with causal dependencies, without bookkeeping actions.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::plan::Step;
use goalmill_htn::{Dependencies, Solution};
use serde_json::{Map, Value, json};

use super::domain::{ActionStep, GoalDomain};
use super::problem::symbol;
use crate::rules::TemplateRenderer;

/// What a step of the plan comes from.
struct Source<'a> {
    id: String,
    step: &'a ActionStep,
    /// The action's parameters by name, as steps call them.
    arguments: Map<String, Value>,
}

/// - `known`: the facts by name.
/// - `values`: what the problem's objects stand for.
pub(super) fn steps(
    domain: &GoalDomain,
    known: &Map<String, Value>,
    values: &BTreeMap<String, Value>,
    solution: &Solution,
    found: &Dependencies,
) -> Result<Vec<Step>, String> {
    let sources = sources(domain, values, solution);
    let shown = shown(&sources, found);
    let mut steps = Vec::new();
    for (n, source) in sources.iter().enumerate() {
        let Some(source) = source else { continue };
        let mut seen = known.clone();
        seen.extend(source.arguments.clone());
        seen.insert("made".into(), made(n, &sources, &shown, found));
        let rendered = TemplateRenderer::new(&seen).render_rule_plan(&template(source.step))?;
        let mut dependencies: BTreeSet<usize> = shown[n].clone();
        dependencies.extend(mentioned(&rendered, &sources, n));
        let ids: Vec<&str> = dependencies.iter().filter_map(|d| sources[*d].as_ref()).map(|s| s.id.as_str()).collect();
        let mut fields = if let Value::Object(fields) = rendered { fields } else { Map::new() };
        fields.insert("id".into(), source.id.clone().into());
        fields.insert("dependencies".into(), json!(ids));
        let step = serde_json::from_value(Value::Object(fields)).map_err(|e| format!("step `{}`: {e}", source.id))?;
        steps.push(step);
    }
    Ok(steps)
}

/// For each action its step; none for bookkeeping.
fn sources<'a>(
    domain: &'a GoalDomain,
    values: &BTreeMap<String, Value>,
    solution: &Solution,
) -> Vec<Option<Source<'a>>> {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut sources = Vec::new();
    for node in solution.actions().map(|n| &solution.nodes[n]) {
        let Some(step) = domain.actions.get(&node.task) else {
            sources.push(None);
            continue;
        };
        let words = std::iter::once(&node.task).chain(&node.arguments);
        let base = words.map(|w| symbol(w).to_lowercase()).collect::<Vec<_>>().join("_");
        let mut id = base.clone();
        for n in 2.. {
            if taken.insert(id.clone()) {
                break;
            }
            id = format!("{base}_{n}");
        }
        let parameters = domain.parsed.actions.iter().find(|a| a.name == node.task).map(|a| &a.parameters);
        let names = parameters.into_iter().flatten().map(|p| p.name.trim_start_matches('?').to_owned());
        let arguments = names.zip(&node.arguments).map(|(name, object)| {
            let value = values.get(object).cloned().unwrap_or_else(|| object.clone().into());
            (name, value)
        });
        sources.push(Some(Source { id, step, arguments: arguments.collect() }));
    }
    sources
}

/// What each action waits for, where bookkeeping hands on what it waits for itself.
fn shown(sources: &[Option<Source>], found: &Dependencies) -> Vec<BTreeSet<usize>> {
    let mut shown: Vec<BTreeSet<usize>> = Vec::with_capacity(sources.len());
    for before in &found.before {
        let mut own = BTreeSet::new();
        for other in before {
            match sources[*other] {
                Some(_) => drop(own.insert(*other)),
                None => own.extend(shown[*other].iter().copied()),
            }
        }
        shown.push(own);
    }
    shown
}

/// By predicate that the action reads: the steps that made it so, in their order.
fn made(n: usize, sources: &[Option<Source>], shown: &[BTreeSet<usize>], found: &Dependencies) -> Value {
    let mut made: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for link in found.links.iter().filter(|l| l.consumer == n && l.holds) {
        let predicate = link.fact.trim_matches(['(', ')']).split(' ').next().unwrap_or_default();
        let makers = made.entry(symbol(predicate)).or_default();
        match sources[link.producer] {
            Some(_) => drop(makers.insert(link.producer)),
            None => makers.extend(shown[link.producer].iter().copied()),
        }
    }
    let ids = |makers: BTreeSet<usize>| {
        makers.into_iter().filter_map(|m| sources[m].as_ref()).map(|s| Value::from(s.id.clone())).collect::<Value>()
    };
    Value::Object(made.into_iter().map(|(predicate, makers)| (predicate, ids(makers))).collect())
}

fn template(step: &ActionStep) -> Value {
    let mut fields = step.step.clone();
    fields.insert("agent_type".into(), step.agent_type.to_string().into());
    fields.insert("action".into(), step.action.clone().into());
    fields.insert("description".into(), step.description.clone().into());
    fields.insert("expected_outputs".into(), step.expected_outputs.clone().into());
    if !step.inputs.is_null() {
        fields.insert("inputs".into(), step.inputs.clone());
    }
    if !step.estimates.is_null() {
        fields.insert("estimates".into(), step.estimates.clone());
    }
    Value::Object(fields)
}

/// Earlier steps whose outputs the fields of a step use: an expression sees direct dependencies only.
fn mentioned(fields: &Value, sources: &[Option<Source>], n: usize) -> Vec<usize> {
    let fields = ["inputs", "for_each", "when", "undo", "wait", "repeat"].map(|name| fields[name].to_string());
    let text = fields.concat();
    let used: BTreeSet<&str> = text
        .split("steps.")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
        .collect();
    (0..n).filter(|m| sources[*m].as_ref().is_some_and(|s| used.contains(s.id.as_str()))).collect()
}
