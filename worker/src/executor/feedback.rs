//! Feedback documents of the form `subtasks` (`docs/formats.md`) as answers of agents.
//!
//! `{"task_id", "feedback_type", "actual_outputs", "errors", "duration_seconds", "cost", "suggested_adjustments"}` with
//! `feedback_type` one of `success`, `partial_success`, `failure`, `constraint_violation`, `dependency_failure`.

use goalmill_common::failure::{ERRORS_MAX, Failure, FailureClass};
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::report::{DEFAULT_PRIORITY, SuggestedAdjustment};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ExecutionResult;
use super::answer_fields::{Fields, clip, field, invalid};

/// A feedback document as the envelope of an agent's answer; `None` if the text is no such document.
pub fn feedback_envelope(text: &[u8]) -> Option<Result<Value, Failure>> {
    let fields: Fields = serde_json::from_slice(text).ok()?;
    let step: Option<StepId> = fields.get("task_id").and_then(|id| serde_json::from_str(id.text()).ok());
    is_feedback(&fields)
        .then(|| parse_feedback(fields, &step.unwrap_or_else(|| StepId::from(""))).map(|result| envelope(&result)))
}

/// What an agent would answer to say the same.
fn envelope(result: &ExecutionResult) -> Value {
    let mut answer = Map::new();
    let mut errors = result.errors.iter().map(error).collect::<Vec<_>>();
    match &result.failure {
        Some(failure) => {
            answer.insert("error".into(), error(failure));
            errors.extend(failure.errors.iter().map(error));
        }
        None => {
            answer.insert("outputs".into(), result.outputs.value());
        }
    }
    let optional = [
        ("partial", result.partial, json!(true)),
        ("errors", !errors.is_empty(), json!(errors)),
        ("cost", result.cost > 0.0, json!(result.cost)),
        ("suggested_adjustments", !result.suggested_adjustments.is_empty(), json!(result.suggested_adjustments)),
    ];
    answer
        .extend(optional.into_iter().filter(|(_, is_there, _)| *is_there).map(|(name, _, value)| (name.into(), value)));
    Value::Object(answer)
}

fn error(failure: &Failure) -> Value {
    json!({"class": failure.class, "code": failure.code, "message": failure.message})
}

