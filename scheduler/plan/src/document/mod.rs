//! Reads what somebody wrote, JSON or YAML, strictly: nothing is guessed, dropped or changed in silence.

mod absent;
mod document_path;
pub mod duration;
mod encoding;
mod fields;
mod stream;
pub mod time;
mod tree;
mod validation_context;

use std::borrow::Cow;

use goalmill_common::goal::INPUTS;
use goalmill_common::json::json_bytes;
use goalmill_common::json_comments::{blank_json_comments, looks_like_json};
use goalmill_common::json_limits;
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use serde::de::DeserializeSeed;
use serde_json::{Map, Value, json};

pub(crate) use document_path::DocumentPath;
pub use document_path::shorten;
pub(crate) use duration::{Unit, milliseconds};
pub use fields::snake;
pub(crate) use fields::{Field, Fields, Table, canonical, count, duration, text, wrong_type};
pub use stream::{JoinedStream, join_stream};
pub(crate) use time::{DocumentZone, ZONE_ALIASES, time};
#[cfg(test)]
pub(crate) use validation_context::seen_places;
pub(crate) use validation_context::{InputsRead, ValidationContext};

use tree::{Tree, TreeReading};

/// How a text is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
    /// JSON when it begins with `{`, `[` or `"`, after any comments of JSON, else YAML.
    #[default]
    Auto,
}

/// Reads a document. Keys stand once, numbers are finite, nesting and size are limited; every error says where.
pub fn parse_document(text: &[u8], format: Format, limits: &Limits) -> Result<Value, Vec<Issue>> {
    if text.len() > limits.plan_bytes_max {
        return Err(vec![too_large(limits)]);
    }
    let text = encoding::utf8(text).map_err(|issue| vec![issue])?;
    let is_json = match format {
        Format::Json => true,
        Format::Yaml => false,
        Format::Auto => looks_like_json(text),
    };
    let text = &*if is_json { blank_json_comments(text) } else { Cow::Borrowed(text) };
    let code = if is_json { "INVALID_JSON" } else { "INVALID_YAML" };
    if text.trim().is_empty() {
        return Err(vec![issue(code, "", "the text is empty", "give a document")]);
    }
    if !is_json && tree::flow_depth(text) > limits.nesting_max * 2 {
        return Err(vec![tree::too_deep(limits, "")]);
    }
    if let Err(wrong) = if is_json { json_limits::check_numbers(text) } else { Ok(()) } {
        let hint = "write it as text, in quotes";
        return Err(vec![issue("INVALID_NUMBER", &wrong.pointer, wrong.detail, hint)]);
    }
    let reading = TreeReading::new(limits, !is_json);
    let tree = Tree::root(&reading);
    let (value, failure) = if is_json {
        let mut json = serde_json::Deserializer::from_str(text);
        let read = tree.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
        split(read.map_err(|e| tree::json_failure(text, &e)))
    } else {
        let read = tree.deserialize(serde_yaml_ng::Deserializer::from_str(text));
        split(read.map_err(|e| tree::yaml_failure(&e)))
    };
    match (reading.finish(failure), value) {
        (issues, Some(value)) if issues.is_empty() => Ok(value),
        // One object a line is no JSON, and may be a stream of steps.
        (issues, _) if is_json && issues.iter().any(|issue| issue.code == "INVALID_JSON") => match join_stream(text) {
            Some(joined) => parse_document(joined.plan.to_string().as_bytes(), Format::Json, limits),
            None => Err(issues),
        },
        (issues, _) => Err(issues),
    }
}

/// The goal that a document with a plan carries: its own field, or at least what the plan says it is for. Constraints,
/// criteria and the like that stand beside it belong to it.
pub fn split_goal(draft: &Value) -> Option<Value> {
    let outer = draft.as_object()?;
    let inner = outer.get("plan").and_then(Value::as_object);
    let find = |name: &str| {
        let mut documents = [Some(outer), inner].into_iter().flatten();
        documents.find_map(|document| document.get(name)).filter(|value| !value.is_null())
    };
    let beside: Vec<(&str, &Value)> = BESIDE.iter().filter_map(|name| Some((*name, find(name)?))).collect();
    let stated = ["goal", "query", "job"].iter().find_map(|name| find(name)).cloned();
    let described = || Some(json!({ "description": find("description").filter(|value| value.is_string())? }));
    let named = || find("name").filter(|value| value.is_string() && !beside.is_empty()).cloned();
    let mut goal = stated.or_else(described).or_else(named).or_else(|| (!beside.is_empty()).then(|| json!("plan")))?;
    if goal.is_string() && !beside.is_empty() {
        goal = json!({ "description": goal });
    }
    if let Value::Object(fields) = &mut goal {
        for (name, value) in beside {
            match (fields.get_mut(name), value) {
                (Some(Value::Object(own)), Value::Object(more)) if name == INPUTS => own.extend(more.clone()),
                (Some(_), _) => {}
                (None, _) => drop(fields.insert(name.into(), value.clone())),
            }
        }
    }
    Some(goal)
}

/// Checks the size of a document that was put together.
pub fn check_size(draft: &Value, limits: &Limits) -> Result<(), Vec<Issue>> {
    if json_bytes(draft) > limits.plan_bytes_max { Err(vec![too_large(limits)]) } else { Ok(()) }
}

/// Adds inputs to those that a plan or a goal has; one of the same name is replaced.
pub fn add_inputs(draft: &mut Value, inputs: Map<String, Value>) {
    if draft.is_array() {
        *draft = json!({ "steps": draft.take() });
    } else if draft.is_string() {
        *draft = json!({ "description": draft.take() });
    }
    let own = draft.as_object_mut().map(|fields| fields.entry(INPUTS).or_insert_with(|| json!({})));
    // Validation refuses what is no object.
    if let Some(Value::Object(own)) = own {
        own.extend(inputs);
    }
}

/// What may stand beside the goal of a document with a plan.
const BESIDE: [&str; 16] = [
    "inputs", "constraints", "success_criteria", "success_criterion", "acceptance_criteria", "criteria",
    "criteria_policy", "deadline", "deadline_ms", "start_at", "start_at_ms", "start_in", "start_in_ms", "tz",
    "time_zone", "timezone",
];

fn split<T, E>(result: Result<T, E>) -> (Option<T>, Option<E>) {
    match result {
        Ok(value) => (Some(value), None),
        Err(error) => (None, Some(error)),
    }
}

fn too_large(limits: &Limits) -> Issue {
    let detail = format!("the document is larger than {} bytes", limits.plan_bytes_max);
    issue("PLAN_TOO_LARGE", "", detail, "split it into plans, or pass large data by reference")
}

pub fn issue(code: &str, pointer: &str, detail: impl Into<String>, hint: impl Into<String>) -> Issue {
    Issue { code: code.into(), pointer: pointer.into(), detail: detail.into(), hint: hint.into() }
}
