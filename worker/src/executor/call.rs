//! Calls to agents outside this process: the same JSON over HTTP and over pipes.
//!
//! Request: `{"task": {"plan", "step", "attempt", "agent_type", "action", "timeout_ms", "idempotency_key"}, "inputs": …}`.
//! Where the step says more, `task` has `description`, `expected_outputs`, `expected_output` and `output_schema`.
//! With `callback: true` of the step, `task` has `callback`: `{"url", "token"}`.
//! The attempt's token is not sent: it authenticates reports.
//!
//! Answer: `{"outputs": …}` with, if wanted, `cost`, `currency`, `tokens`, `measures`, `adjustments`, `sub_plan`, or a failure,
//! `{"error": {"class", "code", "message", "retry_after_ms"}}`. An object with one of these two fields is an envelope
//! and is refused when it is invalid; so is an object with `task_id` and `feedback_type`, a feedback document. Any other
//! JSON is the outputs. With `answer: raw` all JSON is the outputs.

use goalmill_common::callback::TaskCallback;
use goalmill_common::error_body::quote_beginning;
use goalmill_common::failure::{ERRORS_MAX, Failure, FailureClass, FailureEffect, read_effect};
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::json_limits::COST_MAX;
use goalmill_common::task::Task;
use serde::{Deserialize, Serialize};

use super::ExecutionResult;
use super::answer_fields::{Fields, RAW, clip, field, invalid};
use super::feedback::{is_feedback, parse_feedback};

#[derive(Serialize)]
struct Call<'a> {
    task: TaskHead<'a>,
    inputs: &'a Json,
}

#[derive(Serialize)]
struct TaskHead<'a> {
    plan: &'a str,
    step: &'a str,
    attempt: u32,
    agent_type: &'a str,
    action: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    expected_outputs: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    expected_output: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<&'a Json>,
    timeout_ms: u64,
    idempotency_key: &'a str,
    /// Where the outcome may be sent later, after `202` or `{"accepted": true}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    callback: Option<&'a TaskCallback>,
}

/// The request body.
pub(crate) fn encode_request(task: &Task) -> Vec<u8> {
    let head = TaskHead {
        plan: task.plan.as_str(),
        step: task.step.as_str(),
        attempt: task.attempt,
        agent_type: task.agent_type.as_str(),
        action: &task.action,
        description: &task.description,
        expected_outputs: &task.expected_outputs,
        expected_output: &task.expected_output,
        output_schema: task.output_schema.as_ref(),
        timeout_ms: task.timeout_ms,
        idempotency_key: &task.idempotency_key,
        callback: task.callback.as_ref(),
    };
    serde_json::to_vec(&Call { task: head, inputs: &task.inputs }).expect("a task always has a JSON text")
}

/// The form of an agent's answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerForm {
    /// An object with `outputs` or `error` is an envelope; any other JSON is the outputs.
    #[default]
    Envelope,
    /// Any JSON is the outputs, whatever its fields are called.
    Raw,
}

/// A failure as the agent reports it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct AgentError {
    pub class: Option<FailureClass>,
    pub code: Option<String>,
    pub message: Option<String>,
    pub retry_after_ms: Option<u64>,
    #[serde(default, alias = "outcome_unknown", deserialize_with = "read_effect")]
    pub effect: Option<FailureEffect>,
    /// Beside `error` in the envelope.
    #[serde(default, skip_deserializing)]
    pub errors: Vec<AgentError>,
}

impl AgentError {
    /// The failure, with defaults for missing fields.
    pub fn into_failure(self, class: FailureClass, code: &str, message: &str) -> Failure {
        let errors = self.errors.into_iter().take(ERRORS_MAX).map(|error| error.into_failure(class, code, message));
        Failure {
            errors: errors.collect(),
            class: self.class.unwrap_or(class),
            code: self.code.filter(|code| is_code(code)).unwrap_or_else(|| code.into()),
            message: clip(&self.message.unwrap_or_else(|| message.into())),
            retry_after_ms: self.retry_after_ms,
            effect: self.effect,
        }
    }
}

/// The `error` in the answer of a failed call.
pub(crate) fn parse_error(bytes: &[u8], form: AnswerForm) -> Option<AgentError> {
    let fields = (form == AnswerForm::Envelope).then(|| serde_json::from_slice::<Fields>(bytes).ok())??;
    let mut error: AgentError = serde_json::from_str(fields.get("error")?.text()).ok()?;
    error.errors = fields.get("errors").and_then(|errors| serde_json::from_str(errors.text()).ok()).unwrap_or_default();
    Some(error)
}