/// Whether an object is a feedback document.
pub(super) fn is_feedback(fields: &Fields) -> bool {
    fields.contains_key("task_id") && fields.contains_key("feedback_type")
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FeedbackType {
    Success,
    PartialSuccess,
    Failure,
    ConstraintViolation,
    DependencyFailure,
}

impl FeedbackType {
    /// Class and code of the failure; `None` if the step has outputs.
    fn failure(self) -> Option<(FailureClass, &'static str)> {
        match self {
            Self::Success | Self::PartialSuccess => None,
            // The form leaves retries to the step's `retry_policy`.
            Self::Failure => Some((FailureClass::Transient, "TASK_FAILED")),
            Self::ConstraintViolation => Some((FailureClass::ConstraintViolation, "CONSTRAINT_VIOLATION")),
            Self::DependencyFailure => Some((FailureClass::Permanent, "DEPENDENCY_FAILURE")),
        }
    }
}

/// What an agent suggests: one text, texts, or objects as in reports.
#[derive(Deserialize)]
#[serde(untagged)]
enum Suggestions {
    Text(String),
    List(Vec<Suggestion>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Suggestion {
    Text(String),
    Whole(SuggestedAdjustment),
}

impl Suggestions {
    fn into_adjustments(self) -> Vec<SuggestedAdjustment> {
        let list = match self {
            Self::Text(text) => vec![Suggestion::Text(text)],
            Self::List(list) => list,
        };
        let adjustment = |suggestion| match suggestion {
            Suggestion::Whole(adjustment) => adjustment,
            Suggestion::Text(text) => {
                SuggestedAdjustment { description: clip(&text), priority: DEFAULT_PRIORITY, step: None }
            }
        };
        list.into_iter().take(ERRORS_MAX).map(adjustment).filter(|one| !one.description.is_empty()).collect()
    }
}

/// Converts a feedback document; refuses one about another step, and fields that it cannot read.
///
/// - `step`: the step that the agent was asked to run.
pub(super) fn parse_feedback(mut fields: Fields, step: &StepId) -> Result<ExecutionResult, Failure> {
    let about: Option<String> = field(&mut fields, "task_id", "a text")?;
    if about.as_deref() != Some(step.as_str()) {
        return Err(invalid(&format!("is not valid at `/task_id`: it must be `{step}`, the step of this task")));
    }
    let kinds = "`success`, `partial_success`, `failure`, `constraint_violation` or `dependency_failure`";
    let Some(kind) = field::<FeedbackType>(&mut fields, "feedback_type", kinds)? else {
        return Err(invalid(&format!("is not valid at `/feedback_type`: it must be {kinds}")));
    };
    let errors: Vec<String> =
        field::<Option<_>>(&mut fields, "errors", "a list of texts")?.flatten().unwrap_or_default();
    let suggested: Option<Suggestions> =
        field::<Option<_>>(&mut fields, "suggested_adjustments", "a text, or a list of texts or objects")?.flatten();
    let cost: Option<f64> = field::<Option<_>>(&mut fields, "cost", "a number that is not negative")?.flatten();
    let (class, code) = kind.failure().unwrap_or((FailureClass::Permanent, "AGENT_ERROR"));
    let mut failures = errors.iter().take(ERRORS_MAX).map(|error| Failure::new(class, code, clip(error)));
    let result = ExecutionResult {
        cost: cost.unwrap_or(0.0),
        suggested_adjustments: suggested.map(Suggestions::into_adjustments).unwrap_or_default(),
        ..ExecutionResult::default()
    };
    if kind.failure().is_some() {
        let first = failures.next().unwrap_or_else(|| Failure::new(class, code, "the agent reported no error"));
        let failure = Failure { errors: failures.collect(), ..first };
        return Ok(ExecutionResult { failure: Some(failure), ..result });
    }
    let outputs = fields.remove("actual_outputs").filter(|outputs| !outputs.is_null());
    Ok(ExecutionResult {
        outputs: outputs.unwrap_or_else(Json::empty_object),
        partial: kind == FeedbackType::PartialSuccess,
        errors: failures.collect(),
        ..result
    })
}

#[cfg(test)]
mod tests {
    use goalmill_common::id::StepId;

    use super::super::call::{AnswerForm, parse_answer};
    use super::*;

    fn parse(text: &str) -> Result<ExecutionResult, Failure> {
        parse_answer(text.as_bytes(), AnswerForm::Envelope, &StepId::from("task_001"))
    }

    #[test]
    fn a_violated_constraint_keeps_its_errors_suggestions_and_cost() {
        let text = r#"{"task_id":"task_001","feedback_type":"constraint_violation","actual_outputs":{"venue_list":"[]"},
            "errors":["No venue below 3000 EUR","none\nnear"],"duration_seconds":12,"cost":0.03,
            "suggested_adjustments":"allow venues in the suburbs"}"#;
        let result = parse(text).expect("it is a feedback document");
        let failure = result.failure.expect("it failed");
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::ConstraintViolation, "CONSTRAINT_VIOLATION"));
        assert_eq!((failure.message.as_str(), failure.errors.len()), ("No venue below 3000 EUR", 1));
        assert_eq!(failure.errors[0].message, "none near");
        assert_eq!((result.cost, result.suggested_adjustments.len()), (0.03, 1));
        assert_eq!(result.suggested_adjustments[0].description, "allow venues in the suburbs");
    }

    #[test]
    fn success_has_outputs_and_partial_success_says_what_is_missing() {
        let done = parse(r#"{"task_id":"task_001","feedback_type":"success","actual_outputs":{"a":1},"errors":null}"#)
            .expect("it is a feedback document");
        assert_eq!((done.outputs.text(), done.partial, done.failure), (r#"{"a":1}"#, false, None));
        let part = parse(
            r#"{"task_id":"task_001","feedback_type":"partial_success","actual_outputs":{"a":1},"errors":["no b"],
                "suggested_adjustments":["ask again",{"description":"use inns","priority":9}]}"#,
        )
        .expect("it is a feedback document");
        assert_eq!((part.partial, part.errors[0].message.as_str()), (true, "no b"));
        let suggested: Vec<_> =
            part.suggested_adjustments.iter().map(|s| (s.description.as_str(), s.priority)).collect();
        assert_eq!(suggested, [("ask again", DEFAULT_PRIORITY), ("use inns", 9)]);
    }

    #[test]
    fn the_envelope_of_a_feedback_document_says_the_same() {
        for text in [
            r#"{"task_id":"task_001","feedback_type":"constraint_violation","errors":["a","b"],"cost":0.03,
                "suggested_adjustments":"more"}"#,
            r#"{"task_id":"task_001","feedback_type":"partial_success","actual_outputs":{"a":1},"errors":["no b"]}"#,
            r#"{"task_id":"task_001","feedback_type":"success"}"#,
        ] {
            let envelope = feedback_envelope(text.as_bytes()).expect("it is feedback").expect("it can be read");
            let (again, first) = (parse(&envelope.to_string()).expect("it can be read"), parse(text).expect("it can"));
            // The errors of a failure are in the failure.
            let errors = if again.failure.is_some() { Vec::new() } else { again.errors.clone() };
            assert_eq!(ExecutionResult { errors, ..again }, first, "{envelope}");
        }
        assert!(feedback_envelope(br#"{"task_id":"a"}"#).is_none());
        let refused = feedback_envelope(br#"{"task_id":"a","feedback_type":"done"}"#).expect("it is feedback");
        assert!(refused.is_err());
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_place() {
        for (text, place) in [
            (r#"{"task_id":"task_002","feedback_type":"success"}"#, "`/task_id`"),
            (r#"{"task_id":"task_001","feedback_type":"done"}"#, "`/feedback_type`"),
            (r#"{"task_id":"task_001","feedback_type":"failure","errors":"boom"}"#, "`/errors`"),
            (r#"{"task_id":"task_001","feedback_type":"failure","cost":"5"}"#, "`/cost`"),
            (
                r#"{"task_id":"task_001","feedback_type":"success","suggested_adjustments":7}"#,
                "`/suggested_adjustments`",
            ),
        ] {
            let failure = parse(text).expect_err(text);
            assert_eq!(failure.code, "ANSWER_INVALID");
            assert!(failure.message.contains(place), "{text}: {}", failure.message);
        }
    }
}
