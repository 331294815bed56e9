//! Searches the newest events of all plans.

use axum::Json;
use axum::extract::State;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use goalmill_archive::{DataConditions, EventPosition, EventSearch, event_words, query_words};
use goalmill_common::clock::TIME_MS_MAX;
use goalmill_common::event::Record;
use goalmill_common::id::{ID_PATTERN, Namespace, PlanId, ShardId};
use goalmill_common::json::Json as Text;
use goalmill_common::number::to_usize;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::view::Page;

use super::Api;
use super::archived_events::{self, FoundEvents};
use super::event_cursor::{PageCursor, SearchCursor, after};
use super::event_filter::{self, EventFilter};
use super::namespaces;
use super::principal::Principal;
use super::query_parameters::{Parameters, Query, RawParameters};
use super::response::{self, ApiError};
use crate::{event_log, shard_client};

/// Default page size.
const PAGE: usize = 200;
const PAGE_MAX: usize = 1_000;
/// Default search period, in milliseconds.
const SINCE_MS: u64 = 3_600_000;
/// Searched plans of one shard, latest changed first.
const PLANS_MAX: usize = 200;
/// Events that one request reads; the next one continues there.
const EVENTS_READ_MAX: u64 = 20_000;
/// Concurrent searches.
pub(super) const SCANS_MAX: usize = 4;
/// How much newer an event may be than the listed change of its plan, in milliseconds.
pub(super) const INDEX_LATE_MS: u64 = 10_000;
/// Events of one plan per read, from the end of its log backwards.
const SLICE_EVENTS: u64 = 200;
/// Logs read concurrently; each slice may hold 200 large events.
const AT_ONCE: usize = 8;
/// The form of a cursor.
const CURSOR_PATTERN: &str = "^(older:)?[0-9]{1,19}:p[0-9]{1,4}-[0-9a-z]{16}:[0-9]{1,19}$";
/// The usual form of one condition; more is possible.
pub(super) const CONDITIONS_PATTERN: &str = concat!(
    r#"^\$(\.[A-Za-z0-9_-]{1,20}|\[(0|[1-9][0-9]{0,8}|\*|'[A-Za-z0-9 ]{0,20}')\]){0,3}"#,
    r#"( ?(==|!=|<=|>=|<|>) ?("[A-Za-z0-9 ]{0,20}"|-?(0|[1-9][0-9]{0,14})|true|false|null))?$"#
);
/// Longest text that is searched for, in characters.
const TEXT_CHARS_MAX: usize = 256;

#[derive(schemars::JsonSchema)]
pub(crate) struct LogsQuery {
    /// Only of this plan.
    pub(super) plan: Option<String>,
    /// Only of steps with this id, and events of plans that list it.
    #[schemars(regex(pattern = ID_PATTERN))]
    step: Option<String>,
    /// Only of these types, separated by commas.
    #[schemars(with = "Option<String>", transform = event_filter::add_types_pattern)]
    types: Option<Vec<String>>,
    /// Only of this phase, and of its steps.
    #[schemars(length(max = 256))]
    phase: Option<String>,
    /// Only events that have all of these words in their type, ids or data; case does not matter.
    #[schemars(with = "Option<String>", length(max = 256), regex(pattern = "[A-Za-z0-9]"))]
    text: Option<Vec<String>>,
    /// Only events whose data fits, such as `$.outputs.city == "Zürich" && $.outputs.price < 200`.
    #[schemars(with = "Option<String>", regex(pattern = CONDITIONS_PATTERN))]
    r#where: Option<DataConditions>,
    /// Only events since then, Unix milliseconds; default the last hour.
    #[schemars(range(max = TIME_MS_MAX))]
    pub(super) since_ms: Option<u64>,
    /// Events per page, at most 1000; default 200.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// The `next` of the previous page. A request reads at most 20,000 events, so a page may be short or empty and still
    /// have a `next`. One that begins with `older` follows when all newer events were given: older ones are in the archive.
    #[schemars(with = "Option<String>", regex(pattern = CURSOR_PATTERN))]
    cursor: Option<PageCursor>,
}

