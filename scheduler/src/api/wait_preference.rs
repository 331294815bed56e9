//! `Prefer: wait=10` (RFC 7240) of a submission: the answer comes when the plan has ended, or the time is over.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use goalmill_common::id::PlanId;
use goalmill_common::problem::Issue;
use goalmill_common::status::PlanStatus;
use tokio::time::Instant;

use super::Api;
use super::events::StreamPermit;
use super::plan_access::load_summary;
use super::response::{ApiError, accepted};

/// The longest wait, in seconds.
const SECONDS_MAX: u64 = 300;
/// Interval between looks at the plan, while commits are made.
const LOOK_MIN: Duration = Duration::from_millis(30);
/// The same while none are made here: other processes commit too.
const LOOK_MAX: Duration = Duration::from_millis(250);

/// How many seconds the client would wait; more than the limit counts as the limit.
fn preferred_seconds(headers: &HeaderMap) -> Option<u64> {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).find_map(|preference| {
        let (name, seconds) = preference.split(';').next()?.split_once('=')?;
        let seconds: u64 = seconds.trim().trim_matches('"').parse().ok()?;
        name.trim().eq_ignore_ascii_case("wait").then_some(seconds.min(SECONDS_MAX))
    })
}

/// The answer to a submission: immediately, or as late as the client prefers. 200 when the plan has ended.
pub(super) async fn answer(
    api: &Api,
    headers: &HeaderMap,
    (plan, status): (PlanId, PlanStatus),
    warnings: Vec<Issue>,
) -> Result<Response, ApiError> {
    // One that waits holds a connection, as one that follows a log does. Without a place the preference is not applied.
    let place = match preferred_seconds(headers) {
        Some(seconds) => StreamPermit::acquire(api).ok().map(|permit| (seconds, permit)),
        None => None,
    };
    let Some((seconds, _permit)) = place else { return Ok(accepted(plan, status, warnings)) };
    let status = if status.is_final() { status } else { await_end(api, &plan, seconds).await? };
    let mut response = accepted(plan, status, warnings);
    if status.is_final() {
        *response.status_mut() = StatusCode::OK;
    }
    let applied = HeaderValue::from_str(&format!("wait={seconds}")).expect("a number is a header's value");
    response.headers_mut().insert("preference-applied", applied);
    Ok(response)
}

/// The status at the end of the plan, or when the time is over.
async fn await_end(api: &Api, plan: &PlanId, seconds: u64) -> Result<PlanStatus, ApiError> {
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut commits = api.scheduler.commits.subscribe();
    loop {
        let looked = Instant::now();
        let status = load_summary(api, plan.as_str()).await?.0.status;
        if status.is_final() || looked >= end || api.scheduler.stop.is_cancelled() {
            return Ok(status);
        }
        tokio::select! {
            biased;
            () = api.scheduler.stop.cancelled() => {}
            () = tokio::time::sleep_until(end) => {}
            _ = commits.changed() => tokio::time::sleep_until(looked + LOOK_MIN).await,
            () = tokio::time::sleep(LOOK_MAX) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_found_among_preferences_and_bounded() {
        let seconds = |text: &'static str| {
            preferred_seconds(&HeaderMap::from_iter([(
                "prefer".parse().expect("a name"),
                HeaderValue::from_static(text),
            )]))
        };
        assert_eq!(seconds("wait=10"), Some(10));
        assert_eq!(seconds("respond-async, WAIT = 7; x=1"), Some(7));
        assert_eq!(seconds("wait=100000"), Some(SECONDS_MAX));
        for none in ["", "wait", "wait=x", "wait=-1", "return=minimal"] {
            assert_eq!(seconds(none), None, "{none}");
        }
    }
}
