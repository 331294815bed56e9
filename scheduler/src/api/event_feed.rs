//! Events of all plans, live as server-sent events. A client that comes back continues where it was.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use goalmill_common::event::Record;
use goalmill_common::id::{PlanId, ShardId};
use goalmill_common::problem::{ErrorCode, Problem};
use tokio::time::Instant;

use super::Api;
use super::event_search::{self, INDEX_LATE_MS, LogsQuery, last_seq, line, read_slice};
use super::events::{StreamPermit, read_records, wants_stream};
use super::namespaces;
use super::principal::Principal;
use super::query_parameters::Query;
use super::response::ApiError;
use crate::shard_client;

/// How far back a stream may begin, in milliseconds; earlier events are in `/v1/logs`.
const BACK_MS_MAX: u64 = 3_600_000;
/// Events of one round.
const ROUND_EVENTS_MAX: usize = 5_000;
/// Plans of one shard that are listed in one call.
const LISTED: usize = 200;
/// Plans whose positions one stream keeps. One that needs more ends, and the client begins another.
const PLANS_MAX: usize = 20_000;
/// Log entries that are read in one call.
const PAGE: usize = 100;
/// A plan that changed so shortly before a round is read again: its listed change may hold more events, in milliseconds.
const RECENT_MS: u64 = 2_000;
/// Interval between rounds while commits are made.
const ROUND_MIN: Duration = Duration::from_millis(200);
/// The same while none are made here: other processes commit too.
const ROUND_MAX: Duration = Duration::from_secs(1);

/// `GET /v1/events`: pages as those of `/v1/logs`, or a stream.
pub(crate) async fn list(
    State(api): State<Api>,
    principal: Principal,
    Query(query): Query<LogsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if !wants_stream(&headers) {
        return Ok(event_search::list(State(api), principal, Query(query)).await?.into_response());
    }
    let now_ms = api.scheduler.clock.now_ms();
    let mut place = match headers.get("last-event-id") {
        None => FeedPlace { since_ms: query.since_ms.unwrap_or(now_ms), plan: None },
        Some(value) => {
            let place = value.to_str().ok().and_then(FeedPlace::from_text);
            place.ok_or_else(|| {
                Problem::new(ErrorCode::InvalidEventId, "`Last-Event-ID` must be the id of an event of this stream")
            })?
        }
    };
    if place.since_ms.saturating_add(BACK_MS_MAX) < now_ms {
        let detail = "this stream has the events of the last hour only; read older events from `/v1/logs`, then connect \
                      with a later `since_ms` and without `Last-Event-ID`";
        return Err(Problem::new(ErrorCode::InvalidEventId, detail).into());
    }
    if let Some(plan) = &query.plan {
        shard_client::shard_of(&api.scheduler, &plan.as_str().into())?;
        namespaces::require_plan(api.scheduler.plans.as_ref(), &principal, plan).await?;
    }
    if let Some((plan, _)) = &place.plan
        && !namespaces::sees_plan(api.scheduler.plans.as_ref(), &principal, plan).await?
    {
        place.plan = None;
    }
    let permit = StreamPermit::acquire(&api)?;
    Ok(Sse::new(follow(api, principal, query, place, permit)).keep_alive(KeepAlive::default()).into_response())
}

/// Where a stream continues: all events before `since_ms` were sent, and of one plan those up to a number.
///
/// Events after it may have been sent too, so some come again; `plan_id` and `seq` name each.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FeedPlace {
    since_ms: u64,
    plan: Option<(PlanId, u64)>,
}

impl FeedPlace {
    fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let since_ms = parts.next()?.parse().ok()?;
        let plan = PlanId::from(parts.next()?);
        plan.shard()?;
        let seq = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Self { since_ms, plan: Some((plan, seq)) })
    }
}

/// How far the log of a plan was sent.
struct PlanPlace {
    seq: u64,
    /// Its listed change when it was read, Unix milliseconds.
    changed_ms: u64,
}

struct EventFeed {
    api: Api,
    principal: Principal,
    query: LogsQuery,
    /// Events before it were there when the stream began, Unix milliseconds.
    start_ms: u64,
    /// All events before it are sent, Unix milliseconds.
    sent_ms: u64,
    plans: HashMap<PlanId, PlanPlace>,
    /// Plans that the caller does not see.
    hidden: HashSet<PlanId>,
    commits: tokio::sync::watch::Receiver<u64>,
    last_round: Option<Instant>,
    /// The last round left events unread.
    is_behind: bool,
    _permit: StreamPermit,
}

