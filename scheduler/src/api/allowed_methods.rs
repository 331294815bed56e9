//! Methods of addresses that hold a thing and its verbs: `/v1/plans/{id}` and `/v1/plans/{id}:pause` are one route.

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use goalmill_common::problem::{ErrorCode, Problem};

use super::response::ApiError;

/// The verbs of a plan.
pub(super) const PLAN_VERBS: [&str; 8] = ["approve", "reject", "edit", "replan", "pause", "resume", "cancel", "fork"];
/// The verbs of a step.
pub(super) const STEP_VERBS: [&str; 6] = ["retry", "skip", "complete", "approve", "reject", "answer"];

/// Gives 405 with the methods of the address that was asked for, not those of its route.
pub(super) async fn check_method(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let Some(verbs) = route.and_then(verbs_of) else { return next.run(request).await };
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

fn verbs_of(route: &str) -> Option<&'static [&'static str]> {
    match route {
        "/v1/plans/{id}" => Some(&PLAN_VERBS),
        "/v1/plans/{id}/steps/{step}" => Some(&STEP_VERBS),
        _ => None,
    }
}

fn ends_in_verb(path: &str, verbs: &[&str]) -> bool {
    path.rsplit_once(':').is_some_and(|(_, verb)| verbs.contains(&verb))
}
