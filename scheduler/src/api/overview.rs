//! The numbers of all plans that a caller sees, and which of them wait for people.
//!
//! The entries of all plans are kept in memory and read again only where a plan has changed: an index entry and its summary
//! are written together.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use goalmill_broker::BrokerError;
use goalmill_common::id::{Namespace, PlanId, ShardId};
use goalmill_common::status::PlanStatus;
use goalmill_common::view::{Overview, PlanSummary};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Api;
use super::plan_list::has_failed;
use super::principal::Principal;
use super::query_parameters::{Parameters, Query, RawParameters};
use super::response::{ApiError, ApiResult};

/// Plans that are listed by default, and at most.
const WAITING: usize = 100;
const WAITING_MAX: usize = 500;
/// Plans that are counted besides those that run, over all shards: the last changed ones.
const COUNTED_MAX: usize = 20_000;
/// The same of one shard, at the least.
const SHARD_COUNTED_MIN: usize = 1_000;
/// A change that is so old has its final entry in the index, in milliseconds.
const SETTLED_MS: u64 = 3_000;
/// Summaries read in one call.
const AT_ONCE: usize = 32;
/// A count is used again for so many times what it took, within these bounds: counting is a small part of the work, and
/// what people see is of now.
const KEPT_TIMES: u32 = 20;
const KEPT_MIN: Duration = Duration::from_millis(500);
const KEPT_MAX: Duration = Duration::from_secs(3);

#[derive(schemars::JsonSchema)]
pub(crate) struct OverviewQuery {
    /// How many of the plans that wait are listed, at most 500; default 100.
    #[schemars(range(max = 500))]
    limit: Option<usize>,
}

impl Parameters for OverviewQuery {
    const NAMES: &'static [&'static str] = &["limit"];

    fn parse(given: &mut RawParameters) -> Self {
        Self { limit: given.number("limit", 0..=WAITING_MAX) }
    }
}

/// `GET /v1/overview`.
pub(crate) async fn get(
    State(api): State<Api>,
    principal: Principal,
    Query(query): Query<OverviewQuery>,
) -> ApiResult<Overview> {
    let counted = api.census.counted(&api).await?;
    let mut overview = Overview { is_partial: counted.is_partial, ..Overview::default() };
    let mut waiting = Vec::new();
    for (plan, entry) in counted.plans.iter().filter(|(_, entry)| principal.may_see(&entry.namespace)) {
        overview.plans += 1;
        *overview.statuses.entry(entry.status).or_default() += 1;
        overview.with_failures += u64::from(entry.has_failed);
        overview.waits += u64::from(entry.waits);
        if entry.waits > 0 {
            // Without a deadline, the one that waits longest comes first.
            waiting.push((entry.due_at.is_none(), &entry.due_at, entry.changed_ms, plan));
        }
    }
    waiting.sort_unstable();
    waiting.truncate(query.limit.unwrap_or(WAITING));
    let read = async |plan: PlanId| {
        let fields = api.scheduler.plans.summary(&plan).await?;
        Ok::<_, BrokerError>(PlanSummary::from_fields(plan, &fields))
    };
    let plans: Vec<PlanId> = waiting.into_iter().map(|(.., plan)| plan.clone()).collect();
    let found: Vec<Option<PlanSummary>> =
        stream::iter(plans.into_iter().map(read)).buffered(AT_ONCE).try_collect().await?;
    overview.waiting = found.into_iter().flatten().collect();
    Ok(Json(overview))
}

/// Counts plans for all callers.
#[derive(Default)]
pub(super) struct Census(Mutex<Option<CensusResult>>);

/// What was counted, and when.
#[derive(Clone)]
struct CensusResult {
    plans: Arc<HashMap<PlanId, CensusEntry>>,
    is_partial: bool,
    /// Until when it is used.
    valid_until: Instant,
}

/// What is counted of a plan.
#[derive(Clone)]
struct CensusEntry {
    changed_ms: u64,
    /// Whether it is right as long as the plan has this change.
    is_settled: bool,
    namespace: Namespace,
    status: PlanStatus,
    has_failed: bool,
    waits: u32,
    due_at: Option<String>,
}

impl CensusEntry {
    fn from_summary(summary: PlanSummary, changed_ms: u64, now_ms: u64) -> Self {
        let has_failed = has_failed(&summary);
        let PlanSummary { namespace, status, waits, .. } = summary;
        let (waits, due_at) = waits.map_or((0, None), |waits| (waits.count, waits.due_at));
        let is_settled = changed_ms > 0 && now_ms > changed_ms.saturating_add(SETTLED_MS);
        Self { changed_ms, is_settled, namespace, status, has_failed, waits, due_at }
    }
}

impl Census {
    /// The current count; callers that come meanwhile wait for it.
    async fn counted(&self, api: &Api) -> Result<CensusResult, ApiError> {
        let mut kept = self.0.lock().await;
        let begun = Instant::now();
        if let Some(counted) = kept.as_ref().filter(|counted| counted.valid_until > begun) {
            return Ok(counted.clone());
        }
        let known = kept.as_ref().map(|counted| counted.plans.clone()).unwrap_or_default();
        let now_ms = api.scheduler.clock.now_ms();
        let (listed, is_partial) = list_all(api).await?;
        let read = async |(plan, changed_ms): (PlanId, u64)| {
            if let Some(entry) = known.get(&plan).filter(|entry| entry.changed_ms == changed_ms && entry.is_settled) {
                return Ok(Some((plan, entry.clone())));
            }
            let fields = api.scheduler.plans.summary(&plan).await?;
            let summary = PlanSummary::from_fields(plan.clone(), &fields);
            Ok::<_, BrokerError>(summary.map(|summary| (plan, CensusEntry::from_summary(summary, changed_ms, now_ms))))
        };
        let found: Vec<Option<(PlanId, CensusEntry)>> =
            stream::iter(listed.into_iter().map(read)).buffer_unordered(AT_ONCE).try_collect().await?;
        let plans = Arc::new(found.into_iter().flatten().collect());
        let now = Instant::now();
        let valid_until = now + (KEPT_TIMES * (now - begun)).clamp(KEPT_MIN, KEPT_MAX);
        Ok(kept.insert(CensusResult { plans, is_partial, valid_until }).clone())
    }
}

/// All plans with the time of their last change, 0 if it is not known: those that run, and the last changed ones; and
/// whether there are more.
async fn list_all(api: &Api) -> Result<(HashMap<PlanId, u64>, bool), BrokerError> {
    let shards = api.scheduler.shards;
    let limit = (COUNTED_MAX / usize::from(shards.max(1))).max(SHARD_COUNTED_MIN);
    let (mut all, mut is_partial) = (HashMap::new(), false);
    for shard in (0..shards).map(ShardId) {
        let listed = api.scheduler.plans.list(shard, u64::MAX, limit).await?;
        is_partial |= listed.len() >= limit;
        all.extend(listed);
        for plan in api.scheduler.broker.active(shard).await? {
            all.entry(plan).or_insert(0);
        }
    }
    Ok((all, is_partial))
}