fn follow(
    api: Api,
    principal: Principal,
    query: LogsQuery,
    place: FeedPlace,
    permit: StreamPermit,
) -> impl Stream<Item = Result<SseEvent, Infallible>> {
    let commits = api.scheduler.commits.subscribe();
    let FeedPlace { since_ms, plan } = place;
    // What was sent last may be older than what another plan's owner had not listed yet.
    let start_ms = if plan.is_some() { since_ms.saturating_sub(INDEX_LATE_MS) } else { since_ms };
    let plans = plan.into_iter().map(|(plan, seq)| (plan, PlanPlace { seq, changed_ms: 0 })).collect();
    let feed = EventFeed {
        api,
        principal,
        query,
        start_ms,
        sent_ms: since_ms,
        plans,
        hidden: HashSet::new(),
        commits,
        last_round: None,
        is_behind: false,
        _permit: permit,
    };
    let batches = stream::unfold(feed, async |mut feed| {
        let batch = feed.next().await?;
        Some((stream::iter(batch.into_iter().map(Ok)), feed))
    });
    batches.flatten()
}

impl EventFeed {
    /// The next events; `None` when the scheduler stops or the stream has grown too large.
    async fn next(&mut self) -> Option<Vec<SseEvent>> {
        while !self.api.scheduler.stop.is_cancelled() && self.plans.len() < PLANS_MAX {
            self.pause().await;
            match self.round().await {
                Ok(found) if found.is_empty() => {}
                Ok(found) => return Some(found),
                Err(ApiError(problem)) if problem.code.is_retryable() => {}
                Err(ApiError(problem)) => {
                    tracing::warn!("the events of all plans cannot be followed: {problem}");
                    return None;
                }
            }
        }
        None
    }

    async fn pause(&mut self) {
        let Some(last) = self.last_round.replace(Instant::now()) else { return };
        if self.is_behind {
            return;
        }
        tokio::select! {
            biased;
            () = self.api.scheduler.stop.cancelled() => {}
            _ = self.commits.changed() => tokio::time::sleep_until(last + ROUND_MIN).await,
            () = tokio::time::sleep(ROUND_MAX) => {}
        }
        self.last_round = Some(Instant::now());
    }

    /// Reads what is new, in the order of time; each plan in its own order.
    async fn round(&mut self) -> Result<Vec<SseEvent>, ApiError> {
        let begun_ms = self.api.scheduler.clock.now_ms();
        let mut found: Vec<(PlanId, Record)> = Vec::new();
        self.is_behind = false;
        for (plan, changed_ms) in self.changed().await? {
            if found.len() >= ROUND_EVENTS_MAX {
                self.is_behind = true;
                break;
            }
            if !self.sees(&plan).await? {
                continue;
            }
            self.is_behind |= self.read_rest(&plan, changed_ms, &mut found).await?;
        }
        // Stable: the events of a plan stay in order even if a clock went back.
        found.sort_by_key(|(_, record)| record.time_ms);
        keep_order(&mut found);
        let sent_ms = self.sent_ms;
        if !self.is_behind {
            self.sent_ms = begun_ms;
        }
        let wanted = found.iter().filter(|(_, record)| self.query.fits(record));
        Ok(wanted.map(|(plan, record)| sse(sent_ms, plan, record)).collect())
    }

    /// Plans with changes that were not read, those first that changed first.
    async fn changed(&self) -> Result<Vec<(PlanId, u64)>, ApiError> {
        let since_ms = self.start_ms.max(self.sent_ms.saturating_sub(INDEX_LATE_MS));
        let mut changed = Vec::new();
        for n in 0..self.api.scheduler.shards {
            let mut asked = LISTED;
            let listed = loop {
                let found = self.api.scheduler.plans.list(ShardId(n), u64::MAX, asked).await?;
                let is_all = found.len() < asked || found.last().is_none_or(|(_, changed_ms)| *changed_ms < since_ms);
                if is_all || asked >= PLANS_MAX {
                    break found;
                }
                asked *= 2;
            };
            changed.extend(listed.into_iter().filter(|(plan, changed_ms)| {
                let is_wanted = self.query.plan.as_ref().is_none_or(|wanted| wanted == plan.as_str());
                let is_recent = changed_ms.saturating_add(RECENT_MS) >= self.sent_ms;
                let is_new = self.plans.get(plan).is_none_or(|known| known.changed_ms < *changed_ms || is_recent);
                is_wanted && is_new && *changed_ms >= since_ms && !self.hidden.contains(plan)
            }));
        }
        changed.sort_unstable_by(|(a, one), (b, other)| (one, a).cmp(&(other, b)));
        Ok(changed)
    }

