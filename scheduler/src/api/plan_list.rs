//! The list of plans, last changed first.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use goalmill_archive::DataConditions;
use goalmill_broker::BrokerError;
use goalmill_common::id::{AgentType, ID_PATTERN, PlanId, ShardId, is_id};
use goalmill_common::status::PlanStatus;
use goalmill_common::view::{Page, PlanSummary};

use super::Api;
use super::census::{CensusEntry, CensusResult};
use super::entity_tag::tagged_by_content;
use super::event_search::{CONDITIONS_PATTERN, parse_conditions};
use super::plan_search::PlanSearch;
use super::principal::Principal;
use super::query_parameters::{Parameters, Query, RawParameters};
use super::response::{ApiError, shown};

/// Default page size.
const PAGE: usize = 50;
const PAGE_MAX: usize = 500;
/// Plans read for one page; a filter with few matches gives a short page and a cursor.
const PLANS_READ_MAX: usize = 5_000;
/// The same of a search, which may read the log of each.
const PLANS_SEARCHED_MAX: usize = 500;
/// The form of a cursor.
pub(super) const LIST_CURSOR_PATTERN: &str = "^[0-9]{1,19}:(p[0-9]{1,4}-[0-9a-z]{16})?$";
/// Summaries read concurrently.
const AT_ONCE: usize = 16;

#[derive(schemars::JsonSchema)]
pub(crate) struct ListQuery {
    /// Plans per page, at most 500; default 50.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
    /// The `next` of the page before.
    #[schemars(with = "Option<String>", regex(pattern = LIST_CURSOR_PATTERN))]
    cursor: Option<ListCursor>,
    /// Only plans with this status.
    status: Option<PlanStatus>,
    /// Only plans with all these words in name, id, or the description of the goal; at most 200 characters. A page of a
    /// search may be short or empty and still have a `next`.
    #[schemars(with = "Option<String>", length(min = 1, max = 200), regex(pattern = r"\S"))]
    q: Option<PlanSearch>,
    /// Only plans whose entry in this list fits, such as `$.usage.cost > 2 && $.counts.failed >= 1`.
    #[schemars(with = "Option<String>", regex(pattern = CONDITIONS_PATTERN))]
    r#where: Option<DataConditions>,
    /// Only plans with a failed step, or that failed.
    #[schemars(with = "Option<bool>")]
    with_failures: bool,
    /// Only plans with a step of this agent type.
    #[schemars(with = "Option<String>", regex(pattern = ID_PATTERN))]
    agent_type: Option<AgentType>,
    /// Only plans that are a step of this one.
    #[schemars(with = "Option<String>", regex(pattern = ID_PATTERN))]
    parent: Option<PlanId>,
    /// Only plans that are no step of another one, each with the number of plans inside it.
    #[schemars(with = "Option<bool>")]
    outermost: bool,
}

impl Parameters for ListQuery {
    const NAMES: &'static [&'static str] =
        &["limit", "cursor", "status", "q", "where", "with_failures", "agent_type", "parent", "outermost"];

    fn parse(given: &mut RawParameters) -> Self {
        let limit = given.number("limit", 1..=PAGE_MAX);
        let cursor = given.value("cursor", |text| {
            ListCursor::from_text(text)
                .ok_or_else(|| (format!("`cursor` is `{}`", shown(text)), "give the `next` of the page before".into()))
        });
        let status = given.status("status", PlanStatus::ALL);
        let conditions = given.value("where", parse_conditions);
        let with_failures = given.flag("with_failures");
        let id = |text: &str| match is_id(text) {
            true => Ok(text.to_owned()),
            false => Err((format!("`{}` is no id", shown(text)), "give an id as it stands in a list".to_owned())),
        };
        let agent_type = given.value("agent_type", id).map(AgentType::from);
        let parent = given.value("parent", id).map(PlanId::from);
        let outermost = given.flag("outermost");
        let q = given.value("q", PlanSearch::parse);
        Self { limit, cursor, status, q, r#where: conditions, with_failures, agent_type, parent, outermost }
    }
}

/// A position in the list: last changed first, then by id in descending order.
///
/// Plans that change between pages move to the front, where a new list shows them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListCursor {
    changed_ms: u64,
    plan: PlanId,
}

impl ListCursor {
    /// `<milliseconds>:<plan>`, the last plan of the page before; without a plan, all of that millisecond come before.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let (changed_ms, plan) = text.split_once(':')?;
        let plan = PlanId::from(plan);
        if !plan.as_str().is_empty() {
            plan.shard()?;
        }
        Some(Self { changed_ms: changed_ms.parse().ok()?, plan })
    }

    /// The same position, named by no plan that the caller does not see: plans of the same millisecond may be looked at
    /// again, but none of them is shown twice.
    ///
    /// - `last_seen`: the last plan at or before this position that the caller sees.
    fn without_hidden(self, last_seen: Option<Self>) -> Self {
        match last_seen {
            Some(seen) if seen.changed_ms == self.changed_ms => seen,
            Some(_) | None => Self { changed_ms: self.changed_ms.saturating_add(1), plan: PlanId::from("") },
        }
    }

    fn write(&self) -> String {
        format!("{}:{}", self.changed_ms, self.plan)
    }
}

