//! Converts all errors to problems, and counts requests.

use std::panic::AssertUnwindSafe;

use axum::body::to_bytes;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use goalmill_common::problem::{ErrorCode, Problem};
use tokio::time::Instant;

use super::response::{ApiError, PROBLEM};

/// Media type of the errors of `/mcp`.
const JSON: &str = "application/json";
/// Bytes of a framework error that are passed on.
const DETAIL_BYTES: usize = 1 << 10;

/// Counts the request and converts its error to a problem.
pub(super) async fn convert_errors(request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = method(&request);
    let route = request.extensions().get::<MatchedPath>().map_or("none".into(), |path| path.as_str().to_owned());
    let response = match encoding(request.headers()) {
        Ok(()) => match caught(next.run(request)).await {
            Ok(response) => problem(response).await,
            Err(refusal) => refusal.into_response(),
        },
        Err(refusal) => refusal.into_response(),
    };
    let class = match response.status().as_u16() {
        0..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    };
    let labels = [("route", route.clone()), ("method", method.into()), ("status_class", class.into())];
    metrics::counter!("goalmill_http_requests_total", &labels).increment(1);
    metrics::histogram!("goalmill_http_request_duration_seconds", "route" => route, "method" => method)
        .record(begun.elapsed().as_secs_f64());
    response
}

/// Runs a handler; a panic becomes a problem.
async fn caught<T>(handler: impl Future<Output = T>) -> Result<T, ApiError> {
    AssertUnwindSafe(handler).catch_unwind().await.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        tracing::error!("a request's handler panicked: {}", text.unwrap_or("no message"));
        metrics::counter!("goalmill_http_panics_total").increment(1);
        ApiError(Problem::new(ErrorCode::Internal, "the scheduler has a defect; report it with the line in its log"))
    })
}

/// A closed list; other methods are `other`.
fn method(request: &Request) -> &'static str {
    match request.method().as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

fn encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let encoding = headers.get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or_default().trim());
    if encoding.is_none_or(|encoding| encoding.eq_ignore_ascii_case("identity")) {
        return Ok(());
    }
    let detail = "compressed bodies are not taken; send it without `Content-Encoding`";
    Err(ApiError(Problem::new(ErrorCode::UnsupportedMediaType, detail)))
}

/// Converts a framework error, such as an invalid query or path, to a problem.
async fn problem(response: Response) -> Response {
    let status = response.status();
    // An error of JSON-RPC says itself what is wrong.
    let is_final = |value: &HeaderValue| value == PROBLEM || value == JSON;
    let is_final = response.headers().get(header::CONTENT_TYPE).is_some_and(is_final);
    if is_final || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let code = match status {
        StatusCode::NOT_FOUND => ErrorCode::NotFound,
        StatusCode::METHOD_NOT_ALLOWED => ErrorCode::MethodNotAllowed,
        StatusCode::PAYLOAD_TOO_LARGE => ErrorCode::BodyTooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => ErrorCode::UnsupportedMediaType,
        status if status.is_client_error() => ErrorCode::InvalidRequest,
        _ => ErrorCode::Internal,
    };
    let text = to_bytes(response.into_body(), DETAIL_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let detail = if text.is_empty() { "the request cannot be read" } else { text.as_ref() };
    ApiError(Problem::new(code, detail)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_handler_that_panics_is_answered_with_a_problem() {
        let handler = async { if true { panic!("a defect") } else { StatusCode::OK } };
        let refusal = caught(handler).await.expect_err("the handler panicked");
        assert_eq!(refusal.0.code, ErrorCode::Internal);
        assert_eq!(refusal.into_response().status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(caught(async { 7 }).await.ok(), Some(7));
    }
}
