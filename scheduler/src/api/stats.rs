//! The quality of planning and execution over a period, from the logs of plans.

use axum::Json;
use axum::extract::State;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use goalmill_broker::BrokerError;
use goalmill_common::clock::TIME_MS_MAX;
use goalmill_common::id::{PlanId, ShardId};
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::quality::QualityReport;
use goalmill_engine::{PlanState, replay};

use super::Api;
use super::principal::Principal;
use super::query_parameters::{Parameters, Query, RawParameters};
use super::response::ApiError;
use crate::event_log::{self, Pages};
use crate::quality::{PlanSample, QualitySums};

/// Default period, in milliseconds.
const SINCE_MS: u64 = 86_400_000;
/// Plans that are read by default; the latest ones count.
const PLANS: usize = 1_000;
const PLANS_MAX: usize = 10_000;
/// Events read for one report.
const EVENTS_READ_MAX: u64 = 1_000_000;
/// Logs read concurrently.
const AT_ONCE: usize = 8;

#[derive(schemars::JsonSchema)]
pub(crate) struct MeasureQuery {
    /// Only plans that ended since then, Unix milliseconds; default the last 24 hours.
    #[schemars(range(max = TIME_MS_MAX))]
    since_ms: Option<u64>,
    /// Plans read, latest first, at most 10000; default 1000.
    #[schemars(range(min = 1, max = 10000))]
    plans: Option<usize>,
}

impl Parameters for MeasureQuery {
    const NAMES: &'static [&'static str] = &["since_ms", "plans"];

    fn parse(given: &mut RawParameters) -> Self {
        Self { since_ms: given.number("since_ms", 0..=TIME_MS_MAX), plans: given.number("plans", 1..=PLANS_MAX) }
    }
}

pub(crate) async fn report(
    State(api): State<Api>,
    principal: Principal,
    Query(query): Query<MeasureQuery>,
) -> Result<Json<QualityReport>, ApiError> {
    let _place = api
        .scans
        .try_acquire()
        .map_err(|_| Problem::new(ErrorCode::NotReady, "too many requests read logs now; try again"))?;
    let until_ms = api.scheduler.clock.now_ms();
    let since_ms = query.since_ms.unwrap_or_else(|| until_ms.saturating_sub(SINCE_MS));
    let plans_max = query.plans.unwrap_or(PLANS);
    let (plans, mut is_partial) = changed_since(&api, since_ms, plans_max).await?;
    let mut sums = QualitySums::default();
    let mut events = 0;
    let mut read = std::pin::pin!(stream::iter(plans).map(|plan| read_plan(&api, plan)).buffer_unordered(AT_ONCE));
    while let Some(found) = read.try_next().await? {
        let Some((state, sample)) = found else { continue };
        events += state.seq();
        if principal.may_see(&state.namespace()) && state.is_final() && state.updated_ms() >= since_ms {
            sums.add(&state, sample);
        }
        if events >= EVENTS_READ_MAX {
            is_partial = true;
            break;
        }
    }
    let routing_cost = api.scheduler.directory.router().embedding_cost();
    Ok(Json(QualityReport { since_ms, until_ms, is_partial, routing_cost, ..sums.report() }))
}

/// The plans that changed since then, latest first, and whether there are more.
async fn changed_since(api: &Api, since_ms: u64, plans_max: usize) -> Result<(Vec<PlanId>, bool), BrokerError> {
    let mut plans = Vec::new();
    for n in 0..api.scheduler.shards {
        let found = api.scheduler.plans.list(ShardId(n), u64::MAX, plans_max).await?;
        plans.extend(found.into_iter().filter(|(_, changed_ms)| *changed_ms >= since_ms));
    }
    plans.sort_by_key(|(_, changed_ms)| std::cmp::Reverse(*changed_ms));
    let is_partial = plans.len() > plans_max;
    plans.truncate(plans_max);
    Ok((plans.into_iter().map(|(plan, _)| plan).collect(), is_partial))
}

/// Folds a plan's log; `None` if it cannot be read.
async fn read_plan(api: &Api, plan: PlanId) -> Result<Option<(PlanState, PlanSample)>, BrokerError> {
    let mut state = None;
    let mut sample = PlanSample::default();
    let mut pages = Pages::new(api.scheduler.plans.as_ref(), &plan);
    while let Some(entries) = pages.next().await? {
        for entry in &entries {
            let Ok(records) = event_log::parse_records(entry) else { return Ok(None) };
            for record in &records {
                if replay(&mut state, record).is_err() {
                    return Ok(None);
                }
                sample.observe(record);
            }
        }
        tokio::task::yield_now().await;
    }
    Ok(state.map(|state| (state, sample)))
}
