//! Triggers: what starts a replan.

use goalmill_common::event::{PlanEvent, ReplanTriggered};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::revision::Trigger;

use crate::cleanup::plan_end;
use crate::graph::StepIndex;
use crate::people::waiting::PLANNER_MS;
use crate::revise::revising;
use crate::turn::Turn;

/// Asks the planners, or a person, for a revision. Without revisions left, a required replan ends the plan.
///
/// - `wish`: its reason, or also the hint and the options.
pub(crate) fn replan(turn: &mut Turn<'_>, trigger: Trigger, step: Option<StepIndex>, wish: impl Into<ReplanTriggered>) {
    let (wish, information) = (wish.into(), turn.information.take());
    let by_person = trigger == Trigger::AskUser;
    let is_part = trigger == Trigger::PhaseCheckpoint && revising::is_part_due(turn.state);
    // Only the planner knows whether an iterative plan is complete: it is asked at the limit too.
    if !by_person && !is_part && revising::revisions_left(turn.state, turn.context.limits.revisions_max) == 0 {
        if !trigger.is_optional() {
            fail_without_revisions(turn, &wish.reason);
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

pub(crate) fn fail_without_revisions(turn: &mut Turn<'_>, reason: &str) {
    let made = turn.state.revising.by_planners;
    let message = format!("max_revisions_exceeded: no revisions left after {made}: {reason}");
    plan_end::fail_plan(turn, Failure::new(FailureClass::Permanent, "MAX_REVISIONS_EXCEEDED", message));
}
