//! Recorded calls of a step: its next attempt gets their outcomes back instead of making them again.

pub(crate) mod budget_wait;
pub(crate) mod call_plan;
pub mod callback;
pub(crate) mod recorded_calls;
pub(crate) mod resume;
pub(crate) mod suspension;

use goalmill_common::call::RecordedCall;
use goalmill_common::id::StepId;
use goalmill_common::plan::Estimates;

use crate::PlanState;
use crate::graph::StepIndex;

/// What the step is estimated to spend beside its recorded calls, which the next attempt does not make again.
pub(crate) fn estimates_left(state: &PlanState, i: StepIndex) -> Estimates {
    let mut left = state.plan.step(i).estimates;
    for call in state.steps[i].calls().recorded() {
        left.cost = left.cost.map(|cost| (cost - call.cost).max(0.0));
        left.tokens = left.tokens.map(|tokens| tokens.saturating_sub(call.tokens()));
    }
    left
}

/// The recorded calls of an attempt with which another plan may begin: those that gave something, without cost. `None`
/// if it is not the current attempt of the step.
pub fn paid_calls(state: &PlanState, step: &StepId, attempt: u32) -> Option<Vec<RecordedCall>> {
    let step = &state.steps[state.graph.find(step.as_str())?];
    (step.attempt() == attempt).then(|| step.calls().paid().collect())
}
