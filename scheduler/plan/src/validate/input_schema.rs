//! Places in the schema of an action's inputs or outputs.

use std::borrow::Cow;

use serde_json::Value;

/// References that are followed one after the other.
const REFERENCES_MAX: usize = 8;

/// The types that JSON has, as JSON Schema names them.
const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];

/// The part of a schema for a place in the inputs, where references that stand alone are followed.
pub(super) fn declared<'s>(root: &'s Value, pointer: &str) -> Option<&'s Value> {
    let mut schema = named(root, root);
    for name in pointer.split('/').skip(1) {
        schema = named(root, below(schema, &format!("/{name}"))?);
    }
    Some(schema)
}

/// What a `$ref` within the schema names; the schema itself when there is none.
fn named<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let target = |schema: &'s Value| root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?);
    let mut found = schema;
    for _ in 0..REFERENCES_MAX {
        found = target(found).unwrap_or(found);
    }
    found
}

/// What a schema says about a place in it.
pub(super) enum Look<'s> {
    /// It says nothing.
    Unknown,
    /// There is no such field. Certain when the schema allows no others.
    Missing {
        name: String,
        known: Vec<&'s str>,
        is_certain: bool,
    },
    Types(&'s Value),
}

pub(super) fn look<'s>(mut schema: &'s Value, path: &[String]) -> Look<'s> {
    for name in path {
        let Some(map) = schema.as_object() else { return Look::Unknown };
        // Branches and references are not followed: what they allow is not certain.
        if ["$ref", "anyOf", "oneOf", "allOf", "patternProperties", "if"].iter().any(|word| map.contains_key(*word)) {
            return Look::Unknown;
        }
        let properties = map.get("properties").and_then(Value::as_object);
        if let Some(inner) = properties.and_then(|p| p.get(name)) {
            schema = inner;
            continue;
        }
        let is_index = name.bytes().all(|b| b.is_ascii_digit());
        if let Some(items) = map.get("items").filter(|items| is_index && items.is_object()) {
            schema = items;
            continue;
        }
        if !types(schema).iter().any(|kind| matches!(*kind, "object" | "array")) {
            return Look::Missing { name: name.clone(), known: Vec::new(), is_certain: true };
        }
        // A list has no names.
        if types(schema) == ["array"] && !is_index {
            return Look::Missing { name: name.clone(), known: Vec::new(), is_certain: true };
        }
        let Some(properties) = properties.filter(|p| !p.is_empty()) else { return Look::Unknown };
        let is_certain = map.get("additionalProperties") == Some(&Value::Bool(false));
        if map.get("additionalProperties").is_some_and(Value::is_object) {
            return Look::Unknown;
        }
        let known = properties.keys().map(String::as_str).collect();
        return Look::Missing { name: name.clone(), known, is_certain };
    }
    Look::Types(schema)
}

/// The part of an input schema for a place in the inputs; none when that is not certain.
pub(super) fn below<'s>(mut schema: &'s Value, pointer: &str) -> Option<&'s Value> {
    for name in pointer.split('/').skip(1) {
        let name =
            if name.contains('~') { name.replace("~1", "/").replace("~0", "~").into() } else { Cow::Borrowed(name) };
        let map = schema.as_object()?;
        let property = map.get("properties").and_then(|p| p.get(name.as_ref()));
        let item = || map.get("items").filter(|items| items.is_object() && name.bytes().all(|b| b.is_ascii_digit()));
        schema = property.or_else(item)?;
    }
    Some(schema)
}

/// The JSON types a schema allows; all of them when it does not say.
pub(super) fn types(schema: &Value) -> Vec<&str> {
    let fold = |name: &'_ str| match name {
        "integer" => Some("number"),
        name => TYPES.into_iter().find(|t| *t == name),
    };
    let is_plain = schema.as_object().is_some_and(|map| {
        !["$ref", "anyOf", "oneOf", "allOf", "not", "if"].iter().any(|word| map.contains_key(*word))
    });
    let named: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) if is_plain => fold(name).into_iter().collect(),
        Some(Value::Array(list)) if is_plain => list.iter().filter_map(Value::as_str).filter_map(fold).collect(),
        _ => Vec::new(),
    };
    if named.is_empty() { TYPES.to_vec() } else { named }
}
