//! Redaction: what the log must not keep is masked before anything is stored.

use std::borrow::Cow;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use crate::config::RedactSettings;
use crate::json::Json;

/// What stands where something was masked.
pub const MASK: &str = "[redacted]";
/// Fields and patterns, at most.
pub const RULES_MAX: usize = 100;
/// Characters of one pattern, at most.
const PATTERN_CHARS_MAX: usize = 1_000;
/// Bytes of one compiled pattern, at most.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Compiled rules of what is masked. Matching is linear in the text.
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    /// In lower case.
    fields: Arc<[String]>,
    patterns: Arc<[Regex]>,
}

impl PartialEq for Redaction {
    fn eq(&self, other: &Self) -> bool {
        let texts = |one: &Self| one.patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect::<Vec<_>>();
        self.fields == other.fields && texts(self) == texts(other)
    }
}

impl Eq for Redaction {}

impl Redaction {
    /// Compiles the rules, or says which one cannot be used and why.
    pub fn new(settings: &RedactSettings) -> Result<Self, String> {
        let patterns: Result<Vec<Regex>, String> = settings.patterns.iter().map(|text| compile(text)).collect();
        if settings.fields.len() + settings.patterns.len() > RULES_MAX {
            return Err(format!("there are more than {RULES_MAX} fields and patterns"));
        }
        let fields = settings.fields.iter().map(|name| name.to_lowercase()).collect();
        Ok(Self { fields, patterns: patterns?.into() })
    }

    /// Whether nothing is masked.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.patterns.is_empty()
    }

    /// The JSON with the values of named fields and the matches of patterns masked; its own text when there are none.
    pub fn redact_json(&self, json: &Json) -> Json {
        if self.is_empty() {
            return json.clone();
        }
        let mut value = json.value();
        if self.redact_value(&mut value) { value.into() } else { json.clone() }
    }

    /// The text with the matches of patterns masked.
    pub fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for pattern in self.patterns.iter() {
            if let Cow::Owned(masked) = pattern.replace_all(&text, regex::NoExpand(MASK)) {
                text = Cow::Owned(masked);
            }
        }
        text
    }

    /// Returns whether anything was masked. Parsed JSON has a bounded depth.
    fn redact_value(&self, value: &mut Value) -> bool {
        match value {
            Value::Object(fields) => {
                let mut is_changed = false;
                for (name, value) in fields.iter_mut() {
                    is_changed |= if self.is_secret_field(name) {
                        *value = MASK.into();
                        true
                    } else {
                        self.redact_value(value)
                    };
                }
                is_changed
            }
            Value::Array(items) => items.iter_mut().fold(false, |changed, item| self.redact_value(item) | changed),
            Value::String(text) => match self.redact_text(text) {
                Cow::Owned(masked) => {
                    *text = masked;
                    true
                }
                Cow::Borrowed(_) => false,
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn is_secret_field(&self, name: &str) -> bool {
        !self.fields.is_empty() && self.fields.contains(&name.to_lowercase())
    }
}

fn compile(text: &str) -> Result<Regex, String> {
    if text.is_empty() || text.chars().count() > PATTERN_CHARS_MAX {
        return Err(format!("a pattern has 1 to {PATTERN_CHARS_MAX} characters"));
    }
    let built = RegexBuilder::new(text).size_limit(PATTERN_BYTES_MAX).build();
    built.map_err(|error| format!("`{text}` is no regular expression: {}", error.to_string().replace('\n', " ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redaction(fields: &[&str], patterns: &[&str]) -> Redaction {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Redaction::new(&RedactSettings { fields: texts(fields), patterns: texts(patterns) })
            .expect("the rules are valid")
    }

    #[test]
    fn fields_and_matches_are_masked_at_every_depth() {
        let rules = redaction(&["Password"], &[r"\b\d{4}-\d{4}\b"]);
        let inputs = json!({"user": "ann", "PASSWORD": {"a": 1}, "cards": ["1234-5678 and $0", {"n": "none"}]});
        let masked = rules.redact_json(&Json::from_value(&inputs)).value();
        let cards = json!(["[redacted] and $0", {"n": "none"}]);
        assert_eq!(masked, json!({"user": "ann", "PASSWORD": MASK, "cards": cards}));
    }

    #[test]
    fn what_holds_nothing_secret_keeps_its_text() {
        let json = Json::from_text("{\"x\": 1.10}".into()).expect("it is JSON");
        assert_eq!(redaction(&["password"], &["secret"]).redact_json(&json).text(), json.text());
        assert_eq!(Redaction::default().redact_json(&json).text(), json.text());
    }

    #[test]
    fn rules_are_bounded() {
        let refused = |patterns: Vec<String>| Redaction::new(&RedactSettings { fields: Vec::new(), patterns }).is_err();
        assert!(refused(vec!["(".into()]) && refused(vec!["x".repeat(1_001)]) && refused(vec![String::new()]));
        assert!(refused(vec!["(a{1000}){1000}".into()]), "a pattern that compiles to too much is refused");
        assert!(refused(vec!["x".into(); RULES_MAX + 1]));
    }
}
