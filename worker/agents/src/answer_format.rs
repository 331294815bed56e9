//! The form of an answer: its schema, how it is read, and what is wrong with it.

use goalmill_common::text::shorten;
use goalmill_plan::schema::Schema;
use serde_json::{Map, Value, json};

use crate::answer_text;

/// Number of violations that one message to the model lists.
const VIOLATIONS_MAX: usize = 5;
/// Characters of one violation.
const VIOLATION_CHARS_MAX: usize = 300;
/// The field that holds an answer that is not an object: models can only return objects.
const WRAPPER: &str = "answer";

/// The form of one step's answer.
pub(crate) struct AnswerFormat {
    /// The schema of an object.
    parameters: Value,
    schema: Schema,
    is_wrapped: bool,
}

impl AnswerFormat {
    /// - `expected`: fields that the answer must have, whatever the schema says.
    ///
    /// The error message says why the schema cannot be used.
    pub fn new(mut schema: Value, expected: &[String]) -> Result<Self, String> {
        if !expected.is_empty() {
            require(&mut schema, expected);
        }
        let compiled =
            Schema::of_outputs(&schema).map_err(|unusable| format!("{}; {}", unusable.detail, unusable.hint))?;
        let is_object = |value: &Value| value == "object";
        let is_wrapped = !schema.get("type").is_some_and(is_object);
        let parameters = if is_wrapped {
            json!({"type": "object", "properties": {WRAPPER: schema}, "required": [WRAPPER]})
        } else {
            schema
        };
        Ok(Self { parameters, schema: compiled, is_wrapped })
    }

    /// The schema of the object that the model is asked for.
    pub fn parameters(&self) -> &Value {
        &self.parameters
    }

    /// Reads an answer, or says what the model must correct.
    ///
    /// Text around the answer and other spellings of the same values are accepted, as in drafts of plans; a guess is not.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let candidates = answer_text::read_values(text)?;
        let mut refused = None;
        let mut accepted: Vec<Value> = Vec::new();
        for candidate in candidates {
            match self.accept(candidate) {
                Ok(value) if accepted.contains(&value) => {}
                Ok(value) => accepted.push(value),
                Err(reason) => refused = refused.or(Some(reason)),
            }
        }
        match (accepted.pop(), refused) {
            (Some(value), _) if accepted.is_empty() => Ok(value),
            (Some(_), _) => Err("the reply has several different answers".into()),
            (None, Some(reason)) => Err(reason),
            (None, None) => Err("the answer is not a JSON object".into()),
        }
    }

    /// Whether a text holds an object with the required fields of an answer. If no field is required, any object is
    /// valid, and none is known to be meant as the answer.
    pub fn holds_answer(&self, text: &str) -> bool {
        let has_required = self.parameters["required"].as_array().is_some_and(|required| !required.is_empty());
        let candidates = if has_required { answer_text::read_values(text).unwrap_or_default() } else { Vec::new() };
        candidates.into_iter().any(|candidate| candidate.is_object() && self.accept(candidate).is_ok())
    }

    /// The answer in a value, or why it is none.
    fn accept(&self, value: Value) -> Result<Value, String> {
        let mut value = match value {
            Value::Object(mut fields) if self.is_wrapped => {
                fields.remove(WRAPPER).ok_or_else(|| format!("the field `{WRAPPER}` is missing"))?
            }
            Value::Object(fields) => Value::Object(fields),
            // A model that was asked for a list may give just that.
            other if self.is_wrapped => other,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err("the answer is not a JSON object".into());
            }
        };
        let violations = self.violations(&value)?;
        if violations.is_empty() {
            return Ok(value);
        }
        if answer_text::unwrap_texts(&mut value, self.inner_schema()) && self.violations(&value)?.is_empty() {
            return Ok(value);
        }
        Err(violations.join("; "))
    }

    fn violations(&self, value: &Value) -> Result<Vec<String>, String> {
        let validator = self.schema.for_value(value).map_err(|much| much.to_string())?;
        let errors = validator.iter_errors(value).take(VIOLATIONS_MAX);
        Ok(errors.map(|error| describe_violation(&error.instance_path().to_string(), &error.to_string())).collect())
    }

    /// The schema of the answer itself.
    fn inner_schema(&self) -> &Value {
        if self.is_wrapped { &self.parameters["properties"][WRAPPER] } else { &self.parameters }
    }
}

fn describe_violation(place: &str, what: &str) -> String {
    let place = if place.is_empty() { "/" } else { place };
    format!("at `{place}`: {}", shorten(what, VIOLATION_CHARS_MAX))
}

