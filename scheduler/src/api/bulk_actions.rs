//! Verbs on many plans: those that a filter finds, with a dry run and a bound.

use axum::Json;
use axum::extract::{MatchedPath, State};
use futures_util::stream::{self, StreamExt};
use goalmill_archive::DataConditions;
use goalmill_common::command::Verb;
use goalmill_common::planning::ReplanOptions;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::status::PlanStatus;
use goalmill_common::view::{BulkAnswer, BulkItem, PlanSummary};
use serde::Deserialize;

use super::Api;
use super::plan_access::send_verb;
use super::plan_list::{LIST_CURSOR_PATTERN, ListCursor, PlanFilter, find_plans};
use super::plan_search::PlanSearch;
use super::principal::Principal;
use super::response::{self, ApiError, ApiResult, Body};

/// Plans of one request by default.
const PLANS: usize = 100;
const PLANS_MAX: usize = 500;
/// Plans that are asked at the same time.
const AT_ONCE: usize = 8;

/// Which plans, and what is recorded.
#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("anyOf" = [
    {"required": ["status"], "properties": {"status": {"minItems": 1}}},
    {"required": ["q"], "properties": {"q": {"type": "string"}}},
    {"required": ["unchanged_since_ms"], "properties": {"unchanged_since_ms": {"type": "integer"}}},
]))]
pub(super) struct BulkBody {
    /// Only plans in one of these statuses; without it in all to which the verb applies.
    status: Vec<PlanStatus>,
    /// Only plans with all these words in name, id, or the description of the goal.
    #[schemars(length(min = 1, max = 200), regex(pattern = r"\S"))]
    q: Option<String>,
    /// Only plans that have not changed since then, Unix milliseconds.
    unchanged_since_ms: Option<u64>,
    /// At most so many plans, 1 to 500; default 100.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
    /// The `next` of the answer before.
    #[schemars(regex(pattern = LIST_CURSOR_PATTERN))]
    cursor: Option<String>,
    /// Only lists what would be done.
    dry_run: bool,
    reason: String,
    /// An id such as `cli:ann`; default `api`.
    actor: String,
}

/// `POST /v1/plans:{verb}`.
pub(crate) async fn act(
    State(api): State<Api>,
    principal: Principal,
    route: MatchedPath,
    body: Body,
) -> ApiResult<BulkAnswer> {
    let body: BulkBody = response::parse_small_json(&response::body(body)?)?;
    let verb = BulkVerb::find(route.as_str())?;
    let actor = principal.actor_named(&body.actor)?;
    let (filter, cursor, limit) = selection(verb, &body)?;
    let (plans, next) = find_plans(&api, &principal, &filter, cursor, limit).await?;
    let act = async |plan: PlanSummary| {
        let problem = match body.dry_run {
            true => None,
            false => send_verb(&api, &principal, plan.plan_id.as_str(), &actor, verb.verb(&body.reason)).await.err(),
        };
        let is_done = !body.dry_run && problem.is_none();
        let PlanSummary { plan_id, name, status, .. } = plan;
        BulkItem { plan_id, name, status, is_done, problem: problem.map(|ApiError(problem)| problem) }
    };
    let items: Vec<BulkItem> = stream::iter(plans.into_iter().map(act)).buffered(AT_ONCE).collect().await;
    Ok(Json(BulkAnswer { dry_run: body.dry_run, items, next }))
}

