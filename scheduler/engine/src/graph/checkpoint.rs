//! Phases and their checkpoints. At the last checkpoint of an iterative plan, planners are asked for the next part.

use goalmill_common::event::{PhaseNamed, PlanEvent};
use goalmill_common::revision::Trigger;
use goalmill_common::status::PlanStatus;

use crate::criteria::judgement;
use crate::graph::unlock;
use crate::revise::trigger;
use crate::turn::Turn;

/// Ends or begins the current phase if that is due. Returns whether anything changed.
pub(crate) fn move_phase(turn: &mut Turn<'_>) -> bool {
    let Some(phase) = turn.state.phases.current_state() else { return false };
    // A clean-up leaves the phases as they are.
    if !turn.is_under_way() || turn.state.cleanup.is_running() || (phase.begun && phase.open > 0) {
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
fn request_checkpoint(turn: &mut Turn<'_>, phase: usize) {
    let spec = &turn.state.plan.definition().phases[phase];
    if !spec.checkpoint || turn.state.status != PlanStatus::Running || turn.state.is_done() {
        return;
    }
    let name = spec.id.clone();
    if !turn.state.accepted.goal.success_criteria.is_empty() {
        // What waits for payloads is judged when they are there.
        judgement::judge_now(turn, Some(&name));
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
