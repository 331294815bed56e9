//! A plan's log: in pages, or live as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use goalmill_common::event::{Event, PlanEvent, Record};
use goalmill_common::id::PlanId;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::view::Page;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Api;
use super::query_parameters::{Given, Parameters, Query};
use super::response::{ApiError, plan_not_found};
use crate::{event_log, shard_client};

/// Log entries read at once.
const PAGE: usize = 200;
const PAGE_MAX: usize = 1_000;
/// Log entries a follower reads at once: there may be thousands of them.
const FOLLOWER_PAGE: usize = 100;
/// A follower looks at the log at most so often while commits are made, …
const LOOK_MIN: Duration = Duration::from_millis(30);
/// … and at least so often, because commits are made by other processes too.
const LOOK_MAX: Duration = Duration::from_millis(250);

#[derive(schemars::JsonSchema)]
pub(crate) struct EventsQuery {
    /// Only events after this number.
    after: Option<u64>,
    /// Log entries of a page, at most 1000; 200 unless told. An entry holds the events of one commit.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
}

impl Parameters for EventsQuery {
    const NAMES: &'static [&'static str] = &["after", "limit"];

    fn read(given: &mut Given) -> Self {
        Self { after: given.number("after", 0..=u64::MAX), limit: given.number("limit", 1..=PAGE_MAX) }
    }
}

pub(crate) async fn list(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let plan = PlanId::from(id);
    shard_client::shard_of(&api.scheduler, &plan)?;
    let after =
        match headers.get("last-event-id") {
            None => query.after.unwrap_or(0),
            Some(value) => value.to_str().ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
                Problem::new(ErrorCode::InvalidEventId, "`Last-Event-ID` must be the number of an event")
            })?,
        };
    let known = api.scheduler.plans.summary(&plan).await?;
    let Some(seq) = known.get("seq").and_then(|seq| seq.parse::<u64>().ok()) else {
        return Err(plan_not_found(plan.as_str()));
    };
    if after > seq {
        let detail = format!("the log ends at event {seq}, so there is nothing after event {after}");
        return Err(Problem::new(ErrorCode::InvalidEventId, detail).into());
    }
    let wants_stream = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|accept| accept.contains("text/event-stream"));
    if wants_stream {
        let is_over = known.contains_key("finished") && after == seq;
        return if is_over {
            // Tells a client that reconnects by itself that there will be nothing more (HTML Standard, 9.2.3).
            Ok(StatusCode::NO_CONTENT.into_response())
        } else {
            let place = Place::take(&api)?;
            Ok(Sse::new(follow(api, plan, after, place)).keep_alive(KeepAlive::default()).into_response())
        };
    }
    let limit = query.limit.unwrap_or(PAGE);
    let records = read(&api, &plan, after, limit).await?;
    let last = records.last().map_or(after, |record| record.seq);
    let next = (last < seq).then(|| last.to_string());
    let items: Result<Vec<Box<RawValue>>, _> =
        records.iter().map(|record| RawValue::from_string(record.to_line())).collect();
    let items = items.map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?;
    Ok(Json(Page { items, next }).into_response())
}

async fn read(api: &Api, plan: &PlanId, after: u64, limit: usize) -> Result<Vec<Record>, ApiError> {
    let entries = api.scheduler.plans.log(plan, after, limit).await?;
    let mut records = Vec::new();
    for entry in &entries {
        let read =
            event_log::parse_records(entry).map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?;
        records.extend(read.into_iter().filter(|record| record.seq > after));
    }
    match records.first() {
        Some(first) if first.seq != after + 1 => {
            let detail = format!("the log goes on with event {}; see `/v1/plans/{plan}` for the state", first.seq);
            Err(Problem::new(ErrorCode::EventsTrimmed, detail).into())
        }
        Some(_) | None => Ok(records),
    }
}

/// One of the event streams that may be open at once, given back when dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(api: &Api) -> Result<Self, ApiError> {
        let most = api.scheduler.settings.api.streams_max;
        let taken = api.streams.fetch_add(1, Ordering::Relaxed);
        let place = Self(api.streams.clone());
        metrics::gauge!("goalmill_sse_connections").increment(1.0);
        if taken >= most {
            return Err(Problem::new(ErrorCode::NotReady, format!("{most} event streams are open; try again")).into());
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        metrics::gauge!("goalmill_sse_connections").decrement(1.0);
    }
}

struct Follower {
    api: Api,
    plan: PlanId,
    after: u64,
    commits: tokio::sync::watch::Receiver<u64>,
    looked: Option<Instant>,
    ended: bool,
    _place: Place,
}

/// The log from `after` on, until the plan is final.
fn follow(api: Api, plan: PlanId, after: u64, place: Place) -> impl Stream<Item = Result<SseEvent, Infallible>> {
    let commits = api.scheduler.commits.subscribe();
    let follower = Follower { api, plan, after, commits, looked: None, ended: false, _place: place };
    let batches = stream::unfold(follower, async |mut follower| {
        let batch = follower.next().await?;
        Some((stream::iter(batch.into_iter().map(Ok)), follower))
    });
    futures_util::StreamExt::flatten(batches)
}

impl Follower {
    /// The next events; `None` once the plan is final or the log cannot be read.
    async fn next(&mut self) -> Option<Vec<SseEvent>> {
        while !self.ended && !self.api.scheduler.stop.is_cancelled() {
            self.pause().await;
            let records = match read(&self.api, &self.plan, self.after, FOLLOWER_PAGE).await {
                Ok(records) => records,
                Err(ApiError(problem)) if problem.code.is_retryable() => continue,
                Err(ApiError(problem)) => {
                    tracing::warn!(plan_id = %self.plan, "the log of {} cannot be followed: {problem}", self.plan);
                    return None;
                }
            };
            if let Some(last) = records.last() {
                self.after = last.seq;
                self.ended = records.iter().any(|record| ends(&record.event));
                return Some(records.iter().map(sse).collect());
            }
        }
        None
    }

    async fn pause(&mut self) {
        let Some(looked) = self.looked.replace(Instant::now()) else { return };
        tokio::select! {
           biased;
            () = self.api.scheduler.stop.cancelled() => {}
            _ = self.commits.changed() => tokio::time::sleep_until(looked + LOOK_MIN).await,
            () = tokio::time::sleep(LOOK_MAX) => {}
        }
        self.looked = Some(Instant::now());
    }
}

fn sse(record: &Record) -> SseEvent {
    SseEvent::default().id(record.seq.to_string()).event(record.event.type_name()).data(record.to_line())
}

fn ends(event: &Event) -> bool {
    matches!(
        event,
        Event::Plan(PlanEvent::Completed(_) | PlanEvent::Failed(_) | PlanEvent::Cancelled(_) | PlanEvent::Rejected(_))
    )
}
