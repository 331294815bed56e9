//! `http`: posts the task to a web service; any web service is an agent.
//!
//! `{"kind": "http", "url": "http://127.0.0.1:9000/search", "headers": {"authorization": "…"}, "timeout_ms": 30000}`
//!
//! | answer | failure class | code |
//! |---|---|---|
//! | 2xx with JSON, 204 | none | |
//! | 202 to a task with a `callback`: the outcome comes later | none | |
//! | 202 to another task: the work is not done | permanent | `HTTP_202` |
//! | another 2xx without a body, or with `null` | permanent | `ANSWER_EMPTY` |
//! | 408, 425, 5xx, no connection, broken answer | transient | `HTTP_<status>`, `HTTP_UNREACHABLE` |
//! | `timeout_ms` is over | timeout | `HTTP_TIMEOUT` |
//! | 429, 529, or 503 with a time to wait | rate_limited | `HTTP_<status>` |
//! | other 3xx and 4xx | permanent | `HTTP_<status>` |
//!
//! The time to wait is in `Retry-After` or `retry-after-ms` ([`goalmill_common::retry_after`]). A body `{"error": {…}}`
//! wins over the status; what any other body says is quoted. With `"answer": "raw"` the
//! body is never read as an envelope.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::callback::ACCEPTED;
use goalmill_common::clock::Clock;
use goalmill_common::error_body::quote_error_body;
use goalmill_common::failure::{Failure, FailureClass, FailureEffect};
use goalmill_common::limits::Limits;
use goalmill_common::retry_after::read_retry_after;
use goalmill_common::task::Task;
use goalmill_http::{BodyError, client_failure, read_body};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{AnswerForm, ExecutionResult, Executor, Progress, call, clip};

/// Redirects that are followed, within one host: to another one the headers would carry secrets.
const REDIRECTS_MAX: usize = 3;
/// Milliseconds to wait for a connection.
const CONNECT_MS: u64 = 5_000;
/// Bytes of an answer besides the outputs.
const FRAME_BYTES_MAX: usize = 64 << 10;
/// What to do about an answer that is not the outcome.
const NOT_DONE: &str = "the work is accepted and not done: answer with the outcome when it is done, give the step \
    `callback: true`, or let the agent pull its tasks from Redis (docs/protocol.md)";

/// Where an agent is, and how it is asked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    pub url: String,
    /// Sent with every call; a value is never logged.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Milliseconds for one call; the step's own limit holds as well.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Whether answers are envelopes (`envelope`, unless given) or bare JSON (`raw`).
    #[serde(default)]
    pub answer: AnswerForm,
}

/// Posts tasks to one address.
pub struct HttpExecutor {
    client: Client,
    url: Url,
    /// Values of headers, which no failure repeats.
    secrets: Vec<String>,
    answer: AnswerForm,
    answer_bytes_max: usize,
    clock: Clock,
}

impl HttpExecutor {
    /// Checks the settings; the error is a sentence for people.
    pub fn new(settings: HttpSettings, limits: &Limits) -> Result<Self, String> {
        let url = parse_address(&settings.url)?;
        let headers = parse_headers(&settings.headers)?;
        // No redirect leads to another scheme.
        let mut builder = goalmill_http::client(url.scheme() == "https")
            .default_headers(headers)
            .redirect(redirect::Policy::custom(follow))
            .connect_timeout(Duration::from_millis(CONNECT_MS));
        if let Some(timeout_ms) = settings.timeout_ms {
            builder = builder.timeout(Duration::from_millis(timeout_ms.min(limits.timeout_ms_max)));
        }
        let client = builder.build().map_err(|e| format!("the http client cannot be made: {}", client_failure(&e)))?;
        let answer_bytes_max = limits.payload_bytes_max + FRAME_BYTES_MAX;
        let secrets = settings.headers.into_values().collect();
        Ok(Self { client, url, secrets, answer: settings.answer, answer_bytes_max, clock: Clock::system() })
    }

    async fn body(&self, response: Response) -> Result<Vec<u8>, Failure> {
        read_body(response, self.answer_bytes_max).await.map_err(|error| match error {
            BodyError::Failed(error) => unreachable(&error),
            BodyError::TooLarge(bytes) => {
                let message = format!("the agent's answer has more than {bytes} bytes");
                Failure::new(FailureClass::Permanent, "OUTPUT_TOO_LARGE", message)
            }
        })
    }
}

