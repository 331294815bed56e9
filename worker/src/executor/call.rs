//! How agents outside this process are asked, and how they answer: the same JSON over HTTP and over pipes.
//!
//! Asked: `{"task": {"plan", "step", "attempt", "agent_type", "action", "timeout_ms", "idempotency_key"}, "inputs": …}`.
//! The attempt's token stays here: it is what makes a report genuine.
//!
//! Answered: `{"outputs": …}` with, if wanted, `cost`, `tokens`, `adjustments`, `sub_plan`; any other JSON is the
//! outputs. A failure is `{"error": {"class", "code", "message", "retry_after_ms"}}`.

use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::task::Task;
use serde::{Deserialize, Serialize};

use super::Outcome;

/// Characters of a foreign message that are kept.
const MESSAGE_CHARS_MAX: usize = 500;

#[derive(Serialize)]
struct Call<'a> {
    task: Head<'a>,
    inputs: &'a Json,
}

#[derive(Serialize)]
struct Head<'a> {
    plan: &'a str,
    step: &'a str,
    attempt: u32,
    agent_type: &'a str,
    action: &'a str,
    timeout_ms: u64,
    idempotency_key: &'a str,
}

/// The question, as JSON.
pub(crate) fn ask(task: &Task) -> Vec<u8> {
    let head = Head {
        plan: task.plan.as_str(),
        step: task.step.as_str(),
        attempt: task.attempt,
        agent_type: task.agent_type.as_str(),
        action: &task.action,
        timeout_ms: task.timeout_ms,
        idempotency_key: &task.idempotency_key,
    };
    serde_json::to_vec(&Call { task: head, inputs: &task.inputs }).expect("a task always has a JSON text")
}

#[derive(Deserialize)]
struct Answer {
    outputs: Option<Json>,
    cost: Option<f64>,
    tokens: Option<u64>,
    adjustments: Option<Json>,
    sub_plan: Option<Json>,
    error: Option<Told>,
}

/// A failure as the agent tells it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Told {
    pub class: Option<FailureClass>,
    pub code: Option<String>,
    pub message: Option<String>,
    pub retry_after_ms: Option<u64>,
}

impl Told {
    /// The failure, with what the agent left out filled in.
    pub fn or(self, class: FailureClass, code: &str, message: &str) -> Failure {
        Failure {
            class: self.class.unwrap_or(class),
            code: self.code.filter(|code| is_code(code)).unwrap_or_else(|| code.into()),
            message: clip(&self.message.unwrap_or_else(|| message.into())),
            retry_after_ms: self.retry_after_ms,
        }
    }
}

/// Whether an answer of a failed call tells more.
pub(crate) fn told(bytes: &[u8]) -> Option<Told> {
    serde_json::from_slice::<Answer>(bytes).ok()?.error
}

/// Reads the answer of a call that went well.
pub(crate) fn read(bytes: &[u8]) -> Result<Outcome, Failure> {
    let invalid = |e: serde_json::Error| {
        let message = format!("the agent's answer is not JSON: {e}");
        Failure::new(FailureClass::Permanent, "ANSWER_INVALID", message)
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Outcome::default());
    }
    let text = String::from_utf8_lossy(bytes).trim().to_owned();
    match serde_json::from_str::<Answer>(&text) {
        Ok(Answer { error: Some(told), .. }) => {
            Err(told.or(FailureClass::Permanent, "AGENT_ERROR", "the agent tells of an error without a message"))
        }
        Ok(Answer { outputs: Some(outputs), cost, tokens, adjustments, sub_plan, error: None }) => Ok(Outcome {
            outputs,
            cost: cost.filter(|c| c.is_finite() && *c > 0.0).unwrap_or(0.0),
            tokens: tokens.unwrap_or(0),
            adjustments,
            sub_plan,
        }),
        Ok(Answer { outputs: None, .. }) | Err(_) => Json::from_text(text).map(Outcome::of).map_err(invalid),
    }
}

fn is_code(code: &str) -> bool {
    !code.is_empty()
        && code.len() <= 64
        && code.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// A foreign text, short and in one line.
pub(crate) fn clip(text: &str) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match flat.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &flat[..end]),
        None => flat,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_json_is_the_outputs() {
        for text in ["[1,2]", "3", "null", "{\"hotels\":[]}"] {
            assert_eq!(read(text.as_bytes()).expect("it is JSON").outputs.text(), text);
        }
        assert_eq!(read(b" \n").expect("an empty answer is no error").outputs.text(), "{}");
    }

    #[test]
    fn outputs_may_come_with_their_price() {
        let outcome = read(br#"{"outputs":{"a":1},"cost":0.5,"tokens":7,"adjustments":["x"]}"#).expect("it is valid");
        assert_eq!((outcome.outputs.text(), outcome.cost, outcome.tokens), (r#"{"a":1}"#, 0.5, 7));
        assert_eq!(outcome.adjustments.map(|j| j.text().to_owned()), Some("[\"x\"]".into()));
    }

    #[test]
    fn an_error_in_a_good_answer_is_a_failure() {
        let failure =
            read(br#"{"error":{"class":"rate_limited","code":"SLOW_DOWN","message":"a\n b","retry_after_ms":9}}"#)
                .expect_err("it tells of an error");
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::RateLimited, "SLOW_DOWN"));
        assert_eq!((failure.message.as_str(), failure.retry_after_ms), ("a b", Some(9)));
    }

    #[test]
    fn what_is_not_json_is_a_permanent_failure() {
        let failure = read(b"<html>").expect_err("it is not JSON");
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "ANSWER_INVALID"));
    }

    #[test]
    fn invented_codes_are_not_taken_over() {
        let told = told(br#"{"error":{"code":"no such; code"}}"#).expect("it tells of an error");
        assert_eq!(told.or(FailureClass::Transient, "HTTP_503", "x").code, "HTTP_503");
    }
}
