//! Counters and sets that depend on the statuses of steps.

use goalmill_common::number::to_u32;
use goalmill_common::plan::{StepKind, Strategy};
use goalmill_common::status::StepStatus;

use crate::graph::StepIndex;
use crate::reserved::ReservedEstimates;
use crate::state::PlanState;

/// Changes a step's status and every counter that depends on it.
pub(super) fn transition(state: &mut PlanState, i: StepIndex, old: StepStatus, new: StepStatus, satisfied: bool) {
    state.steps[i].status = new;
    state.counts.shift(old, new);
    if old.is_in_flight() != new.is_in_flight() {
        count_in_flight(state, i, new.is_in_flight());
    }
    track_call_plan(state, i);
    if old == StepStatus::Ready || new == StepStatus::Ready {
        track_engine_step(state, i, new == StepStatus::Ready);
    }
    if state.plan.strategy == Strategy::Sequential {
        track_listed(state, i, new);
    }
    if new.is_final() && !old.is_final() {
        if state.plan.steps[i].is_cleanup() {
            end_cleanup_step(state, i);
        }
        release_dependents(state, i, new, satisfied);
    }
}

fn end_cleanup_step(state: &mut PlanState, i: StepIndex) {
    state.open_cleanup -= 1;
    state.undoing.retain(|undo| *undo != i);
    state.pass_cleanup();
}

/// Recomputes from the steps' statuses what is in flight, what it holds, and which steps have their turn.
pub(crate) fn recount_steps(state: &mut PlanState) {
    state.in_flight = 0;
    state.holders.clear();
    state.holding = 0;
    state.reserved = ReservedEstimates::default();
    state.resources_held = vec![0; state.graph.resources()];
    state.ready_inline.clear();
    state.ready_waits.clear();
    state.ready_sub_plans.clear();
    state.listed.clear();
    let is_open = |i: &&StepIndex| !state.steps[**i].status.is_final();
    state.open_cleanup = to_u32(state.graph.cleanup_steps().iter().filter(is_open).count());
    for i in state.indices() {
        let status = state.steps[i].status;
        if status.is_in_flight() {
            count_in_flight(state, i, true);
        }
        track_call_plan(state, i);
        if status == StepStatus::Ready {
            track_engine_step(state, i, true);
        }
        if state.plan.strategy == Strategy::Sequential {
            track_listed(state, i, status);
        }
    }
}

/// Tracks the ready steps that the engine runs itself.
fn track_engine_step(state: &mut PlanState, i: StepIndex, ready: bool) {
    let set = if state.plan.steps[i].starts_plan() {
        &mut state.ready_sub_plans
    } else if state.plan.steps[i].kind == StepKind::Wait {
        &mut state.ready_waits
    } else if state.runs_inline(i) {
        &mut state.ready_inline
    } else {
        return;
    };
    if ready {
        set.insert(i);
    } else {
        set.remove(&i);
    }
}

/// Tracks the steps among which the first one of the list has its turn.
fn track_listed(state: &mut PlanState, i: StepIndex, status: StepStatus) {
    if status.is_unlocked() {
        state.listed.insert(i);
    } else {
        state.listed.remove(&i);
    }
}

fn count_in_flight(state: &mut PlanState, i: StepIndex, begins: bool) {
    let held = state.graph.resource(i).map(|resource| &mut state.resources_held[resource]);
    state.reserved.count(&state.plan.steps[i], begins);
    for count in held.into_iter().chain([&mut state.in_flight]) {
        *count = if begins { *count + 1 } else { count.saturating_sub(1) };
    }
    if begins && state.plan.steps[i].kind == StepKind::Plan {
        state.holders.insert(i);
        state.holding += 1;
    } else if !begins && state.holders.remove(&i) {
        state.holding -= 1;
    }
}

/// Tracks the steps one of whose calls waits for a plan. Such a step is not in flight.
fn track_call_plan(state: &mut PlanState, i: StepIndex) {
    if state.steps[i].awaits_plan() {
        state.holders.insert(i);
    } else if !state.steps[i].status.is_in_flight() && !state.holders.is_empty() {
        state.holders.remove(&i);
    }
}

fn release_dependents(state: &mut PlanState, i: StepIndex, status: StepStatus, satisfied: bool) {
    let id = &state.plan.steps[i].id;
    for &dependent in state.graph.dependents(i) {
        let step = &mut state.steps[dependent];
        step.open = step.open.saturating_sub(1);
        step.met += u32::from(state.plan.steps[dependent].is_met_by(id, status, satisfied));
    }
    if let Some(phase) = state.graph.phase(i) {
        let phase = &mut state.phases[phase];
        phase.open -= 1;
        phase.completed += u32::from(status == StepStatus::Completed);
        phase.failed += u32::from(status == StepStatus::Failed);
    }
}