impl LogsQuery {
    /// Whether an event is looked for, whatever its time.
    pub(super) fn fits(&self, record: &Record) -> bool {
        self.filter().matches(record)
            && self.text.as_ref().is_none_or(|words| has_words(record, words))
            && self.r#where.as_ref().is_none_or(|conditions| conditions.hold_for(&record.to_line()))
    }

    /// Which events of a plan are looked for.
    fn filter(&self) -> EventFilter {
        EventFilter {
            step: self.step.clone(),
            types: self.types.clone().unwrap_or_default(),
            phase: self.phase.clone(),
        }
    }
}

impl Parameters for LogsQuery {
    const NAMES: &'static [&'static str] =
        &["plan", "step", "types", "phase", "text", "where", "since_ms", "limit", "cursor"];

    fn parse(given: &mut RawParameters) -> Self {
        let cursor = |text: &str| {
            PageCursor::from_text(text).ok_or_else(|| {
                (format!("`{}` is no `next` of an answer", response::shown(text)), "start without it".to_owned())
            })
        };
        Self {
            plan: given.value("plan", |text| Ok(text.to_owned())),
            step: given.value("step", event_filter::parse_step),
            types: given.value("types", event_filter::parse_types),
            phase: given.value("phase", event_filter::parse_phase),
            text: given.value("text", parse_text),
            r#where: given.value("where", parse_conditions),
            since_ms: given.number("since_ms", 0..=TIME_MS_MAX),
            limit: given.number("limit", 1..=PAGE_MAX),
            cursor: given.value("cursor", cursor),
        }
    }
}

/// The words of a search for text.
fn parse_text(text: &str) -> Result<Vec<String>, (String, String)> {
    let hint = || "give words of letters and digits, or leave `text` out".to_owned();
    if text.chars().count() > TEXT_CHARS_MAX {
        return Err((format!("`text` has more than {TEXT_CHARS_MAX} characters"), hint()));
    }
    let words = query_words(text);
    if words.is_empty() { Err(("`text` has no word".to_owned(), hint())) } else { Ok(words) }
}

/// Conditions on JSON.
pub(super) fn parse_conditions(text: &str) -> Result<DataConditions, (String, String)> {
    DataConditions::parse(text).map_err(|why| {
        let hint = r#"write it like `$.outputs.city == "Zürich" && $.outputs.price < 200`"#;
        (format!("`where` cannot be read: {why}"), hint.to_owned())
    })
}

/// The search criteria.
struct Filter {
    events: EventFilter,
    /// All of these are in the event.
    words: Vec<String>,
    conditions: DataConditions,
    since_ms: u64,
    limit: usize,
}

impl Filter {
    fn matches(&self, record: &Record) -> bool {
        record.time_ms >= self.since_ms
            && self.events.matches(record)
            && has_words(record, &self.words)
            && (self.conditions.is_empty() || self.conditions.hold_for(&record.to_line()))
    }

    /// The search in the archive; it may find more than what matches.
    fn archive_search(
        &self,
        plan: Option<PlanId>,
        namespace: Option<Namespace>,
        before: Option<EventPosition>,
    ) -> EventSearch {
        let EventFilter { types, step, phase } = self.events.clone();
        let (words, conditions) = (self.words.clone(), self.conditions.clone());
        EventSearch { plan, step, phase, types, words, conditions, namespace, since_ms: self.since_ms, before }
    }
}

fn has_words(record: &Record, wanted: &[String]) -> bool {
    if wanted.is_empty() {
        return true;
    }
    let words = event_words(&record.to_line());
    wanted.iter().all(|word| words.contains(word))
}

