//! References to offloaded payloads: `{"$blob": "<key>", "bytes": <n>}`, anywhere in JSON, stands for a payload that is
//! stored under a key because it is too large to carry.

use serde_json::{Value, json};

use crate::json::Json;

const FIELD: &str = "$blob";

/// The reference to `bytes` bytes of JSON under `key`.
pub fn to_json(key: &str, bytes: usize) -> Json {
    Json::of(&json!({FIELD: key, "bytes": bytes}))
}

/// The key, if the value is a reference.
pub fn key(value: &Value) -> Option<&str> {
    value.get(FIELD)?.as_str()
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
        assert!(!may_contain(&Json::of(&json!({"text": "a \"$blob\" in words"}))));
    }
}
