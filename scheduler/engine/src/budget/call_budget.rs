//! Budgets of calls: what the calls of an attempt, or a sub-plan, may use up is reserved before they are made.
//!
//! Each attempt gets a part of the unused budget with its task, without being asked. A worker that needs more for its
//! next call ends the attempt (`suspended`), and the step continues once there is room. So the parts in flight and what
//! was used are never more than the limit, on however many workers the steps run.

use goalmill_common::call::{CallBudget, CallNeeds};
use goalmill_common::constraint::Measure;
use goalmill_common::event::StepEvent;
use goalmill_common::goal::{Budget, Usage};
use goalmill_common::number::whole_u64;
use goalmill_common::plan::Strategy;
use goalmill_common::status::StepStatus;

use crate::budget::reservations::CallGrant;
use crate::graph::StepIndex;
use crate::{PlanState, budget, constraints};

/// An attempt that waited gets room for so many calls like the one that it waited for, if there is plenty.
const CALLS_AHEAD: u32 = 4;

/// Folds what an event does to the grant of a step, whose status has changed already.
pub(crate) fn fold_grant(state: &mut PlanState, i: StepIndex, event: &StepEvent) {
    state.reservations.set_waiting(i, state.steps[i].run().needs().is_some());
    if let (StepEvent::CallRecorded(call), Some(before)) = (event, state.steps[i].grant().copied()) {
        let mut after = before;
        after.spend(Usage { tokens: call.tokens(), cost: call.cost });
        // Both are counted, so that the sum never loses its last grant in between.
        state.reservations.add_grant(&after);
        state.reservations.remove_grant(&before);
        state.steps[i].set_grant(Some(after));
        return;
    }
    let given = if let StepEvent::Queued(queued) = event {
        queued.budget
    } else if let StepEvent::Suspended(suspended) = event {
        suspended.budget
    } else {
        None
    };
    let step = &state.steps[i];
    let keeps = given.is_none() && (step.status().is_in_flight() || step.run().awaits_plan());
    // What an attempt that has ended did not use is given back.
    if !keeps && let Some(grant) = state.steps[i].set_grant(None) {
        state.reservations.remove_grant(&grant);
    }
    if let Some(left) = given {
        let estimates = state.plan.step(i).estimates;
        let estimated = if state.steps[i].status().is_in_flight() {
            Usage { tokens: estimates.tokens.unwrap_or(0), cost: estimates.cost.unwrap_or(0.0) }
        } else {
            Usage::default()
        };
        let grant = CallGrant { left, estimated };
        state.reservations.add_grant(&grant);
        state.steps[i].set_grant(Some(grant));
    }
}

/// What is neither used nor reserved by others than this step: of the budget, and of hard constraints.
pub(crate) fn unreserved(state: &PlanState, i: StepIndex) -> Budget {
    let budget = budget::tighter_budget(state);
    let (mut tokens, mut cost) = (budget.tokens, budget.cost);
    for (measure, limit) in constraints::hard_limits(state) {
        if *measure == Measure::Tokens {
            tokens = Some(tokens.unwrap_or(u64::MAX).min(whole_u64(limit)));
        } else {
            let left = limit - constraints::measured_beside_usage(state, measure);
            cost = Some(cost.unwrap_or(f64::MAX).min(left.max(0.0)));
        }
    }
    if tokens.is_none() && cost.is_none() {
        return Budget::default();
    }
    let taken = taken_beside(state, i);
    Budget {
        tokens: tokens.map(|most| most.saturating_sub(taken.tokens)),
        cost: cost.map(|most| (most - taken.cost).max(0.0)),
        seconds: None,
    }
}

/// What is used, and what steps in flight may still use up.
pub(crate) fn taken_by_steps(state: &PlanState) -> Usage {
    let mut taken = state.usage;
    let reserved = state.reservations.all();
    taken.add(reserved.cost, reserved.tokens);
    taken
}

/// What is used, reserved by other steps, and asked for by planners.
fn taken_beside(state: &PlanState, i: StepIndex) -> Usage {
    let mut taken = taken_by_steps(state);
    for call in state.calls.open() {
        taken.add(call.reserved.cost, call.reserved.tokens);
    }
    for needs in needs_of_resumed(state, i) {
        taken.add(needs.cost, needs.tokens);
    }
    let mut own = state.steps[i].grant().map(CallGrant::extra).unwrap_or_default();
    if state.steps[i].status().is_in_flight() {
        let estimates = state.plan.step(i).estimates;
        own.add(estimates.cost.unwrap_or(0.0), estimates.tokens.unwrap_or(0));
    }
    Usage { tokens: taken.tokens.saturating_sub(own.tokens), cost: (taken.cost - own.cost).max(0.0) }
}

