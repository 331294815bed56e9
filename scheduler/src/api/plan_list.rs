//! The list of plans, last changed first.

use axum::Json;
use axum::extract::State;
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use goalmill_broker::BrokerError;
use goalmill_common::id::{PlanId, ShardId};
use goalmill_common::status::PlanStatus;
use goalmill_common::view::{Page, PlanSummary};

use super::Api;
use super::principal::Principal;
use super::query_parameters::{Parameters, Query, RawParameters};
use super::response::{ApiError, shown};

/// Default page size.
const PAGE: usize = 50;
const PAGE_MAX: usize = 500;
/// Plans read for one page; a filter with few matches gives a short page and a cursor.
const PLANS_READ_MAX: usize = 5_000;
/// Summaries read concurrently.
const AT_ONCE: usize = 16;

#[derive(schemars::JsonSchema)]
pub(crate) struct ListQuery {
    /// Plans per page, at most 500; default 50.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
    /// The `next` of the page before.
    #[schemars(with = "Option<String>")]
    cursor: Option<ListCursor>,
    /// Only plans with this status.
    status: Option<PlanStatus>,
}

impl Parameters for ListQuery {
    const NAMES: &'static [&'static str] = &["limit", "cursor", "status"];

    fn parse(given: &mut RawParameters) -> Self {
        let limit = given.number("limit", 1..=PAGE_MAX);
        let cursor = given.value("cursor", |text| {
            ListCursor::read(text)
                .ok_or_else(|| (format!("`cursor` is `{}`", shown(text)), "give the `next` of the page before".into()))
        });
        let status = given.value("status", |text| {
            PlanStatus::parse(text).ok_or_else(|| {
                let known: Vec<&str> = PlanStatus::ALL.iter().map(|status| status.as_str()).collect();
                (format!("there is no status `{}`", shown(text)), format!("there are `{}`", known.join("`, `")))
            })
        });
        Self { limit, cursor, status }
    }
}

/// A position in the list: last changed first, then by id in descending order.
///
/// Plans that change between pages move to the front, where a new list shows them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ListCursor {
    changed_ms: u64,
    plan: PlanId,
}

impl ListCursor {
    /// `<milliseconds>:<plan>`, the last plan of the page before.
    fn read(text: &str) -> Option<Self> {
        let (changed_ms, plan) = text.split_once(':')?;
        let plan = PlanId::from(plan);
        plan.shard()?;
        Some(Self { changed_ms: changed_ms.parse().ok()?, plan })
    }

    fn write(&self) -> String {
        format!("{}:{}", self.changed_ms, self.plan)
    }
}

pub(crate) async fn list(
    State(api): State<Api>,
    principal: Principal,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<PlanSummary>>, ApiError> {
    let limit = query.limit.unwrap_or(PAGE);
    let mut after = query.cursor;
    let mut items = Vec::new();
    let mut looked_at = 0;
    loop {
        let shards = (0..api.scheduler.shards).map(|n| page(&api, ShardId(n), after.as_ref(), limit));
        let mut places: Vec<ListCursor> = try_join_all(shards).await?.into_iter().flatten().collect();
        places.sort_unstable_by(|a, b| b.cmp(a));
        places.truncate(limit - items.len());
        let is_last = places.len() < limit - items.len();
        looked_at += places.len();
        after = places.last().cloned().or(after);
        let found = summaries(&api, places).await?;
        let seen = found.into_iter().filter(|found| principal.may_see(&found.namespace));
        items.extend(seen.filter(|found| query.status.is_none_or(|status| status == found.status)));
        if is_last || items.len() >= limit || looked_at >= PLANS_READ_MAX {
            let next = after.filter(|_| !is_last).map(|after| after.write());
            return Ok(Json(Page { items, next }));
        }
    }
}

/// The next `limit` plans of one shard after `after`.
async fn page(
    api: &Api,
    shard: ShardId,
    after: Option<&ListCursor>,
    limit: usize,
) -> Result<Vec<ListCursor>, BrokerError> {
    let before_ms = after.map_or(u64::MAX, |after| after.changed_ms.saturating_add(1));
    let mut asked = limit;
    loop {
        let found = api.scheduler.plans.list(shard, before_ms, asked).await?;
        let is_all = found.len() < asked;
        let places = found.into_iter().map(|(plan, changed_ms)| ListCursor { changed_ms, plan });
        let mut fresh: Vec<ListCursor> = places.filter(|place| after.is_none_or(|after| place < after)).collect();
        if is_all || fresh.len() >= limit {
            fresh.truncate(limit);
            return Ok(fresh);
        }
        // The millisecond at the cursor holds more plans than a page.
        asked *= 2;
    }
}

async fn summaries(api: &Api, places: Vec<ListCursor>) -> Result<Vec<PlanSummary>, BrokerError> {
    let read = async |place: ListCursor| {
        let fields = api.scheduler.plans.summary(&place.plan).await?;
        Ok(PlanSummary::from_fields(place.plan, &fields))
    };
    let found: Vec<Option<PlanSummary>> =
        stream::iter(places.into_iter().map(read)).buffered(AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}