pub(crate) async fn list(
    State(api): State<Api>,
    principal: Principal,
    headers: HeaderMap,
    Query(query): Query<ListQuery>,
) -> Result<Response, ApiError> {
    let statuses = query.status.map(|status| vec![status]);
    let conditions = query.r#where.unwrap_or_default();
    let ListQuery { with_failures, q: search, agent_type, parent, outermost, .. } = query;
    let filter = PlanFilter {
        statuses,
        with_failures,
        search,
        conditions,
        changed_before_ms: None,
        agent_type,
        parent,
        is_outermost: outermost,
    };
    let (items, next) = find_plans(&api, &principal, &filter, query.cursor, query.limit.unwrap_or(PAGE)).await?;
    Ok(tagged_by_content(&headers, &Page { items, next }))
}

/// Which plans are looked for.
pub(super) struct PlanFilter {
    /// In one of these statuses.
    pub(super) statuses: Option<Vec<PlanStatus>>,
    /// Only those with a failure, see [`has_failed`].
    pub(super) with_failures: bool,
    pub(super) search: Option<PlanSearch>,
    /// On the entry of the plan in a list.
    pub(super) conditions: DataConditions,
    /// Last changed before this time, Unix milliseconds.
    pub(super) changed_before_ms: Option<u64>,
    /// With a step of this agent type.
    pub(super) agent_type: Option<AgentType>,
    /// A step of this plan.
    pub(super) parent: Option<PlanId>,
    /// No step of another plan.
    pub(super) is_outermost: bool,
}

impl PlanFilter {
    /// Whether a plan fits all but the search.
    fn fits(&self, plan: &PlanSummary) -> bool {
        let holds = || serde_json::to_value(plan).is_ok_and(|plan| self.conditions.hold(&plan));
        self.statuses.as_ref().is_none_or(|all| all.contains(&plan.status))
            && (!self.with_failures || has_failed(plan))
            && self.agent_type.as_ref().is_none_or(|agent_type| plan.agent_types.contains(agent_type))
            && self.parent.as_ref().is_none_or(|parent| plan.parent.as_ref() == Some(parent))
            && !(self.is_outermost && plan.parent.is_some())
            && (self.conditions.is_empty() || holds())
    }

    /// Whether it may pass over plans, so that many would have to be looked at.
    fn is_selective(&self) -> bool {
        let Self { statuses, with_failures, search, conditions, agent_type, parent, is_outermost, .. } = self;
        let has_text = search.is_some() || agent_type.is_some() || parent.is_some();
        statuses.is_some() || *with_failures || *is_outermost || has_text || !conditions.is_empty()
    }
}

/// Whether a step of the plan has failed, or the plan.
pub(super) fn has_failed(plan: &PlanSummary) -> bool {
    plan.counts.failed > 0 || plan.status == PlanStatus::Failed
}

/// At most `limit` plans that the caller sees, after a cursor, last changed first, and the cursor of the next ones. The
/// number of plans that are looked at is bounded, so there may be fewer and still a next cursor.
pub(super) async fn find_plans(
    api: &Api,
    principal: &Principal,
    filter: &PlanFilter,
    cursor: Option<ListCursor>,
    limit: usize,
) -> Result<(Vec<PlanSummary>, Option<String>), ApiError> {
    // What changed last is in memory. A bulk action begins further back, where the index is read.
    if !filter.is_selective() || filter.changed_before_ms.is_some() {
        return scan_plans(api, principal, filter, cursor, limit).await;
    }
    let census = api.census.current(api, filter.search.is_some()).await?;
    let is_known = cursor.as_ref().is_none_or(|cursor| cursor.changed_ms > census.known_after_ms.saturating_add(1));
    let (mut items, next) = match is_known {
        true => find_known(api, principal, filter, cursor, limit, &census).await?,
        false => scan_plans(api, principal, filter, cursor, limit).await?,
    };
    if filter.is_outermost || filter.parent.is_some() {
        count_inside(&mut items, &census);
    }
    Ok((items, next))
}

/// Counts the known plans inside each of some plans.
fn count_inside(items: &mut [PlanSummary], census: &CensusResult) {
    let mut inside: HashMap<&PlanId, u32> = HashMap::new();
    for parent in census.plans.values().filter_map(|entry| entry.summary.parent.as_ref()) {
        *inside.entry(parent).or_default() += 1;
    }
    for plan in items {
        plan.plans_inside = inside.get(&plan.plan_id).copied().unwrap_or_default();
    }
}