/// Parses the answer of a successful call.
///
/// - `step`: the step that the agent was asked to run.
pub fn parse_answer(bytes: &[u8], form: AnswerForm, step: &StepId) -> Result<ExecutionResult, Failure> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(empty("is empty"));
    }
    let text =
        std::str::from_utf8(bytes).map_err(|e| invalid(&format!("is not UTF-8 from byte {}", e.valid_up_to())))?;
    let json = Json::from_text(text.trim().to_owned()).map_err(|e| invalid(&not_json(text.trim(), &e)))?;
    if json.is_null() {
        return Err(empty("is `null`"));
    }
    if form == AnswerForm::Raw || !json.text().starts_with('{') {
        return Ok(ExecutionResult::new(json));
    }
    // A key that is no string makes the object unreadable.
    let fields: Fields = serde_json::from_str(json.text()).map_err(|e| invalid(&format!("cannot be read: {e}")))?;
    if fields.contains_key("error") || fields.contains_key("outputs") {
        parse_envelope(fields)
    } else if is_feedback(&fields) {
        parse_feedback(fields, step)
    } else {
        Ok(ExecutionResult::new(json))
    }
}

/// Parses an envelope; refuses fields that it cannot parse.
fn parse_envelope(mut fields: Fields) -> Result<ExecutionResult, Failure> {
    let errors: Vec<AgentError> =
        field(&mut fields, "errors", "a list of objects with `class`, `code` and `message`")?.unwrap_or_default();
    let error: Option<AgentError> = field(&mut fields, "error", "an object with `class`, `code` and `message`")?;
    let (outputs, failure) = match (error, fields.remove("outputs")) {
        // What the agent has spent, and what it suggests, counts also when it fails.
        (Some(error), _) => (Json::empty_object(), Some(into_error(AgentError { errors: errors.clone(), ..error }))),
        (None, Some(outputs)) if outputs.is_null() && !fields.contains_key("sub_plan") => {
            return Err(empty("has `null` at `/outputs`"));
        }
        (None, Some(outputs)) => (outputs, None),
        (None, None) => {
            let wrong = "is not valid at `/outputs`: an envelope has `outputs` or an `error` that is not null";
            return Err(invalid(&format!("{wrong}; {RAW}")));
        }
    };
    let most = format!("a number in 0..={COST_MAX}");
    Ok(ExecutionResult {
        outputs,
        failure,
        cost: field(&mut fields, "cost", &most)?.unwrap_or(0.0),
        tokens: field(&mut fields, "tokens", "a whole number that is not negative")?.unwrap_or(0),
        usage: field(&mut fields, "usage", "an object with `prompt_tokens` and `completion_tokens`")?,
        partial: field(&mut fields, "partial", "true or false")?.unwrap_or(false),
        errors: errors.into_iter().take(ERRORS_MAX).map(into_error).collect(),
        suggested_adjustments: field(&mut fields, "suggested_adjustments", SUGGESTIONS)?.unwrap_or_default(),
        currency: field(&mut fields, "currency", "a code of ISO 4217 such as `EUR`")?,
        measures: field(&mut fields, "measures", "an object of numbers")?.unwrap_or_default(),
        adjustments: fields.remove("adjustments").filter(|json| !json.is_null()),
        sub_plan: fields.remove("sub_plan").filter(|json| !json.is_null()),
    })
}

/// What a list of suggestions must be.
const SUGGESTIONS: &str = "a list of objects with `description`, and if wanted `priority` (1 to 10) and `step`";

fn into_error(error: AgentError) -> Failure {
    error.into_failure(FailureClass::Permanent, "AGENT_ERROR", "the agent reported an error without a message")
}

/// An answer with nothing in it: the agent may not have done anything.
fn empty(what: &str) -> Failure {
    let message = format!("the agent's answer {what}: answer with `{{}}` if there are no outputs");
    Failure::new(FailureClass::Permanent, "ANSWER_EMPTY", message)
}

/// Says why a text is not JSON, with its beginning.
fn not_json(text: &str, error: &serde_json::Error) -> String {
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let from = line.floor_char_boundary(error.column().saturating_sub(1));
    let rest = line[from..].trim_start_matches(['-', '+']);
    let word = ["NaN", "Infinity", "None", "True", "False", "undefined"].iter().find(|word| rest.starts_with(**word));
    let word = word.map(|word| format!("`{word}` is no JSON: ")).unwrap_or_default();
    format!("is not JSON: {word}{error}; it begins with `{}`", quote_beginning(text))
}

