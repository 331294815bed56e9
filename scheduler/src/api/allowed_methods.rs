//! Methods of addresses that hold a thing and its verbs: `/v1/plans/{id}` and `/v1/plans/{id}:pause` are one route.

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use goalmill_common::problem::{ErrorCode, Problem};

use super::openapi::{is_served, verbs_of};
use super::response::ApiError;

/// Gives 405 with the methods of the address that was asked for, not those of its route.
pub(super) async fn check_method(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let verbs = route.filter(|route| is_served(&Method::GET, route)).map_or(&[][..], verbs_of);
    if verbs.is_empty() {
        return next.run(request).await;
    }
    let allowed = if ends_in_verb(request.uri().path(), verbs) { "POST" } else { "GET,HEAD" };
    let is_post = request.method() == Method::POST;
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    // A verb that is not known has an answer of its own. Its colon may be encoded.
    let last = request.uri().path().rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let has_verb = last.contains(':') || last.contains("%3a");
    let mut response = if (is_post && !has_verb) || (is_read && allowed == "POST") {
        ApiError(Problem::new(ErrorCode::MethodNotAllowed, format!("this address takes {allowed}"))).into_response()
    } else {
        next.run(request).await
    };
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    }
    response
}

fn ends_in_verb(path: &str, verbs: &[&str]) -> bool {
    path.rsplit_once(':').is_some_and(|(_, verb)| verbs.contains(&verb))
}
