//! Small parts of schemas.

use serde_json::{Map, Value, json};

/// A field of an object and its schema.
pub type FieldSchema = (&'static str, Value);

/// A pattern of one of several patterns.
pub fn alternatives(mut patterns: Vec<String>) -> String {
    if patterns.len() == 1 { patterns.remove(0) } else { format!("(?:{})", patterns.join("|")) }
}

/// Before the name of a definition in a reference.
pub const DEFS: &str = "#/$defs/";

/// Any object.
pub fn open_object() -> Value {
    json!({"type": "object"})
}

/// The same schema with all properties required: an optional one is nullable.
pub fn all_required(schema: &Value) -> Value {
    let Some(map) = schema.as_object() else { return schema.clone() };
    let mut schema = map.clone();
    for word in ["anyOf", "items"] {
        if let Some(inner) = schema.get_mut(word) {
            *inner = match inner.as_array() {
                Some(all) => all.iter().map(all_required).collect(),
                None => all_required(inner),
            };
        }
    }
    let Some(fields) = map.get("properties").and_then(Value::as_object) else { return schema.into() };
    let required = map.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let field = |(name, field): (&String, &Value)| {
        let field = all_required(field);
        let is_required = required.iter().any(|known| known == name);
        (name.clone(), if is_required { field } else { nullable(field) })
    };
    let fields: Map<String, Value> = fields.iter().map(field).collect();
    schema.insert("required".into(), fields.keys().cloned().collect());
    schema.insert("properties".into(), fields.into());
    schema.into()
}

pub fn nullable(schema: Value) -> Value {
    any_of(vec![schema, json!({"type": "null"})])
}

/// Whether a text is a name that a path can hold as it is.
pub fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && text.starts_with(|c: char| !c.is_ascii_digit())
}

pub fn reference_to(name: &str) -> Value {
    json!({"$ref": format!("{DEFS}{name}")})
}

/// One of several texts; any text when there are none.
pub fn one_of(values: &[String]) -> Value {
    if values.is_empty() { json!({"type": "string"}) } else { json!({"type": "string", "enum": values}) }
}

/// Writes an `enum` of one value as `const`, which is shorter. Not all services know `const` in a strict schema.
pub fn write_constants(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some([value]) = map.get("enum").and_then(Value::as_array).map(Vec::as_slice) {
                *schema = json!({ "const": value });
            } else {
                map.values_mut().for_each(write_constants);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_constants),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

pub fn any_of(mut alternatives: Vec<Value>) -> Value {
    if alternatives.len() == 1 { alternatives.remove(0) } else { json!({ "anyOf": alternatives }) }
}

/// A closed object that requires all its fields, in this order.
pub fn object<'f>(fields: impl IntoIterator<Item = (&'f str, Value)>) -> Value {
    let fields: Map<String, Value> = fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let required: Vec<&String> = fields.keys().collect();
    json!({"type": "object", "required": required, "properties": fields, "additionalProperties": false})
}
