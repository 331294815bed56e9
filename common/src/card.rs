//! Reads an agent's card: what a client declares of an agent type, over the API, in a worker's settings or by `HSET`.
//!
//! A card with an unknown field, or with a rate out of range, is refused with every such place.

use std::borrow::Cow;

use serde_json::Value;

use crate::agent::{Agent, LATENCY_MS_MAX};
use crate::budget::COST_MAX;
use crate::id::{AgentType, is_id};
use crate::json_comments::blank_json_comments;
use crate::problem::{ERRORS_MAX, Issue};
use crate::text::{pointer_part, shorten};

/// Most bytes of a card.
pub const CARD_BYTES_MAX: usize = 1 << 20;

/// What a field may hold: notes what is wrong at a JSON Pointer.
type CardCheck = fn(&mut CardIssues, &Value, &str);

/// A field by name, whether it must be there, and what it may hold.
type Field = (&'static str, bool, CardCheck);

const AGENT: [Field; 11] = [
    ("agent_type", true, CardIssues::agent_type),
    ("description", false, CardIssues::text),
    ("capabilities", false, CardIssues::texts),
    ("actions", false, CardIssues::actions),
    ("success_rate", false, CardIssues::rate),
    ("cost", false, CardIssues::cost),
    ("latency_ms", false, CardIssues::latency),
    ("plans", false, CardIssues::flag),
    // As capability cards of other planners call them.
    ("specialization", false, CardIssues::text),
    ("cost_per_invocation", false, CardIssues::cost),
    ("avg_latency_ms", false, CardIssues::average),
];

const ACTION: [Field; 5] = [
    ("name", true, CardIssues::name),
    ("description", false, CardIssues::text),
    ("inputs", false, CardIssues::schema),
    ("outputs", false, CardIssues::schema),
    ("side_effect", false, CardIssues::flag),
];

/// Reads a card; else everything that is wrong with it, each with its place and a hint.
pub fn read_card(text: &[u8]) -> Result<Agent, Vec<Issue>> {
    if text.len() > CARD_BYTES_MAX {
        let detail = format!("the card has {} bytes, more than {CARD_BYTES_MAX}", text.len());
        return Err(vec![issue("INPUT_TOO_LARGE", "", detail, "say less")]);
    }
    let unread = |error: &dyn std::fmt::Display| {
        vec![issue("INVALID_JSON", "", format!("the card cannot be read: {error}"), "write one JSON object")]
    };
    let text = blank_json_comments(std::str::from_utf8(text).map_err(|error| unread(&error))?);
    let card: Value = serde_json::from_str(&text).map_err(|error| unread(&error))?;
    let mut issues = check_card(&card);
    for (ours, theirs) in ALIASES {
        if card.get(ours).is_some() && card.get(theirs).is_some() {
            let detail = format!("`{ours}` and `{theirs}` are the same field");
            issues.push(issue("CONFLICTING_FIELDS", &format!("/{theirs}"), detail, "keep one of them"));
        }
    }
    if issues.is_empty() { serde_json::from_str(&text).map_err(|error| unread(&error)) } else { Err(issues) }
}

/// Fields, and what capability cards of other planners call them; the type reads both.
const ALIASES: [(&str, &str); 3] =
    [("description", "specialization"), ("cost", "cost_per_invocation"), ("latency_ms", "avg_latency_ms")];

/// Everything that is wrong with a card, at most [`ERRORS_MAX`] places.
pub fn check_card(card: &Value) -> Vec<Issue> {
    let mut found = CardIssues::default();
    found.fields(card, "", &AGENT);
    found.0.truncate(ERRORS_MAX);
    found.0
}

fn issue(code: &str, pointer: &str, detail: impl Into<String>, hint: impl Into<String>) -> Issue {
    Issue { code: code.into(), pointer: pointer.into(), detail: detail.into(), hint: hint.into() }
}

/// The issues found so far.
#[derive(Default)]
struct CardIssues(Vec<Issue>);

impl CardIssues {
    fn note(&mut self, code: &str, pointer: &str, detail: impl Into<String>, hint: impl Into<String>) {
        if self.0.len() < ERRORS_MAX {
            self.0.push(issue(code, pointer, detail, hint));
        }
    }

    fn wrong_type(&mut self, pointer: &str, wanted: &str, value: &Value) {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.note("WRONG_TYPE", pointer, format!("expected {wanted}, found {kind}"), format!("write {wanted}"));
    }

    /// Checks an object by its fields.
    fn fields(&mut self, value: &Value, at: &str, fields: &[Field]) {
        let Some(object) = value.as_object() else { return self.wrong_type(at, "an object", value) };
        for (name, value) in object {
            let pointer = format!("{at}/{}", pointer_part(&shown(name)));
            match fields.iter().find(|(known, ..)| known == name) {
                Some((.., check)) => check(self, value, &pointer),
                None => {
                    let known: Vec<&str> = fields.iter().map(|(known, ..)| *known).collect();
                    let hint = format!("there are `{}`", known.join("`, `"));
                    self.note("UNKNOWN_FIELD", &pointer, format!("there is no field `{}`", shown(name)), hint);
                }
            }
        }
        for (name, ..) in fields.iter().filter(|(name, is_required, _)| *is_required && !object.contains_key(*name)) {
            self.note("MISSING_FIELD", &format!("{at}/{name}"), format!("`{name}` is missing"), "add it");
        }
    }

    fn text(&mut self, value: &Value, at: &str) {
        if !value.is_string() {
            self.wrong_type(at, "text", value);
        }
    }

    fn texts(&mut self, value: &Value, at: &str) {
        self.each(value, at, Self::text);
    }

    fn actions(&mut self, value: &Value, at: &str) {
        self.each(value, at, |found, action, at| found.fields(action, at, &ACTION));
    }

    fn each(&mut self, value: &Value, at: &str, check: CardCheck) {
        match value.as_array() {
            Some(items) => items.iter().enumerate().for_each(|(i, item)| check(self, item, &format!("{at}/{i}"))),
            None => self.wrong_type(at, "a list", value),
        }
    }

    fn agent_type(&mut self, value: &Value, at: &str) {
        match value.as_str() {
            Some(text) if is_id(text) && !AgentType::from(text).is_auto() => {}
            Some(text) => {
                let detail = format!("`{}` cannot be an agent type", shown(text));
                let hint = "write a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`; not `auto`";
                self.note("INVALID_ID", at, detail, hint);
            }
            None => self.wrong_type(at, "text", value),
        }
    }

    fn name(&mut self, value: &Value, at: &str) {
        match value.as_str() {
            Some("") => self.note("INVALID_VALUE", at, "the name of an action is empty", "name the action"),
            Some(_) => {}
            None => self.wrong_type(at, "text", value),
        }
    }

    /// A JSON Schema; whether it can be used is seen when it is compiled.
    fn schema(&mut self, value: &Value, at: &str) {
        if !(value.is_object() || value.is_boolean() || value.is_null()) {
            self.wrong_type(at, "a JSON Schema", value);
        }
    }

    fn rate(&mut self, value: &Value, at: &str) {
        self.number(value, at, 1.0, "0 to 1");
    }

    fn flag(&mut self, value: &Value, at: &str) {
        if !value.is_boolean() {
            self.wrong_type(at, "`true` or `false`", value);
        }
    }

    fn cost(&mut self, value: &Value, at: &str) {
        self.number(value, at, COST_MAX, "0 to 1e15 US dollars");
    }

    fn number(&mut self, value: &Value, at: &str, most: f64, range: &str) {
        match value.as_f64() {
            Some(number) if (0.0..=most).contains(&number) => {}
            Some(number) => self.note("OUT_OF_RANGE", at, format!("{number} is not {range}"), format!("write {range}")),
            None => self.wrong_type(at, "a number", value),
        }
    }

    fn average(&mut self, value: &Value, at: &str) {
        self.number(value, at, LATENCY_MS_MAX as f64, "0 to a year in milliseconds");
    }

    fn latency(&mut self, value: &Value, at: &str) {
        match value {
            Value::Null => {}
            Value::Number(number) if number.as_u64().is_some_and(|ms| ms <= LATENCY_MS_MAX) => {}
            Value::Number(number) => {
                let range = format!("a whole number from 0 to {LATENCY_MS_MAX}");
                self.note("OUT_OF_RANGE", at, format!("{number} is not {range}"), format!("write {range}"));
            }
            Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                self.wrong_type(at, "a whole number", value);
            }
        }
    }
}

