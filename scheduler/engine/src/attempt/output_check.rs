//! Checks a step's outputs against its `expected_outputs` and `output_schema`.

use goalmill_common::blob_ref;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::Step;
use goalmill_plan::schema::{Schema, TooMuchWork, Unusable};

/// Longest message about a mismatch, in characters: it may quote the payload.
const MESSAGE_CHARS_MAX: usize = 300;

/// Returns why outputs are refused; `None` when they are valid.
pub(crate) fn check_outputs(step: &Step, outputs: &Json, limits: &Limits) -> Option<Failure> {
    let bytes = outputs.text().len();
    if bytes > limits.payload_bytes_max {
        let message =
            format!("the outputs have {bytes} bytes, more than `payload_bytes_max` ({})", limits.payload_bytes_max);
        return Some(Failure::new(FailureClass::Permanent, "OUTPUT_TOO_LARGE", message));
    }
    if step.expected_outputs.is_empty() && step.output_schema.is_none() {
        return None;
    }
    let value = outputs.value();
    if blob_ref::key(&value).is_some() {
        // The outputs are a blob reference as a whole.
        return None;
    }
    let missing = step.expected_outputs.iter().find(|name| value.get(name.as_str()).is_none());
    if let Some(name) = missing {
        return Some(unexpected(&format!("the outputs have no `{name}`")));
    }
    let failure = match schema_mismatch(step.output_schema.as_ref()?, outputs)? {
        Mismatch::Value(detail) => unexpected(&format!("the outputs do not match `output_schema`: {detail}")),
        Mismatch::Schema(unusable) => {
            let message =
                format!("the outputs cannot be checked: `output_schema` is no usable schema: {}", unusable.detail);
            Failure::new(FailureClass::Permanent, unusable.code, clipped(&message))
        }
        Mismatch::WorkLimit(much) => {
            let message =
                format!("the outputs cannot be checked: {much}; let the step give less, or simplify `output_schema`");
            Failure::new(FailureClass::Permanent, "OUTPUT_TOO_COMPLEX", message)
        }
    };
    Some(failure)
}

/// Why a value does not match a schema.
#[derive(Debug)]
pub(crate) enum Mismatch {
    /// The value does not match.
    Value(String),
    /// The schema is unusable: an older version accepted it.
    Schema(Unusable),
    /// The check exceeds its work limit.
    WorkLimit(TooMuchWork),
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(detail) => f.write_str(detail),
            Self::Schema(unusable) => write!(f, "it is no usable schema: {}", unusable.detail),
            Self::WorkLimit(much) => much.fmt(f),
        }
    }
}

/// Returns where a value does not match a schema; `None` when it matches.
pub(crate) fn schema_mismatch(schema: &Json, value: &Json) -> Option<Mismatch> {
    let schema = match Schema::cached_outputs(schema) {
        Ok(schema) => schema,
        Err(unusable) => return Some(Mismatch::Schema(unusable)),
    };
    let value = value.value();
    let validator = match schema.for_value(&value) {
        Ok(validator) => validator,
        Err(much) => return Some(Mismatch::WorkLimit(much)),
    };
    if validator.is_valid(&value) {
        return None;
    }
    let error = validator.iter_errors(&value).find(|error| blob_ref::key(error.instance()).is_none())?;
    let place = error.instance_path().to_string();
    let place = if place.is_empty() { "/" } else { &place };
    Some(Mismatch::Value(clipped(&format!("at `{place}`: {error}"))))
}

fn unexpected(message: &str) -> Failure {
    Failure::new(FailureClass::ConstraintViolation, "UNEXPECTED_RESULT", clipped(message))
}

fn clipped(message: &str) -> String {
    message.chars().take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_put_aside_is_there_though_nobody_sees_it() {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "number"}}});
        let expected_outputs = vec!["text".into(), "n".into()];
        let step = Step { expected_outputs, output_schema: Some(schema.into()), ..Step::new("a", "w") };
        let aside = json!({"$blob": "its key", "bytes": 300_000});
        assert_eq!(refusal(&step, aside.clone()), None);
        assert_eq!(refusal(&step, json!({"text": aside, "n": 1})), None);
        assert!(refusal(&step, json!({"text": aside, "n": "1"})).is_some());
        assert!(refusal(&step, json!({"text": aside})).is_some());
    }

    #[test]
    fn outputs_must_have_the_expected_fields() {
        let step = Step { expected_outputs: vec!["price".into()], ..Step::new("a", "w") };
        assert_eq!(refusal(&step, json!({"price": 1})), None);
        assert!(refusal(&step, json!({"cost": 1})).unwrap().contains("`price`"));
        assert!(refusal(&step, json!(7)).is_some());
    }

    #[test]
    fn outputs_must_match_the_schema() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let step = Step { output_schema: Some(schema.into()), ..Step::new("a", "w") };
        assert_eq!(refusal(&step, json!({"n": 1})), None);
        assert!(refusal(&step, json!({"n": "x"})).unwrap().contains("`/n`"));
    }

    #[test]
    fn a_schema_that_points_elsewhere_is_not_fetched() {
        let step = Step { output_schema: Some(json!({"$ref": "http://127.0.0.1:1/x"}).into()), ..Step::new("a", "w") };
        assert!(refusal(&step, json!({})).is_some());
    }

    #[test]
    fn a_schema_that_an_older_version_accepted_is_never_evaluated() {
        let defs: serde_json::Map<_, _> = (0..60)
            .map(|n| {
                let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
                (format!("d{n}"), json!({"allOf": [next, next]}))
            })
            .chain([("d60".to_owned(), json!({}))])
            .collect();
        let schema = json!({"$ref": "#/$defs/d0", "$defs": defs});
        let step = Step { output_schema: Some(schema.into()), ..Step::new("a", "w") };
        let failure = check_outputs(&step, &json!({}).into(), &Limits::default());
        assert_eq!(failure.expect("it is refused").code, "SCHEMA_TOO_COMPLEX");
    }

    #[test]
    fn outputs_that_take_too_much_work_fail_the_step() {
        let schema = json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
        let step = Step { output_schema: Some(schema.into()), ..Step::new("a", "w") };
        let value = (0..50).fold(json!({}), |inner, _| json!({"a": inner}));
        let failure = check_outputs(&step, &value.into(), &Limits::default());
        assert_eq!(failure.expect("it is refused").code, "OUTPUT_TOO_COMPLEX");
    }

    #[test]
    fn outputs_over_the_limit_are_refused() {
        let limits = Limits { payload_bytes_max: 8, ..Limits::default() };
        let failure = check_outputs(&Step::new("a", "w"), &json!("123456789").into(), &limits);
        assert_eq!(failure.unwrap().code, "OUTPUT_TOO_LARGE");
    }

    fn refusal(step: &Step, value: serde_json::Value) -> Option<String> {
        check_outputs(step, &value.into(), &Limits::default()).map(|failure| failure.message)
    }
}
