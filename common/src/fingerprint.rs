//! Fingerprints of submissions, and of other content that is compared.

use serde_json::Value;

/// A fingerprint of bytes.
///
/// FNV-1a, 128 bit; it need not resist forgery, because callers gain nothing from a collision.
pub fn fingerprint(kind: &str, body: &[u8]) -> String {
    let hash = kind.bytes().chain([0]).chain(body.iter().copied()).fold(crate::id::FNV_BASIS, crate::id::fnv);
    crate::id::base32(hash, 26)
}

/// What a [`content_fingerprint`] begins with; earlier builds stored fingerprints of bytes, which cannot be compared.
const OF_CONTENT: char = 'c';

/// A fingerprint of a document: tells a repeated submission from another one under the same id, whatever it came in.
/// Spaces, the order of fields, and whether it was JSON or YAML make no difference.
///
/// - `kind`: `goal`, `plan`, or what else the document is for.
pub fn content_fingerprint(kind: &str, document: &Value) -> String {
    let mut text = String::new();
    write_sorted(document, &mut text);
    let mut fingerprint = fingerprint(kind, text.as_bytes());
    fingerprint.insert(0, OF_CONTENT);
    fingerprint
}

/// Whether a submission has other content than the one that began a plan.
pub fn is_other_content(begun: &str, sent: &str) -> bool {
    begun.starts_with(OF_CONTENT) && sent.starts_with(OF_CONTENT) && begun.len() == sent.len() && begun != sent
}

/// Appends JSON without spaces whose fields are in the order of their names.
fn write_sorted(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_sorted(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, field) in fields {
                write_sorted(&Value::String(name.clone()), text);
                text.push(':');
                write_sorted(field, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fingerprint_is_that_of_the_content() {
        let one = content_fingerprint("plan", &json!({"name": "n", "steps": [{"id": "a", "inputs": {"x": 1.5}}]}));
        let same = content_fingerprint("plan", &json!({"steps": [{"inputs": {"x": 1.5}, "id": "a"}], "name": "n"}));
        assert!(one == same && !is_other_content(&one, &same));
        for (kind, other) in [
            ("goal", json!({"name": "n", "steps": [{"id": "a", "inputs": {"x": 1.5}}]})),
            ("plan", json!({"name": "n", "steps": [{"id": "a", "inputs": {"x": "1.5"}}]})),
            ("plan", json!({"name": "n", "steps": [{"id": "a"}], "inputs": {"x": 1.5}})),
            ("plan", json!({"name": "n", "steps": [{"id": "a", "inputs": {"x": 1.5}}, {}]})),
            ("plan", json!({"name": "n\",\"steps\":[", "steps": []})),
        ] {
            assert!(is_other_content(&one, &content_fingerprint(kind, &other)), "{kind} {other}");
        }
        // Those of earlier builds cannot be compared, and plans without an id of their client have none.
        let of_bytes = fingerprint("plan", b"{}");
        assert!(!is_other_content(&of_bytes, &one) && !is_other_content("", &one) && !is_other_content(&one, ""));
    }
}
