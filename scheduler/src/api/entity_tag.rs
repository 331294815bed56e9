//! Entity tags of plans and lists: a client that has the newest state gets 304 in place of a body.

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use goalmill_common::id::PlanId;
use ring::digest::{SHA256, digest};
use serde::Serialize;

use super::Api;
use super::response::ApiError;

/// The tag of what is shown of a plan after event `seq`: the log alone decides it. It is weak, because the same state
/// may be sent compressed or not.
fn tag(seq: u64) -> String {
    format!("W/\"{seq}\"")
}

/// 304 where `If-None-Match` names the current state of the plan. It costs one read of the summary.
pub(super) async fn not_modified(api: &Api, id: &str, asked: &HeaderMap) -> Result<Option<Response>, ApiError> {
    if !asked.contains_key(header::IF_NONE_MATCH) {
        return Ok(None);
    }
    let summary = api.scheduler.plans.summary(&PlanId::from(id)).await?;
    let Some(seq) = summary.get("seq").and_then(|seq| seq.parse().ok()) else { return Ok(None) };
    let tag = tag(seq);
    Ok(names(asked, &tag).then(|| (StatusCode::NOT_MODIFIED, with_tag(&tag)).into_response()))
}

/// The answer after event `seq` of the plan, with its tag.
pub(super) fn tagged<T: Serialize>(seq: u64, body: T) -> Response {
    (with_tag(&tag(seq)), Json(body)).into_response()
}

/// A list with a tag of its content, or 304 where `If-None-Match` names that: who asks often gets it once.
pub(super) fn tagged_by_content<T: Serialize>(asked: &HeaderMap, body: &T) -> Response {
    let Ok(bytes) = serde_json::to_vec(body) else { return Json(body).into_response() };
    let hash: String = digest(&SHA256, &bytes).as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("W/\"{hash}\"");
    if names(asked, &tag) {
        return (StatusCode::NOT_MODIFIED, with_tag(&tag)).into_response();
    }
    let media_type = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, media_type)], with_tag(&tag), bytes).into_response()
}

fn with_tag(tag: &str) -> HeaderMap {
    HeaderMap::from_iter([
        (header::ETAG, HeaderValue::from_str(tag).expect("digits in quotes are a header's value")),
        // The client may keep a copy, and asks about it each time.
        (header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache")),
    ])
}

/// Whether `If-None-Match` holds the tag, by weak comparison, or `*`.
fn names(asked: &HeaderMap, tag: &str) -> bool {
    let strong = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let values = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|known| known.trim() == "*" || strong(known) == strong(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_among_others() {
        let asked =
            |text: &'static str| HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_static(text))]);
        for same in ["W/\"7\"", "\"7\"", "\"6\", W/\"7\"", "*", " W/\"7\" "] {
            assert!(names(&asked(same), &tag(7)), "{same}");
        }
        for other in ["W/\"8\"", "7", "", "W/\"77\"", "\"W/7\""] {
            assert!(!names(&asked(other), &tag(7)), "{other}");
        }
        assert!(!names(&HeaderMap::new(), &tag(7)));
    }
}
