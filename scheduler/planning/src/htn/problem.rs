//! Builds the planning problem of a goal: objects, initial state and tasks, filled with the facts of the goal.

use std::collections::BTreeMap;

use goalmill_htn::{PlanningProblem, parse_problem};
use serde_json::{Map, Value};

use super::domain::{DomainObject, GoalDomain, Line};
use crate::rules::TemplateRenderer;

/// Objects, facts and tasks of one problem at most.
const LINES_MAX: usize = 2_000;

/// A problem, and what its objects stand for.
pub(super) struct Posed {
    pub problem: PlanningProblem,
    pub values: BTreeMap<String, Value>,
}

/// - `known`: the facts by name.
pub(super) fn pose(domain: &GoalDomain, known: &Map<String, Value>) -> Result<Posed, String> {
    let mut values: BTreeMap<String, Value> = BTreeMap::new();
    let mut objects = String::new();
    for object in &domain.objects {
        for (name, value) in of_object(object, known)? {
            objects += &format!(" {name} - {}", object.kind);
            values.insert(name, value);
        }
    }
    let init = lines(&domain.init, known)?;
    let tasks = lines(&domain.tasks, known)?;
    if values.len() + init.len() + tasks.len() > LINES_MAX {
        return Err(format!("the goal becomes more than {LINES_MAX} objects, facts and tasks"));
    }
    let text = format!(
        "(define (problem goal) (:domain {}) (:objects{objects})\n (:htn :ordered-subtasks (and {}))\n (:init {}))",
        domain.parsed.name,
        tasks.join(" "),
        init.join(" "),
    );
    let problem =
        parse_problem(&domain.parsed, &text).map_err(|e| format!("the goal becomes no problem: {}", e.detail))?;
    Ok(Posed { problem, values })
}

fn of_object(object: &DomainObject, known: &Map<String, Value>) -> Result<Vec<(String, Value)>, String> {
    let mut found = Vec::new();
    for seen in each(object.each.as_deref(), known)? {
        let render = TemplateRenderer::new(&seen);
        let Some(name) = render.line(&object.name)? else { continue };
        let name = symbol(&name);
        let value = match &object.value {
            None => Value::String(name.clone()),
            Some(value) => {
                let value = render.render_rule_plan(value)?;
                if value.is_null() {
                    continue;
                }
                value
            }
        };
        found.push((name, value));
    }
    Ok(found)
}

/// Lines with an unknown value are left out.
fn lines(lines: &[Line], known: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for line in lines {
        let (over, text) = match line {
            Line::One(text) => (None, text),
            Line::Each(each) => (Some(each.each.as_str()), &each.line),
        };
        for seen in each(over, known)? {
            let symbols = with_symbols(&seen);
            if let Some(line) = TemplateRenderer::new(&symbols).line(text)? {
                found.push(line);
            }
        }
    }
    Ok(found)
}

/// What is seen for each member of the list: the facts, `item`, `index` from 1. Once without a list.
fn each(over: Option<&str>, known: &Map<String, Value>) -> Result<Vec<Map<String, Value>>, String> {
    let Some(over) = over else { return Ok(vec![known.clone()]) };
    let rendered = TemplateRenderer::new(known).render_rule_plan(&Value::String(over.to_owned()))?;
    let items = if let Value::Array(items) = rendered {
        items
    } else if rendered.is_null() {
        Vec::new()
    } else {
        return Err(format!("`{over}` is no list but `{rendered}`; a constraint may be of the wrong kind"));
    };
    let with = |(n, item): (usize, Value)| {
        let mut seen = known.clone();
        seen.insert("item".into(), item);
        seen.insert("index".into(), (n + 1).into());
        seen
    };
    Ok(items.into_iter().enumerate().map(with).collect())
}

/// Texts of an item, as the problem calls them: `item` may be a text, a list of texts or an object of texts.
fn with_symbols(seen: &Map<String, Value>) -> Map<String, Value> {
    let mut seen = seen.clone();
    if let Some(item) = seen.get_mut("item") {
        to_symbols(item);
    }
    seen
}

fn to_symbols(value: &mut Value) {
    match value {
        Value::String(text) => *text = symbol(text),
        Value::Array(items) => items.iter_mut().for_each(to_symbols),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, field)| to_symbols(field)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A word that HDDL can hold: letters, digits and `_`, beginning with a letter.
pub(super) fn symbol(text: &str) -> String {
    let word: String = text.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    if word.starts_with(|c: char| c.is_alphabetic()) { word } else { format!("x{word}") }
}
