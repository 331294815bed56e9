//! Events from outside in a family: the outermost plan remembers which of them were taken, so one event ends one wait.
//!
//! The plan of each iteration, item and call keeps its own events, and reports every one that it gets to the plans
//! above it.

use goalmill_common::event::EventTaken;
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::id::{PlanId, StepId};

use crate::sub_plan::family::{outermost, plan_above};
use crate::sub_plan::family_plans::{FamilyPlans, FamilyRequest};
use crate::{Command, PlanState, Rejection, sub_plan, wait};

/// Whether a plan's family has had the event with this id.
pub fn family_has_event<P: FamilyPlans>(plans: &P, key: P::Key, id: &str) -> bool {
    has_event(plans.plan_state(key), id) || has_event(plans.plan_state(outermost(plans, key)), id)
}

/// The plans that an event is offered to, one after the other: those that wait for it, of the plan that it was sent to and
/// of those inside it, or else that plan. One event ends one wait.
pub(crate) fn event_receivers<P: FamilyPlans>(
    plans: &P,
    key: P::Key,
    event: &ExternalEvent,
    waiting_only: bool,
) -> Result<Vec<P::Key>, Rejection> {
    let root = outermost(plans, key);
    if has_event(plans.plan_state(root), &event.id) {
        let is_known = has_event(plans.plan_state(key), &event.id);
        if waiting_only && !is_known {
            return Err(Rejection::not_allowed("its outermost plan has taken the event for another wait"));
        }
        // An event that came before changes nothing.
        return Ok(vec![if is_known { key } else { root }]);
    }
    let waiting = waiting_inside(plans, key, event);
    Ok(if waiting.is_empty() { vec![key] } else { waiting })
}

/// The plan and the plans inside it that wait for an event, each before those inside it, in the order of their steps.
fn waiting_inside<P: FamilyPlans>(plans: &P, key: P::Key, event: &ExternalEvent) -> Vec<P::Key> {
    let (mut waiting, mut open) = (Vec::new(), vec![key]);
    while let Some(key) = open.pop() {
        let state = plans.plan_state(key);
        waiting.extend(awaits_event(state, &event.name, &event.key).then_some(key));
        let inside = state.indices().filter(|i| sub_plan::has_sub_plan(state, *i));
        let inside: Vec<P::Key> = inside.filter_map(|i| plans.find_plan(&sub_plan::sub_plan_id(state, i))).collect();
        open.extend(inside.into_iter().rev());
    }
    waiting
}

/// Reports an event that a plan has got to the outermost plan, and to those between that keep it.
pub(crate) fn report_event<P: FamilyPlans>(plans: &P, plan: &PlanId, id: &str) -> Vec<FamilyRequest> {
    let mut requests = Vec::new();
    let mut above = plans.find_plan(plan).and_then(|key| plan_above(plans, key));
    while let Some(key) = above {
        above = plan_above(plans, key);
        let state = plans.plan_state(key);
        if above.is_none() || keeps_event(state, id) {
            let taken = EventTaken { id: id.to_owned(), plan: plan.clone() };
            let command = Box::new(Command::EventTaken(taken));
            requests.push(FamilyRequest::Give { plan: state.id().clone(), command });
        }
    }
    requests
}

/// Finds an event that the plans above a plan keep, those of the nearest one first.
///
/// - `after`: number of events that are passed over.
pub(crate) fn find_kept_event<'p, P: FamilyPlans>(
    plans: &'p P,
    waiting: P::Key,
    (name, key): (&'p str, &'p str),
    after: usize,
) -> Option<&'p ExternalEvent> {
    let keepers = std::iter::successors(plan_above(plans, waiting), |keeper| plan_above(plans, *keeper));
    keepers.flat_map(|keeper| kept_events(plans.plan_state(keeper), name, key)).nth(after)
}

/// Whether a step of the plan waits for an event.
pub fn awaits_event(state: &PlanState, name: &str, key: &str) -> bool {
    wait::steps_awaiting(state, name, key).next().is_some()
}

/// Whether this step of the plan waits for an event.
pub fn step_awaits_event(state: &PlanState, step: &StepId, name: &str, key: &str) -> bool {
    state.step_index(step).is_some_and(|i| wait::awaited_event(state, i) == Some((name, key)))
}

/// Whether the plan, or a plan inside it, has had the event with this id.
pub(crate) fn has_event(state: &PlanState, id: &str) -> bool {
    state.events.as_ref().is_some_and(|events| events.has(id))
}

pub(crate) fn keeps_event(state: &PlanState, id: &str) -> bool {
    state.events.as_ref().is_some_and(|events| events.keeps(id))
}

/// The events of a name and a key for which no step of the plan has waited yet, the first one first.
pub(crate) fn kept_events<'e>(
    state: &'e PlanState,
    name: &'e str,
    key: &'e str,
) -> impl Iterator<Item = &'e ExternalEvent> {
    state.events.iter().flat_map(move |events| events.matching_events(name, key))
}
