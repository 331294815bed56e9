//! Phases and their checkpoints. At the last checkpoint of an iterative plan, planners are asked for the next part.

use goalmill_common::event::{PhaseNamed, PlanEvent, Reason};
use goalmill_common::revision::Trigger;
use goalmill_common::status::PlanStatus;

use crate::decide::Turn;
use crate::graph::unlock;
use crate::revise::trigger;
use crate::{PlanState, criteria, delayed_start, revise};

/// Ends or begins the current phase if that is due. Returns whether anything changed.
pub(crate) fn move_phase(turn: &mut Turn<'_>) -> bool {
    let Some(phase) = turn.state.phases.current_state() else { return false };
    if !delayed_start::is_under_way(turn) || (phase.begun && phase.open > 0) {
        return false;
    }
    let named =
        Box::new(PhaseNamed { phase: turn.state.plan.definition().phases[turn.state.phases.current()].id.clone() });
    if phase.open == 0 {
        turn.emit_plan(match (phase.begun, phase.failed, phase.completed) {
            (true, 1.., _) => PlanEvent::PhaseFailed(named),
            (true, 0, 1..) => PlanEvent::PhaseCompleted(named),
            (true, 0, 0) | (false, _, _) => PlanEvent::PhaseSkipped(named),
        });
        if phase.begun {
            request_checkpoint(turn, turn.state.phases.current() - 1);
        }
        return true;
    }
    // A revision may still change a phase that has not begun.
    if turn.state.status == PlanStatus::Replanning {
        return false;
    }
    let current = turn.state.phases.current();
    turn.emit_plan(PlanEvent::PhaseStarted(named));
    for k in 0..turn.state.graph.members()[current].len() {
        unlock::try_unlock(turn, turn.state.graph.members()[current][k]);
    }
    true
}

/// Requests a replan after a phase with a checkpoint.
pub(crate) fn request_checkpoint(turn: &mut Turn<'_>, phase: usize) {
    let spec = &turn.state.plan.definition().phases[phase];
    if !spec.checkpoint || turn.state.status != PlanStatus::Running || turn.state.is_done() {
        return;
    }
    let name = spec.id.clone();
    if !turn.state.accepted.goal.success_criteria.is_empty() {
        // What waits for payloads is judged when they are there.
        criteria::judge_now(turn, Some(&name));
    }
    request_replan_after(turn, phase);
}

/// Requests the next part of an iterative plan. A paused plan requests it when it is resumed.
pub(crate) fn request_next_part(turn: &mut Turn<'_>) {
    if let (PlanStatus::Running, Some(last)) =
        (turn.state.status, turn.state.plan.definition().phases.len().checked_sub(1))
    {
        request_replan_after(turn, last);
    }
}

fn request_replan_after(turn: &mut Turn<'_>, phase: usize) {
    let reason = format!("phase `{}` has ended", turn.state.plan.definition().phases[phase].id);
    trigger::replan(turn, Trigger::PhaseCheckpoint, None, reason);
}

/// Ends an iterative plan to which the planner adds nothing.
pub(crate) fn finish_iterative_plan(turn: &mut Turn<'_>, summary: &str) {
    let said = if summary.is_empty() { String::new() } else { format!(": {summary}") };
    let needs_next_part = needs_next_part(turn.state);
    turn.emit_plan(PlanEvent::Resumed(Reason::boxed(format!("the planner adds nothing{said}"))));
    // `propagate` would request the next part again.
    if needs_next_part && !revise::is_plan_open(turn.state) {
        unlock::complete_plan(turn);
    } else {
        unlock::skip_blocked(turn);
    }
}

/// Whether every step of an iterative plan is final and its last phase ends in a checkpoint.
pub(crate) fn is_part_due(state: &PlanState) -> bool {
    let last = state.plan.definition().phases.last().is_some_and(|phase| phase.checkpoint);
    last && state.phases.current() == state.plan.definition().phases.len()
        && state.is_done()
        && state.plan.definition().is_iterative()
}

/// Whether an iterative plan is replanned at a checkpoint.
pub(crate) fn is_at_part(state: &PlanState) -> bool {
    state.waiting.is_for(Trigger::PhaseCheckpoint) && state.plan.definition().is_iterative()
}

/// Whether an iterative plan has run all its steps and waits for its next part.
pub(crate) fn needs_next_part(state: &PlanState) -> bool {
    is_at_part(state) && state.is_done()
}
