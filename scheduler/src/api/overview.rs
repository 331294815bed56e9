//! The numbers of all plans that a caller sees, and which of them wait for people.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use goalmill_broker::BrokerError;
use goalmill_common::id::PlanId;
use goalmill_common::view::{Overview, PlanSummary};

use super::Api;
use super::census::AT_ONCE;
use super::entity_tag::tagged_by_content;
use super::plan_list::has_failed;
use super::principal::Principal;
use super::query_parameters::{Parameters, Query, RawParameters};
use super::response::ApiError;

/// Plans that are listed by default, and at most.
const WAITING: usize = 100;
const WAITING_MAX: usize = 500;

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
    headers: HeaderMap,
    Query(query): Query<OverviewQuery>,
) -> Result<Response, ApiError> {
    let counted = api.census.counted(&api).await?;
    let mut overview = Overview { is_partial: counted.is_partial, ..Overview::default() };
    let mut waiting = Vec::new();
    for (plan, entry) in counted.plans.iter().filter(|(_, entry)| principal.may_see(&entry.summary.namespace)) {
        overview.plans += 1;
        *overview.statuses.entry(entry.summary.status).or_default() += 1;
        overview.with_failures += u64::from(has_failed(&entry.summary));
        if let Some(waits) = entry.summary.waits.as_ref().filter(|waits| waits.count > 0) {
            overview.waits += u64::from(waits.count);
            // Without a deadline, the one that waits longest comes first.
            waiting.push((waits.due_at.is_none(), &waits.due_at, entry.changed_ms, plan));
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
    Ok(tagged_by_content(&headers, &overview))
}