fn shown(text: &str) -> Cow<'_, str> {
    shorten(text, 64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(card: &str) -> Vec<(String, String)> {
        let issues = read_card(card.as_bytes()).err().unwrap_or_default();
        assert!(issues.iter().all(|issue| !issue.detail.is_empty() && !issue.hint.is_empty()), "{issues:?}");
        issues.into_iter().map(|issue| (issue.code, issue.pointer)).collect()
    }

    #[test]
    fn a_card_without_mistakes_is_read() {
        let full = json!({
            "agent_type": "a", "description": "d", "capabilities": ["c"], "success_rate": 1, "cost": 0.5, "latency_ms": 7,
            "actions": [{"name": "n", "description": "d", "inputs": {"type": "object"}, "outputs": true, "side_effect": true}],
        });
        let agent = read_card(full.to_string().as_bytes()).expect("it is a card");
        assert_eq!((agent.cost, agent.latency_ms, agent.actions.len()), (0.5, Some(7), 1));
        assert_eq!(read_card(br#"{"agent_type":"a"}"#), Ok(Agent::named("a".into())));
    }

    #[test]
    fn a_card_with_mistakes_is_refused_with_every_place() {
        for (card, expected) in [
            (r#"{"agent_type":"a","cots":1}"#, &[("UNKNOWN_FIELD", "/cots")][..]),
            (r#"{"agent_type":"a","actions":[{"name":"n","input":{}}]}"#, &[("UNKNOWN_FIELD", "/actions/0/input")]),
            (
                r#"{"agent_type":"a","actions":[{"name":"n","side_effect":1}]}"#,
                &[("WRONG_TYPE", "/actions/0/side_effect")],
            ),
            (r#"{"agent_type":"a","success_rate":7}"#, &[("OUT_OF_RANGE", "/success_rate")]),
            (r#"{"agent_type":"a","success_rate":-0.1}"#, &[("OUT_OF_RANGE", "/success_rate")]),
            (r#"{"agent_type":"a","cost":-1}"#, &[("OUT_OF_RANGE", "/cost")]),
            (r#"{"agent_type":"a","cost":1e300}"#, &[("OUT_OF_RANGE", "/cost")]),
            (r#"{"agent_type":"a","cost":1e999}"#, &[("INVALID_JSON", "")]),
            (r#"{"agent_type":"a","cost":"1"}"#, &[("WRONG_TYPE", "/cost")]),
            (r#"{"agent_type":"a","latency_ms":18446744073709551615}"#, &[("OUT_OF_RANGE", "/latency_ms")]),
            (r#"{"agent_type":"a","latency_ms":1.5}"#, &[("OUT_OF_RANGE", "/latency_ms")]),
            (r#"{"agent_type":"auto"}"#, &[("INVALID_ID", "/agent_type")]),
            (r#"{"agent_type":"a\nb"}"#, &[("INVALID_ID", "/agent_type")]),
            (r#"{"agent_type":"a","actions":[{}]}"#, &[("MISSING_FIELD", "/actions/0/name")]),
            (r#"{"agent_type":"a","capabilities":"c"}"#, &[("WRONG_TYPE", "/capabilities")]),
            (r#"{"agent_type":"a","capabilities":[1]}"#, &[("WRONG_TYPE", "/capabilities/0")]),
            (r#"{"agent_type":"a","actions":[{"name":"n","inputs":"text"}]}"#, &[("WRONG_TYPE", "/actions/0/inputs")]),
            (r#"{"agent_type":"a","cost":1,"cost":2}"#, &[("INVALID_JSON", "")]),
            (r#"["a"]"#, &[("WRONG_TYPE", "")]),
            ("shout", &[("INVALID_JSON", "")]),
            (
                r#"{"cost":-1,"a/b":1}"#,
                &[("OUT_OF_RANGE", "/cost"), ("UNKNOWN_FIELD", "/a~1b"), ("MISSING_FIELD", "/agent_type")],
            ),
        ] {
            let expected: Vec<(String, String)> = expected.iter().map(|(c, p)| ((*c).into(), (*p).into())).collect();
            assert_eq!(found(card), expected, "{card}");
        }
    }

    #[test]
    fn cards_of_other_planners_are_read() {
        let card = br#"{"agent_type":"a","capabilities":["c"],"specialization":"s","cost_per_invocation":0.03,
                        "avg_latency_ms":1400.6,"success_rate":0.9}"#;
        let agent = read_card(card).expect("it is a card");
        assert_eq!((agent.description.as_str(), agent.cost, agent.latency_ms), ("s", 0.03, Some(1_401)));
        let twice = r#"{"agent_type":"a","cost":1,"cost_per_invocation":2}"#;
        assert_eq!(found(twice), [("CONFLICTING_FIELDS".to_owned(), "/cost_per_invocation".to_owned())]);
        let wrong = r#"{"agent_type":"a","success_rate":1.7,"avg_latency_ms":-1}"#;
        let places = [("OUT_OF_RANGE", "/success_rate"), ("OUT_OF_RANGE", "/avg_latency_ms")];
        assert_eq!(found(wrong), places.map(|(code, place)| (code.to_owned(), place.to_owned())));
    }

    #[test]
    fn what_is_told_of_a_card_is_bounded() {
        let fields: Vec<String> = (0..10_000).map(|n| format!(r#""x{n}":1"#)).collect();
        assert_eq!(found(&format!("{{{}}}", fields.join(","))).len(), ERRORS_MAX);
        assert_eq!(found(&" ".repeat(CARD_BYTES_MAX + 1)), [("INPUT_TOO_LARGE".to_owned(), String::new())]);
    }
}
