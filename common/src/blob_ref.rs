//! References to offloaded payloads: `{"$blob": "<key>", "bytes": <n>}`, anywhere in JSON, stands for a payload that is
//! stored under a key because it is too large to carry.

use serde_json::{Value, json};

use crate::json::Json;

const FIELD: &str = "$blob";

/// The reference to `bytes` bytes of JSON under `key`.
pub fn to_json(key: &str, bytes: usize) -> Json {
    Json::from_value(&json!({FIELD: key, "bytes": bytes}))
}

/// The key, if the value is a reference.
pub fn key(value: &Value) -> Option<&str> {
    value.get(FIELD)?.as_str()
}

/// The bytes that a reference says that it stands for; 0 when it says nothing.
pub fn bytes(reference: &Value) -> usize {
    reference.get("bytes").and_then(Value::as_u64).and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
}

/// Calls `found` with the key of each reference in the value, in order. What a reference holds besides is not searched.
pub fn visit<'a>(value: &'a Value, found: &mut impl FnMut(&'a str)) {
    if let Some(key) = key(value) {
        return found(key);
    }
    match value {
        Value::Object(fields) => fields.values().for_each(|field| visit(field, found)),
        Value::Array(items) => items.iter().for_each(|item| visit(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Puts in the place of each reference what `content` has for its key, if it has something.
pub fn replace(value: &mut Value, content: &mut impl FnMut(&str) -> Option<Value>) {
    if let Some(key) = key(value) {
        if let Some(whole) = content(key) {
            *value = whole;
        }
        return;
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, content)),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, content)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether the JSON may contain references; `false` means that it need not be parsed for them.
pub fn may_contain(json: &Json) -> bool {
    json.text().contains("\"$blob\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_recognised() {
        let reference = to_json("k", 3);
        assert_eq!(reference.value(), json!({"$blob": "k", "bytes": 3}));
        assert!(may_contain(&reference) && key(&reference.value()) == Some("k"));
        assert_eq!(key(&json!({"$blob": 7})), None);
        assert!(!may_contain(&Json::from_value(&json!({"text": "a \"$blob\" in words"}))));
    }

    #[test]
    fn references_are_found_and_replaced_wherever_they_stand() {
        let mut value = json!({"a": [{"$blob": "k1", "bytes": 3}, 7], "b": {"c": {"$blob": "k2"}, "d": {"$blob": 7}}});
        let mut found = Vec::new();
        visit(&value, &mut |key| found.push(key.to_owned()));
        assert_eq!(found, ["k1", "k2"]);
        // What is put in is not searched again.
        replace(&mut value, &mut |key| (key == "k1").then(|| json!({"$blob": "k2"})));
        assert_eq!(value, json!({"a": [{"$blob": "k2"}, 7], "b": {"c": {"$blob": "k2"}, "d": {"$blob": 7}}}));
    }
}