fn is_code(code: &str) -> bool {
    !code.is_empty()
        && code.len() <= 64
        && code.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENVELOPE: AnswerForm = AnswerForm::Envelope;

    fn parse_answer(bytes: &[u8], form: AnswerForm) -> Result<ExecutionResult, Failure> {
        super::parse_answer(bytes, form, &StepId::from("a"))
    }

    #[test]
    fn an_envelope_that_cannot_be_read_is_never_taken_for_outputs() {
        for (text, place) in [
            (r#"{"error":"boom"}"#, "`/error`"),
            (r#"{"error":{"class":"retryable","message":"x"}}"#, "`/error`"),
            (r#"{"error":["boom"],"outputs":{}}"#, "`/error`"),
            (r#"{"error":null}"#, "`/outputs`"),
            (r#"{"outputs":{"a":1},"cost":"5"}"#, "`/cost`"),
            (r#"{"outputs":{"a":1},"cost":1e999}"#, "`/cost`"),
            (r#"{"outputs":{"a":1},"tokens":-1}"#, "`/tokens`"),
            (r#"{"outputs":{"a":1},"tokens":1.5}"#, "`/tokens`"),
        ] {
            let failure = parse_answer(text.as_bytes(), ENVELOPE).expect_err(text);
            assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "ANSWER_INVALID"), "{text}");
            assert!(failure.message.contains(place) && failure.message.contains("raw"), "{text}: {}", failure.message);
            let raw = parse_answer(text.as_bytes(), AnswerForm::Raw).expect("a raw answer is the outputs");
            assert_eq!(raw.outputs.text(), text);
        }
    }

    #[test]
    fn an_answer_without_anything_is_refused() {
        for text in ["", " \n", "null", r#"{"outputs":null}"#, r#"{"outputs":null,"error":null,"cost":null}"#] {
            let failure = parse_answer(text.as_bytes(), ENVELOPE).expect_err(text);
            assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "ANSWER_EMPTY"), "{text}");
            assert!(failure.message.contains("`{}`"), "{text}: {}", failure.message);
        }
        let outcome = parse_answer(br#"{"outputs":{},"error":null,"cost":null}"#, ENVELOPE).expect("it is an envelope");
        assert_eq!((outcome.outputs.text(), outcome.cost), ("{}", 0.0));
        assert!(parse_answer(br#"{"outputs":null,"sub_plan":{"steps":[]}}"#, ENVELOPE).is_ok());
    }

    #[test]
    fn an_answer_that_is_not_json_is_quoted() {
        for (text, part) in [
            ("<html><body>502 Bad gateway</body></html>", "`<html><body>502 Bad gateway</body></html>`"),
            ("Loading model...\n{\"outputs\": {\"ok\": 1}}", "`Loading model... {"),
            ("{\"score\": NaN}", "`NaN` is no JSON"),
            ("{\"score\": -Infinity}", "`Infinity` is no JSON"),
            ("{'a': None}", "{'a': None}"),
        ] {
            let failure = parse_answer(text.as_bytes(), ENVELOPE).expect_err(text);
            assert_eq!(failure.code, "ANSWER_INVALID");
            assert!(failure.message.contains(part), "{text}: {}", failure.message);
        }
    }

    #[test]
    fn an_answer_that_is_not_utf_8_is_refused() {
        for form in [ENVELOPE, AnswerForm::Raw] {
            let failure = parse_answer(b"{\"a\":\"\xff\"}", form).expect_err("it is not UTF-8");
            assert_eq!(failure.code, "ANSWER_INVALID");
            assert!(failure.message.contains("byte 6"), "{}", failure.message);
        }
    }

    #[test]
    fn any_json_is_the_outputs() {
        for text in ["[1,2]", "3", "{\"hotels\":[]}"] {
            assert_eq!(parse_answer(text.as_bytes(), ENVELOPE).expect("it is JSON").outputs.text(), text);
        }
    }

    #[test]
    fn outputs_may_come_with_their_price() {
        let outcome = parse_answer(br#"{"outputs":{"a":1},"cost":0.5,"tokens":7,"adjustments":["x"]}"#, ENVELOPE)
            .expect("it is valid");
        assert_eq!((outcome.outputs.text(), outcome.cost, outcome.tokens), (r#"{"a":1}"#, 0.5, 7));
        assert_eq!(outcome.adjustments.map(|j| j.text().to_owned()), Some("[\"x\"]".into()));
    }

    #[test]
    fn an_error_in_a_good_answer_is_a_failure() {
        let result = parse_answer(
            br#"{"error":{"class":"rate_limited","code":"SLOW_DOWN","message":"a\n b","retry_after_ms":9},"cost":0.5}"#,
            ENVELOPE,
        )
        .expect("it is an envelope");
        assert_eq!(result.cost, 0.5, "what a failed attempt has spent counts");
        let failure = result.failure.expect("it has an error");
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::RateLimited, "SLOW_DOWN"));
        assert_eq!((failure.message.as_str(), failure.retry_after_ms), ("a b", Some(9)));
    }

    #[test]
    fn what_is_not_json_is_a_permanent_failure() {
        let failure = parse_answer(b"<html>", ENVELOPE).expect_err("it is not JSON");
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "ANSWER_INVALID"));
    }

    #[test]
    fn invented_codes_are_not_taken_over() {
        let error = parse_error(br#"{"error":{"code":"no such; code"}}"#, ENVELOPE).expect("it has an error");
        assert_eq!(error.into_failure(FailureClass::Transient, "HTTP_503", "x").code, "HTTP_503");
    }
}
