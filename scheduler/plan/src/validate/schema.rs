//! JSON Schemas inside a plan: they must hold by themselves, nothing is fetched.

use goalmill_common::json::Json;
use serde_json::{Map, Value};

use crate::document::{DocumentPath, ValidationContext, shorten, wrong_type};

/// Words by which an object is known to be a schema.
const WORDS: &[&str] = &[
    "$schema", "$ref", "$defs", "$id", "type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf",
    "allOf", "not", "additionalProperties", "minProperties", "pattern", "minimum", "maximum",
];

pub(super) fn is_schema(map: &Map<String, Value>) -> bool {
    map.keys().any(|key| WORDS.contains(&key.as_str()))
}

/// Checks a schema and keeps it.
pub(super) fn read(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value) -> Option<Json> {
    if !value.is_object() && !value.is_boolean() {
        wrong_type(context, at, value, "a JSON Schema, an object");
        return None;
    }
    let schema = Json::of(value);
    let before = context.errors();
    stays_inside(context, at, value);
    if context.errors() == before
        && context.is_new_schema(schema.text())
        && let Err(unusable) = crate::schema::Schema::of_outputs(value)
    {
        context.error(unusable.code, at, unusable.detail, unusable.hint);
    }
    Some(schema)
}

/// References may only lead to places in the schema itself.
fn stays_inside(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let at = at.key(key);
                let is_reference = matches!(key.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef");
                match inner.as_str() {
                    Some(target) if is_reference && !target.starts_with('#') => {
                        let detail = format!("`{}` lies outside of the schema; nothing is fetched", shorten(target));
                        context.error(
                            "SCHEMA_REMOTE_REF",
                            &at,
                            detail,
                            "copy the target into `$defs` and refer to it by `#/$defs/…`",
                        );
                    }
                    _ => stays_inside(context, &at, inner),
                }
            }
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(i, item)| stays_inside(context, &at.item(i), item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
