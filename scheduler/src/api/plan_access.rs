//! Reads a plan and sends verbs to its shard: what the handlers of all addresses of a plan share.

use axum::Json;
use goalmill_common::command::{Request, Verb};
use goalmill_common::event::{Event, PlanEvent, Record};
use goalmill_common::id::PlanId;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::view::PlanSummary;
use goalmill_engine::PlanState;

use super::Api;
use super::principal::Principal;
use super::response::{ApiError, ApiResult, plan_not_found};
use crate::event_log::{self, ReadError};
use crate::shard_client;

/// Sends a verb to the shard of a plan. A finished plan is a conflict, an unknown one is not found.
///
/// - `actor`: the name in the request's body, see [`Principal::actor_named`].
pub(super) async fn send_verb(
    api: &Api,
    principal: &Principal,
    id: &str,
    actor: &str,
    verb: Verb,
) -> Result<(), ApiError> {
    let actor = principal.actor_named(actor)?;
    let request = Request { plan: id.into(), actor, answer: None, verb };
    match shard_client::send_request(&api.scheduler, &api.shards, request).await {
        Ok(_) => Ok(()),
        Err(problem) if problem.code == ErrorCode::PlanNotFound => {
            let known = shard_client::find_existing(&api.scheduler, &id.into()).await?.ok_or(problem)?;
            let status = known.status;
            Err(if status.is_final() {
                Problem::new(ErrorCode::PlanFinal, format!("the plan has ended as {status}"))
            } else {
                Problem::new(
                    ErrorCode::NotReady,
                    format!("the plan is {status}, but the owner of its shard has not loaded it yet; try again"),
                )
            }
            .into())
        }
        Err(problem) => Err(problem.into()),
    }
}

/// A plan's state, folded from its log.
pub(super) async fn load_plan(api: &Api, id: &str) -> Result<PlanState, ApiError> {
    let plan = PlanId::from(id);
    shard_client::shard_of(&api.scheduler, &plan)?;
    match event_log::read_plan_state(api.scheduler.plans.as_ref(), &plan).await {
        Ok(Some(state)) => Ok(state),
        Ok(None) => Err(plan_not_found(id)),
        Err(ReadError::Broker(error)) => Err(error.into()),
        Err(error) => Err(Problem::new(ErrorCode::Internal, format!("plan `{id}`: {error}")).into()),
    }
}

/// The last state of the plan at `revision`; the current state without one.
pub(super) async fn load_plan_at(api: &Api, id: &str, revision: Option<u32>) -> Result<PlanState, ApiError> {
    let whole = load_plan(api, id).await?;
    let Some(revision) = revision.filter(|revision| *revision != whole.revision()) else { return Ok(whole) };
    if revision > whole.revision() {
        let detail = format!("plan `{id}` has no revision {revision}: the last one is {}", whole.revision());
        return Err(Problem::new(ErrorCode::NotFound, detail).into());
    }
    let unreadable = |why: String| Problem::new(ErrorCode::Internal, format!("the log of plan `{id}`: {why}"));
    let ends =
        |record: &Record| matches!(&record.event, Event::Plan(PlanEvent::Revised(next)) if next.revision > revision);
    let state = match event_log::read_plan_state_until(api.scheduler.plans.as_ref(), &id.into(), ends).await {
        Err(ReadError::Broker(error)) => return Err(error.into()),
        state => state.map_err(|error| unreadable(error.to_string()))?,
    };
    Ok(state.ok_or_else(|| unreadable("it has no beginning".into()))?)
}

/// The summary of a plan.
pub(super) async fn load_summary(api: &Api, id: &str) -> ApiResult<PlanSummary> {
    let plan = PlanId::from(id);
    let summary = PlanSummary::from_fields(plan.clone(), &api.scheduler.plans.summary(&plan).await?);
    summary.map(Json).ok_or_else(|| plan_not_found(id))
}
