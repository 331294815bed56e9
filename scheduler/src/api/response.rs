//! Responses: errors as RFC 9457 problems. And what request bodies and headers have in common.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use goalmill_common::id::{PlanId, is_id};
use goalmill_common::json_limits;
use goalmill_common::number::whole_i64;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::status::PlanStatus;
use goalmill_common::text::shorten;
use goalmill_common::view::Accepted;
use goalmill_plan::document::Format;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Seconds after which a rejected request may be retried.
const RETRY_AFTER: &str = "1";
/// How to authenticate (RFC 6750).
const CHALLENGE: &str = "Bearer realm=\"goalmill\"";
/// Media type of an error.
pub(super) const PROBLEM: &str = "application/problem+json";
/// Bytes of a small body: a reason, an agent.
pub(super) const SMALL_BYTES_MAX: usize = 64 << 10;
/// Whole floats up to this one are exact.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// Characters of a client's text that an error repeats.
const SHOWN_CHARS: usize = 64;

/// The result of a handler that answers with JSON.
pub(super) type ApiResult<T> = Result<Json<T>, ApiError>;
/// A request body as axum extracts it.
pub(super) type Body = Result<Bytes, BytesRejection>;

/// A problem as the response to a request.
#[derive(Debug)]
pub(crate) struct ApiError(pub(crate) Problem);

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<goalmill_broker::BrokerError> for ApiError {
    fn from(error: goalmill_broker::BrokerError) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&problem).expect("a problem always has a JSON text");
        let mut response = (status, [(header::CONTENT_TYPE, PROBLEM)], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static(CHALLENGE));
        }
        if problem.code.is_retryable() && status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static(RETRY_AFTER));
        }
        if let Some(seconds) = problem.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// The body, or the problem of reading it.
pub(super) fn body(body: Body) -> Result<Bytes, ApiError> {
    body.map_err(|rejection| {
        let code = if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            ErrorCode::BodyTooLarge
        } else {
            ErrorCode::InvalidRequest
        };
        ApiError(Problem::new(code, rejection.body_text()))
    })
}

/// Parses a small JSON body; an empty one counts as `{}`.
pub(crate) fn parse_small_json<T: DeserializeOwned>(body: &Bytes) -> Result<T, ApiError> {
    parse_json(&require_small(body.clone())?)
}

/// Rejects a body that is not small.
pub(crate) fn require_small(body: Bytes) -> Result<Bytes, ApiError> {
    if body.len() > SMALL_BYTES_MAX {
        let detail = format!("the body has more than {SMALL_BYTES_MAX} bytes");
        return Err(ApiError(Problem::new(ErrorCode::BodyTooLarge, detail)));
    }
    Ok(body)
}

/// Parses a JSON object; an empty body counts as `{}`.
pub(crate) fn parse_json<T: DeserializeOwned>(body: &Bytes) -> Result<T, ApiError> {
    let text: &[u8] = if body.is_empty() { b"{}" } else { body };
    let invalid = |detail: String| ApiError(Problem::new(ErrorCode::InvalidRequest, detail));
    if !text.trim_ascii_start().starts_with(b"{") {
        return Err(invalid("the body is not a JSON object".into()));
    }
    let text_of_body = str::from_utf8(text).map_err(|error| invalid(error.to_string()))?;
    json_limits::check_numbers(text_of_body).map_err(|wrong| invalid(wrong.to_string()))?;
    serde_json::from_slice(text).or_else(|error| {
        let whole = with_whole_numbers(text).and_then(|body| serde_json::from_value(body).ok());
        whole.ok_or_else(|| invalid(error.to_string()))
    })
}

/// The body with whole floats as integers: in JSON, `2.0` is the integer 2.
fn with_whole_numbers(text: &[u8]) -> Option<Value> {
    fn make_whole(value: &mut Value) {
        match value {
            Value::Number(number) if number.is_f64() => {
                let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT_MAX);
                if let Some(float) = float {
                    *number = whole_i64(float).into();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(make_whole),
            Value::Object(fields) => fields.values_mut().for_each(make_whole),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut value = serde_json::from_slice(text).ok()?;
    make_whole(&mut value);
    Some(value)
}

/// The error for an unknown verb of an address; `known` lists those that exist.
pub(super) fn unknown_verb(verb: &str, known: &str) -> ApiError {
    let verb = shown(verb);
    ApiError(Problem::new(ErrorCode::NotFound, format!("there is no verb `{verb}`; there are {known}")))
}

pub(super) fn plan_not_found(id: &str) -> ApiError {
    ApiError(Problem::new(ErrorCode::PlanNotFound, format!("there is no plan `{}`", shown(id))))
}

/// Text of a client, cut to a length that an error may repeat.
pub(crate) fn shown(text: &str) -> String {
    shorten(text, SHOWN_CHARS).into_owned()
}

/// The format of a document, by its content type.
pub(crate) fn document_format(headers: &HeaderMap) -> Result<Format, ApiError> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(Format::Auto) };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/json" => Ok(Format::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => Ok(Format::Yaml),
        _ => Err(ApiError(Problem::new(
            ErrorCode::UnsupportedMediaType,
            format!("`{}` is not supported; send `application/json` or `application/yaml`", shown(&essence)),
        ))),
    }
}

/// The caller's idempotency key, if there is one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    const NAME: HeaderName = HeaderName::from_static("idempotency-key");
    let Some(value) = headers.get(NAME) else { return Ok(None) };
    let key = value.to_str().unwrap_or_default().trim_matches('"');
    if is_id(key) {
        return Ok(Some(key.to_owned()));
    }
    Err(ApiError(Problem::new(
        ErrorCode::InvalidIdempotencyKey,
        "the key must be a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`",
    )))
}

/// The answer to a submission: where its plan is.
pub(super) fn accepted(plan_id: PlanId, status: PlanStatus, warnings: Vec<Issue>) -> Response {
    let location = format!("/v1/plans/{plan_id}");
    let body = Json(Accepted { plan_id, status, warnings });
    (StatusCode::ACCEPTED, [(header::LOCATION, location)], body).into_response()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Sample {
        ttl_ms: u64,
        #[serde(default)]
        outputs: Value,
    }

    #[test]
    fn a_whole_float_is_an_integer_of_a_body() {
        let parse = |text: &'static str| parse_json::<Sample>(&Bytes::from_static(text.as_bytes()));
        assert_eq!(parse(r#"{"ttl_ms": 166.0}"#).expect("it is whole").ttl_ms, 166);
        assert_eq!(parse(r#"{"ttl_ms": 1, "outputs": 2.0}"#).expect("it is valid").outputs, serde_json::json!(2.0));
        for refused in [r#"{"ttl_ms": 166.5}"#, r#"{"ttl_ms": -1.0}"#, r#"{"ttl_ms": 1e300}"#, r#"{"ttl_ms": "1"}"#] {
            assert!(parse(refused).is_err(), "{refused}");
        }
    }
}
