//! The family of a plan: who is around it, and what it reports to the plan around it.

use goalmill_common::event::Parent;
use goalmill_common::failure::Failure;
use goalmill_common::goal::Usage;
use goalmill_common::json::Json;
use goalmill_common::status::PlanStatus;

use crate::attempt::open_failures;
use crate::cleanup::done_work;
use crate::revise::revising;
use crate::sub_plan::family_plans::{FamilyPlans, FamilyRequest};
use crate::{Closing, Command, PlanState, SubPlanEnd, cleanup, sub_plan};

/// Bytes that the plan keeps: see [`crate::budget::plan_size::PlanSize::kept_bytes`].
pub(crate) fn kept_bytes(state: &PlanState) -> u64 {
    state.size.kept_bytes(state.parent().is_some())
}

/// The same, and what the plans inside it report.
pub(crate) fn total_bytes(state: &PlanState) -> u64 {
    state.size.total_bytes(state.parent().is_some())
}

/// Reports to the step of a sub-plan that it has not run, or runs no more.
pub(crate) fn report_stopped(parent: Parent, status: PlanStatus, failure: Option<Failure>) -> FamilyRequest {
    report_to(parent, *SubPlanEnd::new(status, Json::empty_object(), Usage::default(), failure))
}

/// Reports the end of a sub-plan, or that it is kept, to the step of its parent.
pub(crate) fn report_end(state: &PlanState) -> Option<FamilyRequest> {
    let parent = state.parent()?.clone();
    let ended = state.outcome.kept().or_else(|| state.ended())?;
    Some(report_to(
        parent,
        SubPlanEnd {
            status: ended.status,
            outputs: sub_plan::sub_plan_outputs(state),
            usage: state.outcome.unreported(state.usage),
            failure: ended.failure.clone().or_else(|| open_failures::tolerated_failures(state, ended.status)),
            items: if state.is_kept() { None } else { done_work::work_of_items(state) },
            not_undone: cleanup::cleanup_not_done(state),
            is_kept: state.is_kept(),
        },
    ))
}

pub(crate) fn report_to(parent: Parent, end: SubPlanEnd) -> FamilyRequest {
    let ended = Command::SubPlanEnded { step: parent.step, attempt: parent.attempt, end: Box::new(end) };
    FamilyRequest::Give { plan: parent.plan, command: Box::new(ended) }
}

/// Closes a streamed plan after a restart: its planner ran in the scheduler that is gone.
pub(crate) fn close_stream(state: &PlanState) -> Option<FamilyRequest> {
    if !revising::is_plan_open(state) {
        return None;
    }
    let reason = "the scheduler that wrote the plan is gone".to_owned();
    let closing = Closing::Broken { reason, issues: Vec::new(), provenance: None };
    let command = Box::new(Command::ClosePlan(Box::new(closing)));
    Some(FamilyRequest::Give { plan: state.id().clone(), command })
}

/// The plan that is inside no other one, or the last one above `key` that is in memory.
pub(crate) fn outermost<P: FamilyPlans>(plans: &P, mut key: P::Key) -> P::Key {
    while let Some(above) = plan_above(plans, key) {
        key = above;
    }
    key
}

/// The plan that `key` is inside of, if it is in memory.
pub(crate) fn plan_above<P: FamilyPlans>(plans: &P, key: P::Key) -> Option<P::Key> {
    plans.plan_state(key).parent().and_then(|parent| plans.find_plan(&parent.plan))
}
