//! Failures of steps that count for the plan.

use goalmill_common::event::ReplanTriggered;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::StepId;
use goalmill_common::plan::{Collect, OnFailure};
use goalmill_common::revision::Trigger;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::text::shorten;

use crate::PlanState;
use crate::graph::StepIndex;

/// Longest message about failures inside a plan, in characters: a plan inside a plan tells those inside it.
const FAILURES_CHARS: usize = 1_000;

/// The steps that run when this one has failed.
fn handlers(state: &PlanState, i: StepIndex) -> impl Iterator<Item = StepIndex> {
    let id = &state.plan.step(i).id;
    let live = |d: &StepIndex| state.steps[*d].status() != StepStatus::Revised;
    let handles = |d: &StepIndex| state.plan.step(*d).handles_failure_of(id);
    state.graph.dependents(i).iter().copied().filter(live).filter(handles)
}

/// Whether a step that has not ended runs when this one fails.
fn may_be_handled(state: &PlanState, i: StepIndex) -> bool {
    handlers(state, i).any(|d| !state.steps[d].status().is_final())
}

fn is_handled(state: &PlanState, i: StepIndex) -> bool {
    handlers(state, i).any(|d| state.steps[d].status() == StepStatus::Completed)
}

fn failed_steps(state: &PlanState) -> impl Iterator<Item = StepIndex> {
    // Most plans have none.
    let end = if state.counts.failed > 0 { state.steps.len() } else { 0 };
    (0..end).map(StepIndex::new).filter(|i| state.steps[*i].status() == StepStatus::Failed)
}

/// Whether a step has failed, and no step that ran for this failure is completed.
pub(crate) fn has_open_failure(state: &PlanState) -> bool {
    failed_steps(state).any(|i| !is_handled(state, i))
}

/// Whether steps are left out by a revision that no person decided.
pub(crate) fn has_left_out(state: &PlanState) -> bool {
    let is_out = |i: &StepIndex| state.steps[*i].status() == StepStatus::Revised || state.steps[*i].is_left_out();
    state.revising.left_out.iter().any(is_out)
}

/// What a plan that ended in part tells the step around it: how many of its steps failed, or are partial, and the first
/// of these.
///
/// - `status`: what the plan ends as.
pub(crate) fn tolerated_failures(state: &PlanState, status: PlanStatus) -> Option<Failure> {
    if status != PlanStatus::Partial {
        return None;
    }
    let is_open = |i: StepIndex| {
        let step = &state.steps[i];
        step.is_left_out() || step.status() == StepStatus::Failed && !is_handled(state, i)
    };
    let error = |i: StepIndex| state.steps[i].failure().filter(|_| is_open(i));
    let errors = state.indices().filter_map(|i| Some((i, error(i).or_else(|| state.steps[i].errors().first())?)));
    let errors: Vec<(StepIndex, &Failure)> = errors.collect();
    let (i, first) = errors.first()?;
    let all = state.plan.steps().filter(|step| !step.is_cleanup()).count();
    let what = if state.plan.definition().collect == Collect::List { "items" } else { "steps" };
    let message = format!(
        "{} of {all} {what} did not succeed; the first, `{}`: {}",
        errors.len(),
        state.plan.step(*i).id,
        first.message
    );
    Some(Failure { message: shorten(&message, FAILURES_CHARS).into_owned(), retry_after_ms: None, ..(*first).clone() })
}

/// A failure that ends the plan, because the steps that should have handled it are not completed either.
pub(crate) fn unhandled_failure(state: &PlanState) -> Option<(StepId, Failure)> {
    let ends_plan = |i: &StepIndex| {
        let class = state.steps[*i].failure().map_or(FailureClass::Permanent, |failure| failure.class);
        handlers(state, *i).next().is_some()
            && !is_handled(state, *i)
            && failure_policy(state, *i, class) != OnFailure::Continue
    };
    let i = failed_steps(state).find(ends_plan)?;
    let unknown = || Failure::new(FailureClass::Permanent, "STEP_FAILED", "it failed");
    Some((state.plan.step(i).id.clone(), state.steps[i].failure().cloned().unwrap_or_else(unknown)))
}

/// Whether the plan continues when the replan brings no revision.
pub(crate) fn is_replan_optional(replan: &ReplanTriggered) -> bool {
    Trigger::parse(&replan.trigger).map_or(replan.step.is_none(), Trigger::is_optional)
}

/// The failure of a plan that a step caused.
pub(crate) fn plan_failure(step: &goalmill_common::id::StepId, failure: Failure) -> Failure {
    Failure { message: format!("step `{step}` failed: {}", failure.message), retry_after_ms: None, ..failure }
}

/// The failure policy of a step for a class of failure.
pub(crate) fn failure_policy(state: &PlanState, i: StepIndex, class: FailureClass) -> OnFailure {
    let own = state.plan.step(i).on_failure;
    match own {
        OnFailure::Abort | OnFailure::Replan | OnFailure::AskUser if may_be_handled(state, i) => OnFailure::Continue,
        OnFailure::Abort | OnFailure::Replan | OnFailure::AskUser if state.cleanup.is_running() => OnFailure::Continue,
        OnFailure::Abort if state.plan.definition().continue_on_failure => OnFailure::Continue,
        OnFailure::Abort
            if state.plan.definition().revision.is_some() && class == FailureClass::ConstraintViolation =>
        {
            OnFailure::Replan
        }
        OnFailure::Abort | OnFailure::Skip | OnFailure::Continue | OnFailure::Replan | OnFailure::AskUser => own,
    }
}
