//! Events from outside: what `wait` steps wait for.

use serde::{Deserialize, Serialize};

use crate::id::is_id;
use crate::json::Json;
use crate::problem::Issue;

/// Characters of a key.
pub const KEY_CHARS_MAX: usize = 256;
/// Characters of an id.
pub const ID_CHARS_MAX: usize = 128;

/// An event that a person or a program sends to plans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalEvent {
    /// The sender's; a plan takes an event with the same id once.
    pub id: String,
    /// What happened: `payment`, `order.shipped`.
    pub name: String,
    /// To what it happened: the number of an order. Empty when the name says enough.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The outputs of the step that waits for it; `{}` when the sender gives none.
    #[serde(default, skip_serializing_if = "Json::is_empty_object")]
    pub data: Json,
}

/// The place under which events of a name and a key, and the waits for them, are stored.
///
/// FNV-1a, 128 bit. Names and keys are compared before an event is taken, so a collision only costs a look.
pub fn topic(name: &str, key: &str) -> String {
    crate::fingerprint::fingerprint(name, key.as_bytes())
}

impl ExternalEvent {
    /// What is wrong with its names, at their places in a request.
    pub fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        let mut note = |field: &str, detail: String, hint: &str| {
            let (code, pointer) = ("INVALID_EVENT".to_owned(), format!("/{field}"));
            issues.push(Issue { code, pointer, detail, hint: hint.into() });
        };
        if !is_id(&self.name) {
            let hint = "use a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`";
            note("name", "it is no name of an event".into(), hint);
        }
        for (field, text, most) in [("key", &self.key, KEY_CHARS_MAX), ("id", &self.id, ID_CHARS_MAX)] {
            if text.chars().count() > most || text.chars().any(char::is_control) {
                note(
                    field,
                    format!("it has control characters, or more than {most} characters"),
                    "give a shorter text",
                );
            }
        }
        if self.id.is_empty() {
            note("id", "it is empty".into(), "give a text that no other event has, or omit it");
        }
        issues
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_data_read_back_as_they_were_sent() {
        for (data, field) in
            [("null", Some("null")), ("{}", None), ("[]", Some("[]")), ("{\"a\":null}", Some("{\"a\":null}"))]
        {
            let data = Json::from_text(data.into()).expect("it is JSON");
            let event = ExternalEvent { id: "1".into(), name: "payment".into(), key: String::new(), data };
            let text = serde_json::to_string(&event).expect("it is plain data");
            assert_eq!(text.split_once("\"data\":").map(|(_, rest)| &rest[..rest.len() - 1]), field);
            assert_eq!(serde_json::from_str::<ExternalEvent>(&text).expect("it is an event"), event);
        }
    }

    #[test]
    fn names_keys_and_ids_are_bounded() {
        let event = |id: &str, name: &str, key: &str| ExternalEvent {
            id: id.into(),
            name: name.into(),
            key: key.into(),
            data: Json::default(),
        };
        let places = |event: ExternalEvent| event.issues().into_iter().map(|i| i.pointer).collect::<Vec<_>>();
        assert_eq!(places(event("1", "order.shipped", "no. 17")), Vec::<String>::new());
        assert_eq!(places(event("", "two words", &"x".repeat(257))), ["/name", "/key", "/id"]);
        assert_eq!(places(event("a\nb", "payment", "a\tb")), ["/key", "/id"]);
    }
}