/// What a request is about. Without any filter it would be every plan, which is more likely a mistake.
fn selection(verb: BulkVerb, body: &BulkBody) -> Result<(PlanFilter, Option<ListCursor>, usize), ApiError> {
    let invalid = |detail: String| ApiError(Problem::new(ErrorCode::InvalidRequest, detail));
    if body.status.is_empty() && body.q.is_none() && body.unchanged_since_ms.is_none() {
        return Err(invalid("no plans are chosen; give `status`, `q` or `unchanged_since_ms`".into()));
    }
    let limit = body.limit.unwrap_or(PLANS);
    if !(1..=PLANS_MAX).contains(&limit) {
        return Err(invalid(format!("`limit` is {limit}; give a number from 1 to {PLANS_MAX}")));
    }
    let applies = verb.statuses();
    let wanted = |status: &PlanStatus| body.status.is_empty() || body.status.contains(status);
    let statuses: Vec<PlanStatus> = applies.iter().copied().filter(wanted).collect();
    if statuses.is_empty() {
        let known: Vec<&str> = applies.iter().map(|status| status.as_str()).collect();
        let detail = format!("the verb applies to plans that are {}", known.join(", "));
        return Err(Problem::new(ErrorCode::NotAllowed, detail).into());
    }
    let search = body.q.as_deref().map(PlanSearch::parse).transpose();
    let search = search.map_err(|(detail, hint)| invalid(format!("{detail}; {hint}")))?;
    let cursor = body.cursor.as_deref().map(|text| {
        ListCursor::from_text(text).ok_or_else(|| invalid(format!("`cursor` is `{}`", response::shown(text))))
    });
    let filter = PlanFilter {
        statuses: Some(statuses),
        with_failures: false,
        search,
        conditions: DataConditions::default(),
        changed_before_ms: body.unchanged_since_ms,
        agent_type: None,
        parent: None,
        is_outermost: false,
    };
    Ok((filter, cursor.transpose()?, limit))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BulkVerb {
    Cancel,
    Pause,
    Resume,
    Replan,
}

impl BulkVerb {
    /// By the address: `/v1/plans:pause`.
    fn find(route: &str) -> Result<Self, ApiError> {
        match route.rsplit(':').next() {
            Some("cancel") => Ok(Self::Cancel),
            Some("pause") => Ok(Self::Pause),
            Some("resume") => Ok(Self::Resume),
            Some("replan") => Ok(Self::Replan),
            _ => Err(ApiError(Problem::new(ErrorCode::NotFound, "no route has this address; see /openapi.json"))),
        }
    }

    fn verb(self, reason: &str) -> Verb {
        let reason = reason.to_owned();
        match self {
            Self::Cancel => Verb::Cancel { reason },
            Self::Pause => Verb::Pause { reason },
            Self::Resume => Verb::Resume { reason },
            Self::Replan => Verb::Replan { reason, hint: String::new(), options: ReplanOptions::default() },
        }
    }

    /// The statuses of plans to which it applies.
    fn statuses(self) -> &'static [PlanStatus] {
        use PlanStatus as S;
        match self {
            Self::Cancel => &[S::Planning, S::AwaitingApproval, S::Running, S::Replanning, S::Paused],
            Self::Pause => &[S::Running],
            Self::Resume => &[S::Paused],
            Self::Replan => &[S::Running, S::Paused],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(verb: BulkVerb, body: &str) -> Option<Vec<PlanStatus>> {
        let body: BulkBody = serde_json::from_str(body).expect("it is a body");
        selection(verb, &body).ok().and_then(|(filter, _, _)| filter.statuses)
    }

    #[test]
    fn a_request_needs_a_filter_that_fits_the_verb() {
        assert_eq!(chosen(BulkVerb::Cancel, "{}"), None);
        assert_eq!(chosen(BulkVerb::Pause, r#"{"status": ["running", "paused"]}"#), Some(vec![PlanStatus::Running]));
        assert_eq!(chosen(BulkVerb::Resume, r#"{"status": ["failed"]}"#), None);
        assert_eq!(chosen(BulkVerb::Resume, r#"{"q": "paris"}"#), Some(vec![PlanStatus::Paused]));
        assert_eq!(chosen(BulkVerb::Resume, r#"{"q": " "}"#), None);
        for limit in [0, 501] {
            assert_eq!(chosen(BulkVerb::Cancel, &format!(r#"{{"q": "x", "limit": {limit}}}"#)), None, "{limit}");
        }
        assert_eq!(chosen(BulkVerb::Cancel, r#"{"q": "x", "cursor": "x"}"#), None);
    }
}
