//! Refusals as RFC 9457 problems, and what requests have in common.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use goalmill_common::id::is_id;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::text::shorten;
use goalmill_plan::draft::Format;
use serde::de::DeserializeOwned;

/// Seconds after which a refused request may be tried again.
const RETRY_AFTER: &str = "1";
/// Media type of a refusal.
pub(super) const PROBLEM: &str = "application/problem+json";
/// Bytes of a small body: a reason, an agent.
const SMALL_BYTES_MAX: usize = 64 << 10;
/// Characters of what a client sent that a refusal repeats.
const SHOWN_CHARS: usize = 64;

/// A problem on its way out.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) Problem);

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<goalmill_broker::BrokerError> for Refusal {
    fn from(error: goalmill_broker::BrokerError) -> Self {
        Self(crate::outage::problem(&error))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&problem).expect("a problem always has a JSON text");
        let mut response = (status, [(header::CONTENT_TYPE, PROBLEM)], body).into_response();
        if problem.code.is_retryable() && status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static(RETRY_AFTER));
        }
        response
    }
}

/// The body, or why it was not taken.
pub(crate) fn body(body: Result<Bytes, BytesRejection>) -> Result<Bytes, Refusal> {
    body.map_err(|rejection| {
        let code = if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            ErrorCode::BodyTooLarge
        } else {
            ErrorCode::InvalidRequest
        };
        Refusal(Problem::new(code, rejection.body_text()))
    })
}

/// Reads a small JSON body; an empty one counts as `{}`.
pub(crate) fn small_json<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    json(&small(body.clone())?)
}

/// A body, if it is small.
pub(crate) fn small(body: Bytes) -> Result<Bytes, Refusal> {
    if body.len() > SMALL_BYTES_MAX {
        let detail = format!("the body has more than {SMALL_BYTES_MAX} bytes");
        return Err(Refusal(Problem::new(ErrorCode::BodyTooLarge, detail)));
    }
    Ok(body)
}

/// Reads a JSON object; an empty body counts as `{}`.
pub(crate) fn json<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    let text: &[u8] = if body.is_empty() { b"{}" } else { body };
    let invalid = |detail: String| Refusal(Problem::new(ErrorCode::InvalidRequest, detail));
    if !text.trim_ascii_start().starts_with(b"{") {
        return Err(invalid("the body is not a JSON object".into()));
    }
    serde_json::from_slice(text).map_err(|error| invalid(error.to_string()))
}

/// What a client sent, cut to a length that a refusal may repeat.
pub(crate) fn shown(text: &str) -> String {
    shorten(text, SHOWN_CHARS).into_owned()
}

/// How a document is written, by its content type.
pub(crate) fn format(headers: &HeaderMap) -> Result<Format, Refusal> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(Format::Auto) };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/json" => Ok(Format::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => Ok(Format::Yaml),
        _ => Err(Refusal(Problem::new(
            ErrorCode::UnsupportedMediaType,
            format!("`{}` is not taken; send `application/json` or `application/yaml`", shown(&essence)),
        ))),
    }
}

/// The caller's idempotency key, if there is one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    const NAME: HeaderName = HeaderName::from_static("idempotency-key");
    let Some(value) = headers.get(NAME) else { return Ok(None) };
    let key = value.to_str().unwrap_or_default().trim_matches('"');
    if is_id(key) {
        return Ok(Some(key.to_owned()));
    }
    Err(Refusal(Problem::new(
        ErrorCode::InvalidIdempotencyKey,
        "the key must be a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`",
    )))
}
