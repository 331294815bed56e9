//! What all answers have in common: refusals are problems, every request is counted.

use axum::body::to_bytes;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use goalmill_common::problem::{ErrorCode, Problem};
use tokio::time::Instant;

use super::answer::{PROBLEM, Refusal};

/// Bytes of a framework's refusal that are passed on.
const DETAIL_BYTES: usize = 1 << 10;

/// Counts the request and sees that its refusal has the one shape that clients know.
pub(super) async fn shape(request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = method(&request);
    let route = request.extensions().get::<MatchedPath>().map_or("none".into(), |path| path.as_str().to_owned());
    let response = match encoding(request.headers()) {
        Ok(()) => problem(next.run(request).await).await,
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

/// A closed list: whatever a client makes up is `other`.
fn method(request: &Request) -> &'static str {
    match request.method().as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

fn encoding(headers: &HeaderMap) -> Result<(), Refusal> {
    let encoding = headers.get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or_default().trim());
    if encoding.is_none_or(|encoding| encoding.eq_ignore_ascii_case("identity")) {
        return Ok(());
    }
    let detail = "compressed bodies are not taken; send it without `Content-Encoding`";
    Err(Refusal(Problem::new(ErrorCode::UnsupportedMediaType, detail)))
}

/// Turns a refusal of the framework (a query or a path it cannot read) into a problem.
async fn problem(response: Response) -> Response {
    let status = response.status();
    let is_problem = response.headers().get(header::CONTENT_TYPE).is_some_and(|value| value == PROBLEM);
    if is_problem || !(status.is_client_error() || status.is_server_error()) {
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
    Refusal(Problem::new(code, detail)).into_response()
}
