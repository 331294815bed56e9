//! Counters and sets that depend on the statuses of steps.

use goalmill_common::number::to_u32;
use goalmill_common::plan::{StepKind, Strategy};
use goalmill_common::status::StepStatus;

use crate::cleanup;
use crate::graph::engine_steps::ReadySteps;
use crate::graph::{StepIndex, dependencies};
use crate::state::PlanState;

/// Changes every counter that depends on the status of a step, which has changed.
///
/// - `old`: the status before.
pub(super) fn transition(state: &mut PlanState, i: StepIndex, old: StepStatus) {
    let new = state.steps[i].status();
    state.counts.shift(old, new);
    if old.is_in_flight() != new.is_in_flight() {
        count_in_flight(state, i, new.is_in_flight());
    }
    track(state, i);
    if new.is_final() && !old.is_final() {
        if state.plan.step(i).is_cleanup() {
            state.cleanup.end_step(i);
            cleanup::pass_cleanup(state);
        }
        release_dependents(state, i, new);
    }
}

/// Recomputes from the steps' statuses what is in flight, what it holds, and which steps have their turn.
pub(crate) fn recount_steps(state: &mut PlanState) {
    state.capacity.clear(&state.graph);
    state.inner.clear_holders();
    state.reservations.clear_estimates();
    state.ready = ReadySteps::default();
    let is_open = |i: &&StepIndex| !state.steps[**i].status().is_final();
    state.cleanup.set_open(to_u32(state.graph.cleanup_steps().iter().filter(is_open).count()));
    for i in state.indices() {
        let status = state.steps[i].status();
        if status.is_in_flight() {
            count_in_flight(state, i, true);
        }
        track(state, i);
    }
}

fn count_in_flight(state: &mut PlanState, i: StepIndex, begins: bool) {
    let step = state.plan.step(i);
    state.reservations.count(step, begins);
    state.capacity.count(&state.graph, i, begins);
    if !begins {
        state.inner.end(i);
    } else if step.kind == StepKind::Plan {
        state.inner.begin(i);
    }
}

/// Tracks whether the step is ready, is in the list of a sequential plan, and whether one of its calls waits for a plan.
fn track(state: &mut PlanState, i: StepIndex) {
    let run = state.steps[i].run();
    let status = run.status();
    if !status.is_in_flight() {
        state.inner.set_call_plan(i, run.awaits_plan());
    }
    state.ready.set_ready(i, state.plan.step(i), status == StepStatus::Ready);
    if state.plan.definition().strategy == Strategy::Sequential {
        state.ready.set_listed(i, status.is_unlocked());
    }
}

fn release_dependents(state: &mut PlanState, i: StepIndex, status: StepStatus) {
    for place in state.graph.dependent_range(i) {
        let dependent = state.graph.dependent_at(place);
        let is_met = dependencies::is_met(state, state.plan.step(dependent), i);
        state.steps[dependent].dependencies_mut().end(is_met);
    }
    if let Some(phase) = state.graph.phase(i) {
        state.phases.end_step(phase, status);
    }
}