/// Adds required fields to the schema of an object.
fn require(schema: &mut Value, expected: &[String]) {
    let Some(fields) = schema.as_object_mut() else { return };
    if fields.get("type").is_some_and(|kind| kind != "object") {
        return;
    }
    fields.insert("type".into(), "object".into());
    let properties = fields.entry("properties").or_insert_with(|| Map::new().into());
    if let Some(properties) = properties.as_object_mut() {
        expected.iter().for_each(|name| {
            properties.entry(name.as_str()).or_insert_with(|| json!({}));
        });
    }
    let required = fields.entry("required").or_insert_with(|| Value::Array(Vec::new()));
    if let Some(required) = required.as_array_mut() {
        for name in expected {
            if !required.iter().any(|known| known == name.as_str()) {
                required.push(name.as_str().into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(schema: Value, expected: &[&str]) -> AnswerFormat {
        let expected: Vec<String> = expected.iter().map(|name| (*name).to_owned()).collect();
        AnswerFormat::new(schema, &expected).expect("the schema is valid")
    }

    #[test]
    fn an_answer_is_read_from_prose_and_fences() {
        let format = format(json!({"type": "object", "required": ["a"]}), &[]);
        for text in ["{\"a\":1}", "```json\n{\"a\": 1}\n```", "Here you are: {\"a\":1}. Done."] {
            assert_eq!(format.parse(text), Ok(json!({"a": 1})), "{text}");
        }
        for text in ["", "[1]", "no", "{\"a\":", "{\"b\":1}"] {
            assert!(format.parse(text).is_err(), "{text}");
        }
    }

    /// An answer of a list and a text, and what else models write around it.
    #[test]
    fn an_answer_is_read_as_drafts_of_plans_are() {
        let schema = json!({"type": "object", "required": ["best", "tags"], "properties":
            {"best": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}});
        let format = format(schema, &[]);
        for text in [
            "<think>I should answer {\"best\": 1}</think>\n{\"best\": \"x\", \"tags\": [\"a\"]}",
            "I should answer {\"best\": 1}\n</think>\n{\"best\": \"x\", \"tags\": [\"a\"]}",
            "<think>{\"best\": \"y\", \"tags\": []}</think>{\"best\": \"x\", \"tags\": [\"a\"]}",
            "{\"best\": \"x\", \"tags\": [\"a\"]}\n\nNote: this is final.",
            "{\"best\": \"x\", \"tags\": [\"a\"]}\n\nNote: {this} is [final].",
            "{'best': 'x', 'tags': ['a']}",
            "{\"best\": \"x\", \"tags\": [\"a\",],} // done",
            "{\"best\": \"x\", \"tags\": \"[\\\"a\\\"]\"}",
            "Answer:\n```json\n{\"best\": \"x\", /* b */ \"tags\": [\"a\"]}\n```\nDone.",
            "\"{\\\"best\\\": \\\"x\\\", \\\"tags\\\": [\\\"a\\\"]}\"",
        ] {
            assert_eq!(format.parse(text), Ok(json!({"best": "x", "tags": ["a"]})), "{text}");
        }
    }

    #[test]
    fn what_would_be_a_guess_is_asked_again() {
        let format = format(json!({"type": "object", "required": ["best"]}), &[]);
        for text in [
            "{\"best\": \"x\"} or {\"best\": \"y\"}",
            "{\"best\": \"x",
            "{\"best\": \"x\", \"n\": 2 * x}",
            "<think>{\"best\": \"x\"}",
            "{\"best\": x}",
        ] {
            assert!(format.parse(text).is_err(), "{text}: {:?}", format.parse(text));
        }
        let format = self::format(json!({"type": "object", "properties": {"id": {"type": ["string", "array"]}}}), &[]);
        let text = "{\"id\": \"[1]\"}";
        assert_eq!(format.parse(text), Ok(json!({"id": "[1]"})), "a text where the schema wants one stays a text");
    }

    #[test]
    fn expected_outputs_are_required() {
        let format = format(json!({"properties": {"a": {"type": "string"}}}), &["a", "b"]);
        assert_eq!(format.parameters()["required"], json!(["a", "b"]));
        let refused = format.parse("{\"a\": 1}").expect_err("`b` is missing and `a` is no text");
        assert!(refused.contains("\"b\"") && refused.contains("/a"), "{refused}");
    }

    #[test]
    fn an_answer_that_is_no_object_is_wrapped() {
        let format = format(json!({"type": "array", "items": {"type": "number"}}), &[]);
        assert_eq!(format.parameters()["required"], json!(["answer"]));
        assert_eq!(format.parse("{\"answer\": [1, 2]}"), Ok(json!([1, 2])));
        assert!(format.parse("{\"answer\": [\"x\"]}").is_err());
    }

    #[test]
    fn a_schema_without_an_end_is_refused() {
        assert!(AnswerFormat::new(json!({"anyOf": [{"$ref": "#"}]}), &[]).is_err());
    }
}