    /// Whether the caller sees the plan, whose namespace never changes.
    async fn sees(&mut self, plan: &PlanId) -> Result<bool, ApiError> {
        if self.plans.contains_key(plan)
            || namespaces::sees_plan(self.api.scheduler.plans.as_ref(), &self.principal, plan).await?
        {
            return Ok(true);
        }
        if self.hidden.len() >= PLANS_MAX {
            self.hidden.clear();
        }
        self.hidden.insert(plan.clone());
        Ok(false)
    }

    /// Reads the rest of a log, and says whether some of it is left.
    async fn read_rest(
        &mut self,
        plan: &PlanId,
        changed_ms: u64,
        found: &mut Vec<(PlanId, Record)>,
    ) -> Result<bool, ApiError> {
        let mut seq = match self.plans.get(plan) {
            Some(known) => known.seq,
            None => self.seq_before_start(plan).await?,
        };
        let is_left = loop {
            let records = match read_records(&self.api, plan, seq, PAGE).await {
                Ok(records) => records,
                // What was trimmed, or deleted with its plan, cannot be sent any more.
                Err(ApiError(problem)) if problem.code == ErrorCode::EventsTrimmed => break false,
                Err(error) => return Err(error),
            };
            let Some(last) = records.last().map(|record| record.seq) else { break false };
            seq = last;
            found.extend(records.into_iter().map(|record| (plan.clone(), record)));
            if found.len() >= ROUND_EVENTS_MAX {
                break true;
            }
        };
        self.plans.insert(plan.clone(), PlanPlace { seq, changed_ms: if is_left { 0 } else { changed_ms } });
        Ok(is_left)
    }

    /// The number of the last event before the stream began; 0 if there is none.
    async fn seq_before_start(&self, plan: &PlanId) -> Result<u64, ApiError> {
        let mut end = last_seq(&self.api, plan).await?;
        while end > 0 {
            let slice = read_slice(&self.api, plan, end).await?;
            if let Some(before) = slice.records.iter().rfind(|record| record.time_ms < self.start_ms) {
                return Ok(before.seq);
            }
            end = slice.start;
        }
        Ok(0)
    }
}

/// Puts the events of each plan into their order, at the places that they have.
fn keep_order(found: &mut [(PlanId, Record)]) {
    let mut places: BTreeMap<PlanId, Vec<usize>> = BTreeMap::new();
    for (place, (plan, _)) in found.iter().enumerate() {
        places.entry(plan.clone()).or_default().push(place);
    }
    for places in places.values() {
        let is_ordered = places.windows(2).all(|pair| found[pair[0]].1.seq < found[pair[1]].1.seq);
        if !is_ordered {
            let mut records: Vec<Record> = places.iter().map(|place| found[*place].1.clone()).collect();
            records.sort_by_key(|record| record.seq);
            for (place, record) in places.iter().zip(records) {
                found[*place].1 = record;
            }
        }
    }
}

fn sse(sent_ms: u64, plan: &PlanId, record: &Record) -> SseEvent {
    let id = format!("{sent_ms}:{plan}:{}", record.seq);
    SseEvent::default().id(id).event(record.event.type_name()).data(line(plan, record).text())
}

#[cfg(test)]
mod tests {
    use goalmill_common::event::{Event, StepEvent};

    use super::*;

    fn record(seq: u64, time_ms: u64) -> Record {
        let event = Event::Step { step: "a".into(), attempt: 1, phase: None, event: StepEvent::Ready };
        Record { seq, time_ms, actor: None, event }
    }

    #[test]
    fn a_place_is_read_as_it_is_written() {
        let place = FeedPlace { since_ms: 7, plan: Some(("p0-0000000000000000".into(), 3)) };
        assert_eq!(FeedPlace::from_text("7:p0-0000000000000000:3"), Some(place));
        for wrong in ["", "7", "7:x:3", "7:p0-0000000000000000", "7:p0-0000000000000000:3:4", "x:p0-0000000000000000:3"]
        {
            assert_eq!(FeedPlace::from_text(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_events_of_a_plan_stay_in_order_when_a_clock_goes_back() {
        let (a, b) = (PlanId::from("p0-a"), PlanId::from("p0-b"));
        let mut found = vec![(a.clone(), record(2, 5)), (b.clone(), record(1, 6)), (a.clone(), record(1, 7))];
        keep_order(&mut found);
        let order: Vec<(&str, u64)> = found.iter().map(|(plan, record)| (plan.as_str(), record.seq)).collect();
        assert_eq!(order, [("p0-a", 1), ("p0-b", 1), ("p0-a", 2)]);
    }
}
