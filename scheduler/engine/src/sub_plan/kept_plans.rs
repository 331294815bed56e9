//! Kept plans: a plan inside another one whose work is done, and may be undone for as long as the plan around it runs.
//!
//! The step that holds it continues immediately with the outputs. The plan itself ends with the plan around it: completed when
//! that one releases it, or through its own clean-up, at the place of its step among what the plan around it undoes.

use goalmill_common::event::{KeptPlan, PlanEnded, UndonePlan};
use goalmill_common::id::{PlanId, StepId};

use crate::graph::StepIndex;
use crate::sub_plan::family_plans::FamilyRequest;
use crate::sub_plan::inner_plans::InnerPlans;
use crate::token::TokenKey;
use crate::{PlanState, Rejection, cleanup};

/// What becomes of a kept plan.
#[derive(Clone, Debug, PartialEq)]
pub enum KeptFate {
    /// It ends as it is.
    Released,
    /// What it did is undone, because the plan around it ends like this.
    Undone(PlanEnded),
}

/// Why a kept plan takes no other command.
pub(crate) fn refuse_kept(state: &PlanState) -> Rejection {
    let around = state.parent().map_or("", |parent| parent.plan.as_str());
    Rejection::not_allowed(format!("the work of the plan is done; it ends with the plan around it, `{around}`"))
}

/// Whether it waits for plans inside it that end, or undo what they did.
pub fn awaits_inside(state: &PlanState) -> bool {
    state.inner.unended() > 0 || state.cleanup.is_running() && state.inner.has_kept()
}

/// The id of the plan that ran for an attempt of a step.
pub(crate) fn kept_plan_id(state: &PlanState, step: &StepId, attempt: u32) -> PlanId {
    TokenKey::sub_plan(&state.accepted.plan_id, step, attempt)
}

/// - `fold`: what the event does to the plan of an attempt.
pub(crate) fn fold_inner(state: &mut PlanState, inside: &KeptPlan, fold: fn(&mut InnerPlans, StepIndex, u32)) {
    if let Some(i) = state.graph.find(inside.step.as_str()) {
        fold(&mut state.inner, i, inside.attempt);
    }
}

pub(crate) fn fold_undone(state: &mut PlanState, time_ms: u64, undone: &UndonePlan) {
    state.usage.add(undone.cost, undone.tokens);
    state.inner.note_not_undone(&undone.not_undone);
    let Some(i) = state.graph.find(undone.step.as_str()) else { return };
    if state.inner.end_undone(i, undone.attempt) {
        state.cleanup.inside_ended(time_ms);
    }
    cleanup::pass_cleanup(state);
}

/// The request that a plan decides about one that it does not keep.
pub(crate) fn release(plan: PlanId, parent: Box<goalmill_common::event::Parent>) -> FamilyRequest {
    FamilyRequest::EndKept { plan, parent, fate: KeptFate::Released }
}
