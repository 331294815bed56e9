//! Payloads too large to carry are put aside under a key; `{"$blob": "<key>", "bytes": <n>}` stands for them, anywhere
//! in the JSON.

use serde_json::{Value, json};

use crate::json::Json;

const FIELD: &str = "$blob";

/// What stands for `bytes` bytes of JSON under `key`.
pub fn reference(key: &str, bytes: usize) -> Json {
    Json::of(&json!({FIELD: key, "bytes": bytes}))
}

/// The key, if the value is a reference.
pub fn key(value: &Value) -> Option<&str> {
    value.get(FIELD)?.as_str()
}

/// Whether there may be references in it: without, it need not be read.
pub fn may_be_in(json: &Json) -> bool {
    json.text().contains("\"$blob\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_known_again() {
        let reference = reference("k", 3);
        assert_eq!(reference.value(), json!({"$blob": "k", "bytes": 3}));
        assert!(may_be_in(&reference) && key(&reference.value()) == Some("k"));
        assert_eq!(key(&json!({"$blob": 7})), None);
        assert!(!may_be_in(&Json::of(&json!({"text": "a \"$blob\" in words"}))));
    }
}