/// The newest matching events, oldest first, and a cursor if not all were read.
pub(crate) async fn list(
    State(api): State<Api>,
    principal: Principal,
    Query(query): Query<LogsQuery>,
) -> Result<Json<Page<Text>>, ApiError> {
    let events = query.filter();
    let _place = api.scans.try_acquire().map_err(|_| {
        let detail = format!("{SCANS_MAX} requests for logs are being answered; try again");
        Problem::new(ErrorCode::NotReady, detail)
    })?;
    let filter = Filter {
        events,
        words: query.text.unwrap_or_default(),
        conditions: query.r#where.unwrap_or_default(),
        since_ms: query.since_ms.unwrap_or_else(|| api.scheduler.clock.now_ms().saturating_sub(SINCE_MS)),
        limit: query.limit.unwrap_or(PAGE),
    };
    let plan = query.plan.map(PlanId::from);
    if let Some(plan) = &plan {
        shard_client::shard_of(&api.scheduler, plan)?;
        namespaces::require_plan(api.scheduler.plans.as_ref(), &principal, plan.as_str()).await?;
        if query.cursor.as_ref().is_some_and(|cursor| cursor.plan() != plan) {
            let detail = "`cursor` belongs to a request for other plans";
            return Err(Problem::new(ErrorCode::InvalidRequest, detail).into());
        }
    }
    let (found, next) = find(&api, &principal, plan, query.cursor, &filter).await?;
    let items: Vec<Text> = found.iter().map(|(plan, record)| line(plan, record)).collect();
    Ok(Json(Page { items, next: next.map(|cursor| cursor.write()) }))
}

/// Searches the store, and after its end the archive, if there is one.
async fn find(
    api: &Api,
    principal: &Principal,
    plan: Option<PlanId>,
    cursor: Option<PageCursor>,
    filter: &Filter,
) -> Result<(Vec<(PlanId, Record)>, Option<PageCursor>), ApiError> {
    let (cursor, before) = match cursor {
        Some(PageCursor::Older(before)) => (None, Some(before)),
        Some(PageCursor::Live(cursor)) => (Some(cursor), None),
        None => (None, None),
    };
    let mut live = Vec::new();
    if before.is_none() {
        let plans = match &plan {
            Some(plan) => vec![(plan.clone(), u64::MAX)],
            None => changed_since(api, filter.since_ms).await?,
        };
        let plans = after(plans, cursor.as_ref());
        let plans = namespaces::keep_seen(api.scheduler.plans.as_ref(), principal, plans, |(plan, _)| plan).await?;
        let (found, next) = scan(api, plans, cursor, filter).await?;
        if next.is_some() {
            return Ok((found, next.map(PageCursor::Live)));
        }
        live = found;
    }
    let Some(archive) = &api.scheduler.archive else { return Ok((live, None)) };
    let namespace = (!principal.sees_all).then(|| principal.namespace.clone());
    let search = filter.archive_search(plan, namespace, before);
    let matches = |record: &Record| filter.matches(record);
    let archived = archived_events::search(archive.as_ref(), search, filter.limit, EVENTS_READ_MAX, matches).await?;
    let FoundEvents { events, older } = archived_events::merge(live, archived, filter.limit);
    Ok((events, older.map(PageCursor::Older)))
}

/// The found events, and how many more may be read.
struct EventSearchResult {
    events: Vec<(PlanId, Record)>,
    left: u64,
}

impl EventSearchResult {
    /// Keeps the newest events; events before the returned time need not be read.
    fn keep_newest(&mut self, limit: usize) -> u64 {
        self.events.sort_by(|(a, one), (b, other)| (one.time_ms, a, one.seq).cmp(&(other.time_ms, b, other.seq)));
        self.events.drain(..self.events.len().saturating_sub(limit));
        let is_full = self.events.len() >= limit;
        self.events.first().filter(|_| is_full).map_or(0, |(_, oldest)| oldest.time_ms)
    }
}

type Scanned = (Vec<(PlanId, Record)>, Option<SearchCursor>);

