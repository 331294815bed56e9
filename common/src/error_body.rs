//! Bodies of failed answers of other services: quoted in failures, so that people can repair it from the log.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::redaction::MASK;
use crate::text::shorten;

/// Characters of a quotation.
const QUOTED_CHARS_MAX: usize = 300;
/// Characters of a body that has no field with a message.
const BODY_CHARS_MAX: usize = 200;
/// Bytes of a body that are read for a message.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Errors of a list that are quoted.
const LISTED_MAX: usize = 5;
/// Fields with a message, the most telling first.
const MESSAGES: [&str; 8] = ["detail", "message", "error_description", "error", "errors", "msg", "title", "reason"];
/// Levels of fields inside fields that are searched.
const DEPTH_MAX: usize = 4;

/// Credentials in a text: by the word before them, or by their beginning.
static SECRETS: LazyLock<Regex> = LazyLock::new(|| {
    let named = r#"((?:bearer|basic)\s+|(?:api[_-]?key|token|password|passwd|secret|authorization)["']?\s*[:=]\s*["']?(?:bearer\s+|basic\s+)?)[^\s"',;&<>]{4,}"#;
    Regex::new(&format!(r"(?i){named}|\b(?:sk|pk|ghp|xox[abp])[-_][A-Za-z0-9_-]{{8,}}")).expect("the pattern is valid")
});

/// Quotes the body of a refusal: the message in it, else its beginning. `None` when it is empty.
///
/// One line without control characters, at most 300 characters; what looks like a credential is masked.
///
/// - `secrets`: texts that must not be repeated, such as the values of the headers of the request.
pub fn quote_error_body<'s>(body: &[u8], secrets: impl IntoIterator<Item = &'s str>) -> Option<String> {
    let body = &body[..body.len().min(BODY_BYTES_MAX)];
    let parsed = serde_json::from_slice::<Value>(body).ok();
    if parsed.as_ref().is_some_and(is_empty) {
        return None;
    }
    let found = parsed.as_ref().and_then(|value| find_message(value, DEPTH_MAX));
    let said = match found {
        Some(message) => shorten(&clean_text(&message, secrets), QUOTED_CHARS_MAX).into_owned(),
        None => shorten(&clean_text(&String::from_utf8_lossy(body), secrets), BODY_CHARS_MAX).into_owned(),
    };
    (!said.is_empty()).then_some(said)
}

/// The beginning of a foreign text, as a failure may repeat it: one line, without what looks like a credential.
pub fn quote_beginning(text: &str) -> String {
    let end = text.floor_char_boundary(BODY_BYTES_MAX);
    shorten(&clean_text(&text[..end], []), BODY_CHARS_MAX).into_owned()
}

/// A foreign text in one line without control characters and credentials.
pub fn clean_text<'s>(text: &str, secrets: impl IntoIterator<Item = &'s str>) -> String {
    let mut text = text.to_owned();
    for secret in secrets.into_iter().filter(|secret| secret.len() >= 4) {
        text = text.replace(secret, MASK);
    }
    let masked = SECRETS.replace_all(&text, |found: &regex::Captures<'_>| {
        format!("{}{MASK}", found.get(1).map_or("", |before| before.as_str()))
    });
    let plain: String = masked.chars().map(|c| if c.is_control() || is_format(c) { ' ' } else { c }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Marks that change the direction of a text, and others that cannot be seen.
fn is_format(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.trim().is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The message in a JSON body: of RFC 9457, of JSON:API, of common frameworks.
fn find_message(value: &Value, depth: usize) -> Option<String> {
    let deeper = depth.checked_sub(1)?;
    match value {
        Value::String(text) => (!text.trim().is_empty()).then(|| text.clone()),
        Value::Array(items) => {
            let listed = items.iter().take(LISTED_MAX).filter_map(|item| find_message(item, deeper));
            let all: Vec<String> = listed.collect();
            (!all.is_empty()).then(|| all.join("; "))
        }
        Value::Object(fields) => {
            let message = MESSAGES.iter().find_map(|name| find_message(fields.get(*name)?, deeper))?;
            Some(match fields.get("loc").or_else(|| fields.get("field")).map(place) {
                Some(place) if !place.is_empty() => format!("{place}: {message}"),
                Some(_) | None => message,
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// The place of an error: a list of keys and numbers, or a text.
fn place(value: &Value) -> String {
    let part = |part: &Value| part.as_str().map_or_else(|| part.to_string(), str::to_owned);
    match value {
        Value::Array(parts) => parts.iter().map(part).collect::<Vec<_>>().join("."),
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(body: &str) -> Option<String> {
        quote_error_body(body.as_bytes(), ["hunter-22"])
    }

    #[test]
    fn the_message_of_a_body_is_quoted_wherever_it_stands() {
        for (body, said) in [
            (r#"{"detail":[{"loc":["body","city"],"msg":"field required","type":"x"}]}"#, "body.city: field required"),
            (r#"{"detail":[{"loc":["body",0],"msg":"a"},{"msg":"b"}]}"#, "body.0: a; b"),
            (r#"{"detail":"token expired"}"#, "token expired"),
            (r#"{"message":"city is unknown","code":17}"#, "city is unknown"),
            (r#"{"title":"Not found","status":404}"#, "Not found"),
            (r#"{"title":"T","detail":"D"}"#, "D"),
            (r#"{"error":{"message":"no model"}}"#, "no model"),
            (r#"{"error":"invalid_grant","error_description":"it is used"}"#, "it is used"),
            (r#"{"errors":[{"title":"t","detail":"d"}]}"#, "d"),
            (r#"["a","b"]"#, "a; b"),
            (r#"{"code":17}"#, r#"{"code":17}"#),
            ("<html>\n <body>502 Bad gateway</body>", "<html> <body>502 Bad gateway</body>"),
        ] {
            assert_eq!(quoted(body).as_deref(), Some(said), "{body}");
        }
        for nothing in ["", "  ", "{}", "null", "[]", "\"\""] {
            assert_eq!(quoted(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_quotation_has_no_secret_no_control_character_and_an_end() {
        for body in [
            r#"{"detail":"the key hunter-22 is over"}"#,
            "Authorization: Bearer abcdef123",
            "api_key=abcdef123&x=1",
            r#"{"code":1,"password":"abcdef123"}"#,
            "incorrect key: sk-abcdef123456",
        ] {
            let said = quoted(body).expect("it says something");
            assert!(said.contains(MASK), "{body}: {said}");
            assert!(!said.contains("hunter") && !said.contains("abcdef"), "{body}: {said}");
        }
        assert_eq!(quoted("a\u{1b}[31m\u{202e}b\u{0}c").as_deref(), Some("a [31m b c"));
        let long = quoted(&"x".repeat(100_000)).expect("it says something");
        assert_eq!(long.chars().count(), BODY_CHARS_MAX + 1);
        let long = quoted(&format!(r#"{{"detail":"{}"}}"#, "é".repeat(1_000))).expect("it says something");
        assert_eq!(long.chars().count(), QUOTED_CHARS_MAX + 1);
    }
}
