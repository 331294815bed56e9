//! JSON Schemas inside a plan: they must hold by themselves, nothing is fetched.

use goalmill_common::json::Json;
use serde_json::{Map, Value};

use crate::document::{DocumentPath, ValidationContext, shorten, wrong_type};
use crate::schema::{SCHEMA_BYTES_MAX, Schema, compiled_bytes};

/// Words by which an object is known to be a schema.
const WORDS: &[&str] = &[
    "$schema", "$ref", "$defs", "$id", "type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf",
    "allOf", "not", "additionalProperties", "minProperties", "pattern", "minimum", "maximum",
];

pub(super) fn is_schema(map: &Map<String, Value>) -> bool {
    map.keys().any(|key| WORDS.contains(&key.as_str()))
}

/// Checks a schema and keeps it.
pub(super) fn read_schema(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value) -> Option<Json> {
    if !value.is_object() && !value.is_boolean() {
        wrong_type(context, at, value, "a JSON Schema, an object");
        return None;
    }
    let schema = Json::from_value(value);
    let before = context.errors();
    stays_inside(context, at, value);
    if context.errors() == before && context.has_room_for_schemas() && context.is_new_schema(schema.text()) {
        check_schema(context, at, value, &schema);
    }
    Some(schema)
}

/// Compiles a schema when all of the plan are within their limit. Only the first one above it is reported.
fn check_schema(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value, schema: &Json) {
    let bytes = compiled_bytes(value);
    let counted = bytes.as_ref().map_or(SCHEMA_BYTES_MAX, |bytes| *bytes);
    let has_room = context.count_schema(counted);
    if let Err(unusable) = bytes.and_then(|_| if has_room { Schema::cached_outputs(schema).map(drop) } else { Ok(()) })
    {
        return context.error(unusable.code, at, unusable.detail, unusable.hint);
    }
    if !has_room {
        let most = context.limits.schemas_bytes_max;
        let detail = format!("compiled, the schemas of the plan would take more than {most} bytes together");
        let hint =
            "use equal schemas, fewer patterns and fewer repetitions in them, or raise `limits.schemas_bytes_max`";
        context.error("SCHEMAS_TOO_LARGE", at, detail, hint);
    }
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