/// Searches the logs of these plans, each from its end backwards.
async fn scan(
    api: &Api,
    plans: Vec<(PlanId, u64)>,
    cursor: Option<SearchCursor>,
    filter: &Filter,
) -> Result<Scanned, ApiError> {
    let mut found = EventSearchResult { events: Vec::new(), left: EVENTS_READ_MAX };
    let mut since_ms = filter.since_ms;
    let ends = cursor.map(|cursor| (cursor.plan, cursor.end));
    let first = async |(plan, changed_ms): (PlanId, u64)| {
        let end = match ends.as_ref().filter(|(of, _)| *of == plan) {
            Some((_, end)) => *end,
            None => last_seq(api, &plan).await?,
        };
        Ok::<_, ApiError>((read_slice(api, &plan, end).await?, plan, changed_ms))
    };
    let mut portions = std::pin::pin!(stream::iter(plans.into_iter().map(first)).buffered(AT_ONCE));
    while let Some((mut read, plan, changed_ms)) = portions.try_next().await? {
        if changed_ms.saturating_add(INDEX_LATE_MS) < since_ms {
            break;
        }
        let mut of_plan = 0;
        loop {
            found.left = found.left.saturating_sub(read.records.len() as u64);
            let is_older = read.records.iter().any(|record| record.time_ms < since_ms);
            let before = found.events.len();
            let fit = read.records.into_iter().filter(|record| filter.matches(record));
            found.events.extend(fit.map(|record| (plan.clone(), record)));
            of_plan += found.events.len() - before;
            since_ms = found.keep_newest(filter.limit).max(since_ms);
            let is_over = is_older || read.start == 0 || of_plan >= filter.limit;
            if found.left == 0 {
                let end = if is_over { 0 } else { read.start };
                return Ok((found.events, Some(SearchCursor { changed_ms, plan, end })));
            }
            if is_over {
                break;
            }
            read = read_slice(api, &plan, read.start).await?;
        }
    }
    Ok((found.events, None))
}

/// Plans that changed since then, and when.
async fn changed_since(api: &Api, since_ms: u64) -> Result<Vec<(PlanId, u64)>, ApiError> {
    let mut plans = Vec::new();
    for n in 0..api.scheduler.shards {
        let found = api.scheduler.plans.list_live(ShardId(n), u64::MAX, PLANS_MAX).await?;
        plans.extend(found.into_iter().filter(|(_, changed_ms)| *changed_ms >= since_ms));
    }
    Ok(plans)
}

/// Number of a plan's last event; 0 for a deleted log.
pub(super) async fn last_seq(api: &Api, plan: &PlanId) -> Result<u64, ApiError> {
    let summary = api.scheduler.plans.summary(plan).await?;
    Ok(summary.get("seq").and_then(|seq| seq.parse().ok()).unwrap_or(0))
}

/// Consecutive events of a log.
pub(super) struct LogSlice {
    /// All events after this one were read.
    pub(super) start: u64,
    pub(super) records: Vec<Record>,
}

/// The last events up to `end`.
pub(super) async fn read_slice(api: &Api, plan: &PlanId, end: u64) -> Result<LogSlice, ApiError> {
    let start = end.saturating_sub(SLICE_EVENTS);
    let mut records = Vec::new();
    if end > 0 {
        let entries = api.scheduler.plans.log(plan, start, to_usize(SLICE_EVENTS)).await?;
        for entry in &entries {
            let read = event_log::parse_records(entry)
                .map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?;
            records.extend(read.into_iter().filter(|record| record.seq > start && record.seq <= end));
        }
    }
    // A deleted log ends here.
    let start = if records.is_empty() { 0 } else { start };
    Ok(LogSlice { start, records })
}

/// The event as in `/v1/plans/{id}/events`, with the id of its plan. Outputs keep their text, because older logs may hold
/// some that cannot be parsed.
pub(super) fn line(plan: &PlanId, record: &Record) -> Text {
    let event = record.to_line();
    let fields = event.strip_prefix('{').expect("an event is a JSON object");
    let plan = Text::from_value(plan.as_str());
    Text::from_text(format!("{{\"plan_id\":{},{fields}", plan.text())).expect("an event has fields")
}

#[cfg(test)]
mod tests {
    use goalmill_common::event::{Event, StepCompleted, StepEvent};

    use super::*;

    #[test]
    fn an_event_with_outputs_that_no_reader_takes_is_still_shown() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let outputs = Text::from_text(deep.clone()).expect("it is JSON");
        let completed = StepCompleted { outputs, ..StepCompleted::default() };
        let event =
            Event::Step { step: "a".into(), attempt: 1, phase: None, event: StepEvent::Completed(Box::new(completed)) };
        let record = Record { seq: 7, time_ms: 1, actor: None, event };
        let line = line(&"p0-x".into(), &record);
        assert!(line.text().starts_with("{\"plan_id\":\"p0-x\",") && line.text().contains(&deep), "{}", line.text());
    }
}
