//! Triggers: what starts a replan.

use goalmill_common::event::{PlanEvent, ReplanTriggered};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::plan::OnFailure;
use goalmill_common::revision::Trigger;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::attempt::failure;
use crate::decide::Turn;
use crate::graph::{StepIndex, checkpoint};
use crate::people::waiting::PLANNER_MS;
use crate::{PlanState, budget, revise};

/// Asks the planners, or a person, for a revision. Without revisions left, a required replan ends the plan.
///
/// - `wish`: its reason, or also the hint and the options.
pub(crate) fn replan(turn: &mut Turn<'_>, trigger: Trigger, step: Option<StepIndex>, wish: impl Into<ReplanTriggered>) {
    let (wish, information) = (wish.into(), turn.information.take());
    let by_person = trigger == Trigger::AskUser;
    let is_part = trigger == Trigger::PhaseCheckpoint && checkpoint::is_part_due(turn.state);
    // Only the planner knows whether an iterative plan is complete: it is asked at the limit too.
    if !by_person && !is_part && revise::revisions_left(turn.state, turn.context.limits.revisions_max) == 0 {
        if !trigger.is_optional() {
            end_revisions(turn, &wish.reason);
        }
        return;
    }
    let wait_ms = if by_person { turn.context.limits.approval_ms_max } else { PLANNER_MS };
    turn.emit_plan(PlanEvent::ReplanTriggered(Box::new(ReplanTriggered {
        trigger: trigger.as_str().into(),
        step: step.map(|i| turn.id_of(i)),
        due_ms: turn.after(wait_ms),
        information,
        ..wish
    })));
}

pub(crate) fn end_revisions(turn: &mut Turn<'_>, reason: &str) {
    let made = turn.state.revising.by_planners;
    let message = format!("max_revisions_exceeded: no revisions left after {made}: {reason}");
    failure::fail_plan(turn, Failure::new(FailureClass::Permanent, "MAX_REVISIONS_EXCEEDED", message));
}

/// Checks the optional triggers of the plan's revision policy.
pub(crate) fn check_triggers(turn: &mut Turn<'_>) {
    let Some(policy) = &turn.state.plan.definition().revision else { return };
    if turn.state.status != PlanStatus::Running || turn.state.is_done() {
        return;
    }
    if turn.state.counts.failed > turn.state.revising.failures_seen {
        let share = failure_share(turn.state);
        if share > policy.threshold {
            let reason = format!("{:.0} % of the steps have failed", share * 100.0);
            return replan(turn, Trigger::FailureRate, None, reason);
        }
    }
    if !turn.state.revising.budget_seen
        && let Some(reason) = budget::low_budget(turn, policy.budget_low)
    {
        replan(turn, Trigger::BudgetLow, None, reason);
    }
}

/// The failure policy of a step for a class of failure.
pub(crate) fn on_failure(state: &PlanState, i: StepIndex, class: FailureClass) -> OnFailure {
    let own = state.plan.step(i).on_failure;
    match own {
        OnFailure::Abort | OnFailure::Replan | OnFailure::AskUser if failure::may_be_handled(state, i) => {
            OnFailure::Continue
        }
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

/// Share of failed steps; removed steps do not count.
fn failure_share(state: &PlanState) -> f64 {
    let live = state.steps.iter().filter(|step| step.status() != StepStatus::Revised).count();
    f64::from(state.counts.failed) / live.max(1) as f64
}

/// The trigger of a failure.
pub(crate) fn trigger_of(failure: &Failure) -> Trigger {
    if failure.code == "UNEXPECTED_RESULT" {
        Trigger::UnexpectedResult
    } else if failure.class == FailureClass::ConstraintViolation {
        Trigger::ConstraintViolation
    } else {
        Trigger::StepFailure
    }
}
