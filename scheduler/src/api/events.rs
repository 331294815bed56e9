//! Events of a plan: in pages, or live as server-sent events (SSE).

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
use goalmill_common::event::Record;
use goalmill_common::id::{ID_PATTERN, PlanId};
use goalmill_common::json::Json as Payload;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::view::Page;
use tokio::time::Instant;

use super::Api;
use super::event_filter::{self, EventFilter};
use super::payloads::{PayloadFill, WHOLE, parse_whole};
use super::query_parameters::{Parameters, Query, RawParameters};
use super::response::{ApiError, plan_not_found};
use crate::{event_log, shard_client};

/// Default page size, in log entries.
const PAGE: usize = 200;
const PAGE_MAX: usize = 1_000;
/// Events without a match after which a filtered page ends.
const FILTERED_EVENTS_MAX: usize = 20_000;
/// Log entries that a follower reads in one call; there may be thousands of followers.
const FOLLOWER_PAGE: usize = 100;
/// Minimum interval between reads of a follower, while commits are made.
const READ_INTERVAL_MIN: Duration = Duration::from_millis(30);
/// Maximum interval, because other processes commit too.
const READ_INTERVAL_MAX: Duration = Duration::from_millis(250);

#[derive(schemars::JsonSchema)]
pub(crate) struct EventsQuery {
    /// Only events after this number.
    after: Option<u64>,
    /// Log entries per page, at most 1000; default 200. An entry holds the events of one commit.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// Only of these types, separated by commas.
    #[schemars(with = "Option<String>", transform = event_filter::add_types_pattern)]
    types: Vec<String>,
    /// Only of this step, and events of the plan that list it.
    #[schemars(regex(pattern = ID_PATTERN))]
    step: Option<String>,
    /// Only of this phase, and of its steps. With a filter, a page may be short or empty and still have a `next`.
    #[schemars(length(max = 256))]
    phase: Option<String>,
    /// Large outcomes of calls and outputs in the place of their references, 16 MiB in all. A page, not a stream.
    #[schemars(with = "Option<bool>")]
    whole: bool,
}

impl Parameters for EventsQuery {
    const NAMES: &'static [&'static str] =
        &["after", "limit", EventFilter::NAMES[0], EventFilter::NAMES[1], EventFilter::NAMES[2], WHOLE];

    fn parse(given: &mut RawParameters) -> Self {
        let (after, limit) = (given.number("after", 0..=u64::MAX), given.number("limit", 1..=PAGE_MAX));
        let EventFilter { types, step, phase } = EventFilter::parse(given);
        Self { after, limit, types, step, phase, whole: parse_whole(given) }
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
    let filter = EventFilter { types: query.types, step: query.step, phase: query.phase };
    if wants_stream(&headers) {
        let is_over = known.contains_key("finished") && after == seq;
        return if is_over {
            // Stops clients that reconnect automatically (HTML Standard, 9.2.3).
            Ok(StatusCode::NO_CONTENT.into_response())
        } else {
            let permit = StreamPermit::acquire(&api)?;
            Ok(Sse::new(follow(api, plan, after, filter, permit)).keep_alive(KeepAlive::default()).into_response())
        };
    }
    let limit = query.limit.unwrap_or(PAGE);
    let mut records = read_records(&api, &plan, after, limit).await?;
    let mut read = records.len();
    // A page without any match continues, within bounds.
    while !filter.is_empty() && !records.iter().any(|record| filter.matches(record)) && read < FILTERED_EVENTS_MAX {
        let Some(last) = records.last().map(|record| record.seq).filter(|last| *last < seq) else { break };
        records = read_records(&api, &plan, last, limit).await?;
        read += records.len();
    }
    let last = records.last().map_or(after, |record| record.seq);
    let next = (last < seq).then(|| last.to_string());
    let mut payloads = query.whole.then(|| PayloadFill::new(&api, plan));
    let mut items = Vec::new();
    for record in records.iter().filter(|record| filter.matches(record)) {
        let line = Payload::from_text(record.to_line());
        let mut line = line.map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?;
        if let Some(payloads) = &mut payloads {
            payloads.fill_json(&mut line).await?;
        }
        items.push(line);
    }
    Ok(Json(Page { items, next }).into_response())
}

/// Whether the client would have server-sent events.
pub(super) fn wants_stream(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/event-stream"))
}

pub(super) async fn read_records(api: &Api, plan: &PlanId, after: u64, limit: usize) -> Result<Vec<Record>, ApiError> {
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

/// A permit for an event stream, released when dropped.
pub(super) struct StreamPermit(Arc<AtomicUsize>);

impl StreamPermit {
    pub(super) fn acquire(api: &Api) -> Result<Self, ApiError> {
        let most = api.scheduler.settings.api.streams_max;
        let taken = api.streams.fetch_add(1, Ordering::Relaxed);
        let permit = Self(api.streams.clone());
        metrics::gauge!("goalmill_sse_connections").increment(1.0);
        if taken >= most {
            return Err(Problem::new(ErrorCode::NotReady, format!("{most} event streams are open; try again")).into());
        }
        Ok(permit)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        metrics::gauge!("goalmill_sse_connections").decrement(1.0);
    }
}

struct LogFollower {
    api: Api,
    plan: PlanId,
    after: u64,
    filter: EventFilter,
    commits: tokio::sync::watch::Receiver<u64>,
    last_read: Option<Instant>,
    ended: bool,
    _permit: StreamPermit,
}

/// The log from `after` on, until the plan is final.
fn follow(
    api: Api,
    plan: PlanId,
    after: u64,
    filter: EventFilter,
    permit: StreamPermit,
) -> impl Stream<Item = Result<SseEvent, Infallible>> {
    let commits = api.scheduler.commits.subscribe();
    let follower = LogFollower { api, plan, after, filter, commits, last_read: None, ended: false, _permit: permit };
    let batches = stream::unfold(follower, async |mut follower| {
        let batch = follower.next().await?;
        Some((stream::iter(batch.into_iter().map(Ok)), follower))
    });
    futures_util::StreamExt::flatten(batches)
}

impl LogFollower {
    /// The next events; `None` once the plan is final or the log cannot be read.
    async fn next(&mut self) -> Option<Vec<SseEvent>> {
        while !self.ended && !self.api.scheduler.stop.is_cancelled() {
            self.pause().await;
            let records = match read_records(&self.api, &self.plan, self.after, FOLLOWER_PAGE).await {
                Ok(records) => records,
                Err(ApiError(problem)) if problem.code.is_retryable() => continue,
                Err(ApiError(problem)) => {
                    tracing::warn!(plan_id = %self.plan, "the log of {} cannot be followed: {problem}", self.plan);
                    return None;
                }
            };
            if let Some(last) = records.last() {
                self.after = last.seq;
                self.ended = records.iter().any(|record| record.event.ends_plan());
                return Some(records.iter().filter(|record| self.filter.matches(record)).map(sse).collect());
            }
        }
        None
    }

    async fn pause(&mut self) {
        let Some(last_read) = self.last_read.replace(Instant::now()) else { return };
        tokio::select! {
           biased;
            () = self.api.scheduler.stop.cancelled() => {}
            _ = self.commits.changed() => tokio::time::sleep_until(last_read + READ_INTERVAL_MIN).await,
            () = tokio::time::sleep(READ_INTERVAL_MAX) => {}
        }
        self.last_read = Some(Instant::now());
    }
}

fn sse(record: &Record) -> SseEvent {
    SseEvent::default().id(record.seq.to_string()).event(record.event.type_name()).data(record.to_line())
}