#[async_trait]
impl Executor for HttpExecutor {
    async fn execute(&self, task: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        let mut request = self
            .client
            .post(self.url.clone())
            .header("content-type", "application/json")
            .header("accept", "application/json")
            .header("idempotency-key", &task.idempotency_key)
            .body(call::encode_request(task));
        if let Some(traceparent) = task.safe_traceparent() {
            request = request.header("traceparent", traceparent);
        }
        let response = request.send().await.map_err(|e| unreachable(&e))?;
        let status = response.status();
        let retry_after_ms = self.retry_after_ms(response.headers());
        let body = self.body(response).await?;
        if matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT) && body.is_empty() {
            return Ok(ExecutionResult::default());
        }
        if status == StatusCode::ACCEPTED && task.callback.is_some() {
            return Ok(ExecutionResult::new(json!({ ACCEPTED: true })));
        }
        if status.is_success() && status != StatusCode::ACCEPTED {
            return call::parse_answer(&body, self.answer, &task.step);
        }
        let class = class_of(status, retry_after_ms.is_some());
        let code = format!("HTTP_{}", status.as_u16());
        let message = self.describe(status, &body);
        let error = call::parse_error(&body, self.answer);
        // A gateway, or a server that broke down, does not know what the agent did. An agent that names a class does.
        let is_known = error.as_ref().is_some_and(|error| error.class.is_some()) || class == FailureClass::RateLimited;
        let mut failure = match error {
            Some(error) => error.into_failure(class, &code, &message),
            None => Failure::new(class, code, message),
        };
        let is_cut = !is_known && (status.is_server_error() || status == StatusCode::ACCEPTED);
        failure.effect = failure.effect.or(is_cut.then_some(FailureEffect::Unknown));
        failure.retry_after_ms = failure.retry_after_ms.or(retry_after_ms);
        Err(failure)
    }
}

impl HttpExecutor {
    fn retry_after_ms(&self, headers: &HeaderMap) -> Option<u64> {
        read_retry_after(|name| headers.get(name)?.to_str().ok(), self.clock.now_ms())
    }

    /// What an answer without an outcome says.
    fn describe(&self, status: StatusCode, body: &[u8]) -> String {
        if status == StatusCode::ACCEPTED {
            return format!("the agent answered {status}: {NOT_DONE}");
        }
        // The values alone, and without a word such as `Bearer` before them.
        let secrets = self.secrets.iter().flat_map(|value| [value.as_str(), value.rsplit(' ').next().unwrap_or("")]);
        match quote_error_body(body, secrets) {
            Some(said) => format!("the agent answered {}: {said}", status.as_u16()),
            None => format!("the agent answered {status}"),
        }
    }
}

fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let origin = |url: &Url| url.origin();
    let away = attempt.previous().first().is_some_and(|first| origin(first) != origin(attempt.url()));
    if attempt.previous().len() > REDIRECTS_MAX {
        attempt.error("too many redirects")
    } else if away {
        attempt.stop()
    } else {
        attempt.follow()
    }
}

fn class_of(status: StatusCode, says_when: bool) -> FailureClass {
    match status.as_u16() {
        429 | 529 => FailureClass::RateLimited,
        503 if says_when => FailureClass::RateLimited,
        408 | 425 | 500..=599 => FailureClass::Transient,
        _ => FailureClass::Permanent,
    }
}

/// The failure of a call that got no answer, or half of one. The address stays out of the message: it may hold secrets.
fn unreachable(error: &reqwest::Error) -> Failure {
    if error.is_timeout() {
        let failure = Failure::new(FailureClass::Timeout, "HTTP_TIMEOUT", "the agent did not answer in time");
        return if error.is_connect() { failure.without_effect() } else { failure };
    }
    if error.is_redirect() {
        return Failure::new(FailureClass::Permanent, "HTTP_REDIRECTS", "the agent redirects too often");
    }
    if error.is_builder() {
        return Failure::new(FailureClass::Permanent, "HTTP_REQUEST", "the task cannot be sent: a header is not valid");
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let message = format!("the agent cannot be reached: {}", clip(&cause.to_string()));
    let failure = Failure::new(FailureClass::Transient, "HTTP_UNREACHABLE", message);
    // Without a connection nothing was sent.
    if error.is_connect() { failure.without_effect() } else { failure.with_unknown_outcome() }
}

/// The address of a service in the settings; the error is a sentence for people.
pub fn parse_address(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|e| format!("`url` is not an address: {e}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`url` must begin with `http://` or `https://`, not `{}://`", url.scheme()));
    }
    Ok(url)
}

/// The headers of a service in the settings; the error names a bad one, never its value.
pub fn parse_headers(headers: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut parsed = HeaderMap::new();
    for (name, value) in headers {
        let bad = || format!("the header `{name}` is not valid");
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        parsed.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?, value);
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_must_be_http() {
        for (url, part) in [("ftp://x", "must begin with"), ("x", "not an address")] {
            let settings = HttpSettings {
                url: url.into(),
                headers: BTreeMap::new(),
                timeout_ms: None,
                answer: AnswerForm::Envelope,
            };
            let refused = HttpExecutor::new(settings, &Limits::default()).err().expect("it is refused");
            assert!(refused.contains(part), "{refused}");
        }
    }
}
