//! Namespaces: which one a request selects, and which plans its caller sees.

use axum::http::HeaderMap;
use goalmill_common::id::{Namespace, PlanId, is_id};
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::view::summary_namespace;

use super::principal::Principal;
use super::response::{ApiError, plan_not_found};
use crate::plan_reader::PlanReader;

/// Selects a namespace.
const HEADER: &str = "goalmill-namespace";

/// The namespace that a request selects.
pub(super) fn selected(headers: &HeaderMap) -> Result<Option<Namespace>, ApiError> {
    let mut values = headers.get_all(HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match value.to_str().ok().filter(|name| is_id(name) && values.next().is_none()) {
        Some(name) => Ok(Some(name.into())),
        None => {
            let detail = "`Goalmill-Namespace` must stand once and be an id: letters, digits, `.`, `_`, `:`, `-`";
            Err(Problem::new(ErrorCode::InvalidRequest, detail).into())
        }
    }
}

/// Refuses a plan that the caller does not see, as one that does not exist.
pub(super) async fn require_plan(plans: &dyn PlanReader, principal: &Principal, id: &str) -> Result<(), ApiError> {
    match sees_plan(plans, principal, &id.into()).await? {
        true => Ok(()),
        false => Err(plan_not_found(id)),
    }
}

/// Whether the caller sees a plan. A plan whose summary has expired is seen by those who see all.
pub(super) async fn sees_plan(plans: &dyn PlanReader, principal: &Principal, plan: &PlanId) -> Result<bool, ApiError> {
    if principal.sees_all {
        return Ok(true);
    }
    if plan.shard().is_none() {
        return Ok(false);
    }
    let summary = plans.summary(plan).await?;
    Ok(!summary.is_empty() && principal.may_see(&summary_namespace(&summary)))
}

/// Keeps the plans that the caller sees.
pub(super) async fn keep_seen<T>(
    plans: &dyn PlanReader,
    principal: &Principal,
    items: Vec<T>,
    plan: impl Fn(&T) -> &PlanId,
) -> Result<Vec<T>, ApiError> {
    if principal.sees_all {
        return Ok(items);
    }
    let mut kept = Vec::new();
    for item in items {
        if sees_plan(plans, principal, plan(&item)).await? {
            kept.push(item);
        }
    }
    Ok(kept)
}
