//! Places: the limits of a plan on what runs at the same time hold for everything inside it.
//!
//! A step with a worker takes a place in its plan and in every plan around that one. A step that holds a plan takes none.
//! The counts are made of the states of the plans, so a takeover needs nothing to restore them; a plan without a limit is
//! not counted.

use goalmill_common::id::PlanId;

use crate::graph::StepIndex;
use crate::sub_plan::family::{outermost, plan_above};
use crate::sub_plan::family_plans::FamilyPlans;
use crate::sub_plan::kept_plans;
use crate::{PlanState, sub_plan};

/// Whether one more step of a plan may be in flight by the limits of the plan and of those around it.
pub fn has_room_in_family<P: FamilyPlans>(plans: &P, key: P::Key) -> bool {
    if !plans.plan_state(key).has_room() {
        return false;
    }
    let mut at = Some(key);
    while let Some(around) = at {
        let width = plans.plan_state(around).width();
        if width < u32::MAX && taken_inside(plans, around) >= width {
            return false;
        }
        at = plan_above(plans, around);
    }
    true
}

/// Whether this ready step may be dispatched, as [`PlanState::can_dispatch`] says, by the limits and the resources of the
/// plans around its own, too.
pub fn can_dispatch_in_family<P: FamilyPlans>(plans: &P, key: P::Key, step: StepIndex) -> bool {
    let state = plans.plan_state(key);
    state.can_dispatch(step) && has_room_in_family(plans, key) && is_resource_free(plans, key, step)
}

/// Places that a plan and the plans inside it take together.
fn taken_inside<P: FamilyPlans>(plans: &P, key: P::Key) -> u32 {
    let mut taken = 0u32;
    visit_inside(plans, key, |at| {
        taken = taken.saturating_add(plans.plan_state(at).places_taken()).saturating_add(plans.looked_up(at));
    });
    taken
}

/// The plans of a family that are in memory: those that may continue when a step of one of them has ended. A plan without a
/// plan around or inside it has no family.
pub fn family_members<P: FamilyPlans>(plans: &P, key: P::Key) -> Vec<P::Key> {
    let state = plans.plan_state(key);
    let mut members = Vec::new();
    if state.parent().is_some() || plans_inside(state).next().is_some() {
        visit_inside(plans, outermost(plans, key), |member| members.push(member));
    }
    members
}

/// Visits a plan and the plans inside it that are in memory.
fn visit_inside<P: FamilyPlans>(plans: &P, key: P::Key, mut visit: impl FnMut(P::Key)) {
    let mut open = vec![key];
    while let Some(at) = open.pop() {
        visit(at);
        let state = plans.plan_state(at);
        open.extend(plans_inside(state).filter_map(|plan| plans.find_plan(&plan)));
    }
}

/// Whether no step of another plan of the family holds the resource of this one. A step that holds the plan in which it is
/// keeps the resource for it.
fn is_resource_free<P: FamilyPlans>(plans: &P, key: P::Key, step: StepIndex) -> bool {
    let Some(resource) = plans.plan_state(key).plan.step(step).resource.as_deref() else { return true };
    let (mut around, mut root) = (Vec::new(), key);
    while let Some(above) = plan_above(plans, root) {
        let parent = plans.plan_state(root).parent().map(|parent| (parent.plan.clone(), parent.step.clone()));
        around.extend(parent);
        root = above;
    }
    let mut is_free = true;
    visit_inside(plans, root, |at| {
        let state = plans.plan_state(at);
        let is_around =
            |i: StepIndex| around.iter().any(|(plan, id)| plan == state.id() && *id == state.plan.step(i).id);
        is_free &= !holders_of(state, resource).any(|i| !is_around(i));
    });
    is_free
}

/// The plans inside this one that may work: those of its steps, those that are stopped, and kept ones, which may undo
/// what they did.
fn plans_inside(state: &PlanState) -> impl Iterator<Item = PlanId> + '_ {
    let left = state.inner.kept().chain(state.inner.stopped());
    let left = left.map(|(i, attempt)| kept_plans::kept_plan_id(state, &state.plan.step(i).id, attempt));
    state.inner.holders().map(|holder| sub_plan::sub_plan_id(state, holder)).chain(left)
}

/// The steps in flight that hold a resource.
fn holders_of<'s>(state: &'s PlanState, resource: &'s str) -> impl Iterator<Item = StepIndex> + 's {
    let is_held = state.capacity.holds_resources();
    let steps = is_held.then(|| state.steps_in_flight());
    steps.into_iter().flatten().filter(move |i| state.plan.step(*i).resource.as_deref() == Some(resource))
}