/// What other steps wanted that waited for the budget, and are ready to continue.
fn needs_of_resumed(state: &PlanState, i: StepIndex) -> impl Iterator<Item = CallNeeds> {
    let is_resumed = move |j: &&StepIndex| **j != i && state.steps[**j].status() == StepStatus::Ready;
    let needs = |j: &StepIndex| state.steps[*j].run().needs();
    state.reservations.waiting().iter().filter(is_resumed).filter_map(needs)
}

/// Whether another step than this one has reserved something.
fn is_reserved_beside(state: &PlanState, i: StepIndex) -> bool {
    needs_of_resumed(state, i).next().is_some()
        || state.reservations.grants() > u32::from(state.steps[i].grant().is_some())
        || state.reservations.has_estimates()
}

/// Steps that may run beside this one.
fn steps_beside(state: &PlanState, i: StepIndex) -> u32 {
    let ended = state.counts.completed + state.counts.failed + state.counts.skipped;
    let own = u32::from(!state.steps[i].status().is_final());
    state.width().saturating_sub(1).min(state.counts.total.saturating_sub(ended + own))
}

/// What the calls of the step's next attempt may use up: its estimate, an equal share beside the other steps and the
/// planners, or what it waits for. `None` when nothing limits the plan.
pub(crate) fn next_grant(state: &PlanState, i: StepIndex) -> Option<CallBudget> {
    let room = unreserved(state, i);
    if room.tokens.is_none() && room.cost.is_none() {
        return None;
    }
    let shares = 2 + steps_beside(state, i);
    let estimates = state.plan.step(i).estimates;
    let needs = state.steps[i].run().needs().unwrap_or_default();
    let tokens = room.tokens.map(|room| match needs.tokens {
        0 => (room / u64::from(shares)).max(estimates.tokens.unwrap_or(0).min(room)),
        needs if needs > room => room,
        needs => (room / 2).min(needs.saturating_mul(u64::from(CALLS_AHEAD))).max(needs),
    });
    let cost = room.cost.map(|room| match needs.cost {
        needs if needs <= 0.0 => (room / f64::from(shares)).max(estimates.cost.unwrap_or(0.0).min(room)),
        needs if needs > room => room,
        needs => (room / 2.0).min(needs * f64::from(CALLS_AHEAD)).max(needs),
    });
    let is_short =
        room.tokens.is_some_and(|room| needs.tokens > room) || room.cost.is_some_and(|room| needs.cost > room);
    Some(CallBudget { tokens, cost, last: is_short && !is_reserved_beside(state, i) })
}

/// Whether the next attempt of a step that waits for the budget is of use: there is room for its call, or there will
/// never be more.
pub(crate) fn may_go_on(state: &PlanState, i: StepIndex, needs: CallNeeds) -> bool {
    let room = unreserved(state, i);
    let fits = room.tokens.is_none_or(|room| needs.tokens <= room) && room.cost.is_none_or(|room| needs.cost <= room);
    fits || !is_reserved_beside(state, i)
}

/// Whether a sub-plan may start: something is left for it, or never will be.
pub(crate) fn has_room_for_plan(state: &PlanState, i: StepIndex) -> bool {
    let room = unreserved(state, i);
    let is_empty = room.tokens == Some(0) || room.cost.is_some_and(|room| room <= 0.0);
    !is_empty || !is_reserved_beside(state, i)
}

/// What the plan of a call may use up: an equal share beside the other steps.
///
/// - `spent`: by the attempt that ends, and not counted yet.
pub(crate) fn budget_of_call(state: &PlanState, i: StepIndex, spent: Usage) -> Option<CallBudget> {
    let mut room = unreserved(state, i);
    room.tokens = room.tokens.map(|room| room.saturating_sub(spent.tokens));
    room.cost = room.cost.map(|room| (room - spent.cost).max(0.0));
    if room.tokens.is_none() && room.cost.is_none() {
        return None;
    }
    let is_alone =
        state.plan.definition().strategy == Strategy::Sequential || state.plan.definition().max_parallel == Some(1);
    let shares = if is_alone { 1 } else { 1 + steps_beside(state, i) };
    let tokens = room.tokens.map(|room| room / u64::from(shares));
    Some(CallBudget { tokens, cost: room.cost.map(|room| room / f64::from(shares)), last: false })
}
