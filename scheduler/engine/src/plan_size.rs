//! The size of a plan with the plans that are written inside it.

use goalmill_common::plan::{Plan, Step, StepKind};

/// Steps of a plan and of the plans that are written inside it; each of these counts as one step more.
pub(crate) fn count_steps(plan: &Plan) -> u64 {
    plan.steps.iter().map(count_step).sum()
}

/// A step with the plan that is written inside it.
pub(crate) fn count_step(step: &Step) -> u64 {
    match (&step.plan, step.kind) {
        (Some(inner), _) => 2 + count_steps(inner),
        (None, StepKind::Plan) => 2,
        (None, _) => 1,
    }
}