/// The same among the plans that are known; the next cursor may lead to those that are not.
async fn find_known(
    api: &Api,
    principal: &Principal,
    filter: &PlanFilter,
    cursor: Option<ListCursor>,
    limit: usize,
    census: &CensusResult,
) -> Result<(Vec<PlanSummary>, Option<String>), ApiError> {
    let is_asked = |(changed_ms, plan, entry): &(u64, &PlanId, &CensusEntry)| {
        let is_after = || cursor.as_ref().is_none_or(|after| (*changed_ms, *plan) < (after.changed_ms, &after.plan));
        *changed_ms > census.known_after_ms
            && is_after()
            && principal.may_see(&entry.summary.namespace)
            && filter.fits(&entry.summary)
    };
    let known = census.plans.iter().map(|(plan, entry)| (entry.changed_ms, plan, entry));
    let mut places: Vec<_> = known.filter(is_asked).collect();
    places.sort_unstable_by(|(a, plan, _), (b, other, _)| (b, other).cmp(&(a, plan)));
    let cursor_of = |changed_ms: u64, plan: &PlanId| ListCursor { changed_ms, plan: plan.clone() };
    let (mut items, mut read, mut last) = (Vec::new(), 0, None);
    for (changed_ms, plan, entry) in places {
        if items.len() == limit || read == PLANS_SEARCHED_MAX {
            return Ok((items, last));
        }
        let is_found = match (&filter.search, &entry.goal) {
            (None, _) => true,
            (Some(search), Some(goal)) => search.fits(&entry.summary, goal),
            (Some(search), None) => {
                read += 1;
                search.finds(api.scheduler.plans.as_ref(), &entry.summary).await?
            }
        };
        if is_found {
            items.push((*entry.summary).clone());
        }
        last = Some(cursor_of(changed_ms, plan).write());
    }
    let unknown = cursor_of(census.known_after_ms.saturating_add(1), &PlanId::from("")).write();
    Ok((items, census.is_partial.then_some(unknown)))
}

/// The same by reading the index, plan after plan.
async fn scan_plans(
    api: &Api,
    principal: &Principal,
    filter: &PlanFilter,
    cursor: Option<ListCursor>,
    limit: usize,
) -> Result<(Vec<PlanSummary>, Option<String>), ApiError> {
    let newest = |changed_ms| ListCursor { changed_ms, plan: PlanId::from("") };
    let mut last_seen = cursor.clone();
    // The position that comes later in the list.
    let mut after = cursor.into_iter().chain(filter.changed_before_ms.map(newest)).min();
    let most = if filter.search.is_some() { PLANS_SEARCHED_MAX } else { PLANS_READ_MAX };
    let mut items = Vec::new();
    let mut looked_at = 0;
    loop {
        let shards = (0..api.scheduler.shards).map(|n| page(api, ShardId(n), after.as_ref(), limit));
        let mut places: Vec<ListCursor> = try_join_all(shards).await?.into_iter().flatten().collect();
        places.sort_unstable_by(|a, b| b.cmp(a));
        places.truncate(limit - items.len());
        let is_last = places.len() < limit - items.len();
        looked_at += places.len();
        after = places.last().cloned().or(after);
        let found = summaries(api, places).await?;
        let mut fitting = Vec::new();
        for (place, found) in found.into_iter().filter(|(_, found)| principal.may_see(&found.namespace)) {
            last_seen = Some(place);
            if filter.fits(&found) {
                fitting.push(found);
            }
        }
        items.extend(search(api, filter.search.as_ref(), fitting).await?);
        if is_last || items.len() >= limit || looked_at >= most {
            let after = after.map(|after| if principal.sees_all { after } else { after.without_hidden(last_seen) });
            let next = after.filter(|_| !is_last).map(|after| after.write());
            return Ok((items, next));
        }
    }
}

/// Those that the search finds; all without one.
async fn search(
    api: &Api,
    search: Option<&PlanSearch>,
    plans: Vec<PlanSummary>,
) -> Result<Vec<PlanSummary>, BrokerError> {
    let Some(search) = search else { return Ok(plans) };
    let look = async |plan: PlanSummary| {
        let is_found = search.finds(api.scheduler.plans.as_ref(), &plan).await?;
        Ok::<_, BrokerError>(is_found.then_some(plan))
    };
    let found: Vec<Option<PlanSummary>> =
        stream::iter(plans.into_iter().map(look)).buffered(AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
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

async fn summaries(api: &Api, places: Vec<ListCursor>) -> Result<Vec<(ListCursor, PlanSummary)>, BrokerError> {
    let read = async |place: ListCursor| {
        let fields = api.scheduler.plans.summary(&place.plan).await?;
        Ok(PlanSummary::from_fields(place.plan.clone(), &fields).map(|summary| (place, summary)))
    };
    let found: Vec<Option<(ListCursor, PlanSummary)>> =
        stream::iter(places.into_iter().map(read)).buffered(AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}
