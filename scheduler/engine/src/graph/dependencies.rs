//! Whether the dependencies of a step let it start.

use goalmill_common::event::SkipCause;
use goalmill_common::plan::Step;
use goalmill_common::status::StepStatus;

use crate::graph::StepIndex;
use crate::state::PlanState;

/// Whether a dependency has ended in a way that lets the step start.
pub(crate) fn is_met(state: &PlanState, spec: &Step, dependency: StepIndex) -> bool {
    let (id, status) = (&state.plan.step(dependency).id, state.steps[dependency].status());
    spec.is_met_by(id, status, is_satisfied(state, dependency))
}

/// Whether dependents count the step as done, where they say nothing else.
fn is_satisfied(state: &PlanState, i: StepIndex) -> bool {
    let run = state.steps[i].run();
    run.status() == StepStatus::Completed || run.cause().is_some_and(SkipCause::satisfies)
}
