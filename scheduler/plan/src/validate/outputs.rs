//! The expected outputs of a step: names, words or a schema.

use goalmill_common::plan::Step;
use serde_json::Value;

use super::schema;
use crate::document::{DocumentPath, Field, Fields, text, wrong_type};

/// Names are a contract, and so is a schema; words describe what is expected, unless `strict_outputs` makes a name of them.
pub(super) fn expected_outputs(fields: &Fields<'_, '_>, step: &mut Step) {
    let is_strict = fields.flag("strict_outputs").unwrap_or(false);
    if let Some(field) = fields.get("expected_output") {
        match field.value {
            Value::String(name) if is_strict && is_name(name) => step.expected_outputs.push(name.clone()),
            Value::String(_) => step.expected_output = fields.text("expected_output").unwrap_or_default(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                names_or_schema(fields, field, step);
            }
        }
    }
    if let Some(field) = fields.get("expected_outputs") {
        names_or_schema(fields, field, step);
    }
}

fn names_or_schema(fields: &Fields<'_, '_>, field: Field<'_>, step: &mut Step) {
    let at = fields.at.key(field.key);
    let mut take = |at: &DocumentPath<'_>, value: &Value| match value {
        Value::String(name) if is_name(name) => step.expected_outputs.push(name.clone()),
        Value::String(words) => {
            if text(fields.context, at, value).is_some() {
                if !step.expected_output.is_empty() {
                    step.expected_output.push_str("; ");
                }
                step.expected_output.push_str(words);
            }
        }
        Value::Object(map) if map.get("name").is_some_and(|n| n.as_str().is_some_and(is_name)) => {
            step.expected_outputs.extend(map["name"].as_str().map(str::to_owned));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            wrong_type(fields.context, at, value, "the name of an output");
        }
    };
    match field.value {
        Value::Array(items) => items.iter().enumerate().for_each(|(i, item)| take(&at.item(i), item)),
        Value::Object(map) if map.values().all(Value::is_string) && !schema::is_schema(map) => {
            map.keys().for_each(|name| take(&at, &Value::String(name.clone())));
        }
        Value::Object(_) => step.output_schema = schema::read_schema(fields.context, &at, field.value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => take(&at, field.value),
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 128 && !text.contains(char::is_whitespace)
}
