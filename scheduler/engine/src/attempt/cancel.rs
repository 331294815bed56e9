//! Cancels attempts and steps.

use goalmill_common::command::Verb;
use goalmill_common::event::{Reason, StepCancelled, StepEvent};
use goalmill_common::id::StepId;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::graph::StepIndex;
use crate::sub_plan::orders;
use crate::turn::Turn;
use crate::{Effect, cleanup, sub_plan};

/// Steps that the end of a plan cancels with an event each; of more, the end lists the ids, so that it stays smaller than
/// the plan.
const CANCEL_EVENTS_MAX: usize = 1_000;
/// Longest reason of a plan's end that its steps repeat, in characters.
const REASON_CHARS_MAX: usize = 200;

/// Cancels every step that is not final, with events of their own, and stops the plans inside it, whose steps end with
/// them. Returns those that the plan's end must list instead, because there are too many of them.
pub(crate) fn cancel_steps(turn: &mut Turn<'_>, why: &str, reason: &str) -> Vec<StepId> {
    let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
    let why = if reason.is_empty() { why.to_owned() } else { format!("{why}: {reason}") };
    let keeps = cleanup::runs_cleanup(turn.state);
    let open = |turn: &Turn<'_>| -> Vec<StepIndex> {
        let is_kept = |i: &StepIndex| {
            let spec = turn.state.plan.step(*i);
            let keeps_undos = turn.state.cleanup.run().is_some_and(|run| run.keeps_undos);
            keeps && (spec.is_cleanup() || turn.state.inner.is_holder(*i)) || keeps_undos && spec.undoes.is_some()
        };
        turn.state.indices().filter(|i| !turn.status_of(*i).is_final() && !is_kept(i)).collect()
    };
    cancel_attempts(turn, &why, keeps);
    let open = open(turn);
    if open.len() > CANCEL_EVENTS_MAX {
        return open.into_iter().map(|i| turn.id_of(i)).collect();
    }
    for i in open {
        turn.emit_step(i, StepEvent::Cancelled(StepCancelled::boxed(why.as_str())));
    }
    Vec::new()
}

/// - `keeps`: whether clean-up steps stay; the undo step of what a revision removed begins again then, when it has its
///   turn.
fn cancel_attempts(turn: &mut Turn<'_>, why: &str, keeps: bool) {
    for i in turn.state.indices() {
        let is_kept = keeps && turn.state.plan.step(i).is_cleanup();
        let may_begin = is_kept && matches!(turn.status_of(i), StepStatus::Ready | StepStatus::Retrying);
        if !turn.status_of(i).is_in_flight() && !turn.state.steps[i].run().awaits_plan() && !may_begin {
            continue;
        }
        if keeps && sub_plan::has_sub_plan(turn.state, i) {
            // What undoes the items of a map that a revision took out continues, also if it was paused.
            if !is_kept {
                orders::stop_sub_plan(turn, i);
            } else if turn.state.status == PlanStatus::Paused {
                orders::ask_sub_plan(turn, i, Verb::Resume { reason: "the plan around it ends".into() });
            }
            continue;
        }
        if sub_plan::has_sub_plan(turn.state, i) {
            orders::ask_sub_plan(turn, i, Verb::Cancel { reason: "the plan around it has ended".into() });
        } else {
            cancel_attempt(turn, i);
        }
        turn.emit_step(
            i,
            match is_kept {
                true => StepEvent::Recalled(Reason::boxed(why)),
                false => StepEvent::Cancelled(StepCancelled::boxed(why)),
            },
        );
    }
    turn.remember_timers();
}

/// Cancels the attempt in flight, if there is one, or the plan that a call waits for.
pub(crate) fn cancel_attempt(turn: &mut Turn<'_>, i: StepIndex) {
    if !turn.status_of(i).is_in_flight() && !turn.state.steps[i].run().awaits_plan() {
        return;
    }
    if sub_plan::has_sub_plan(turn.state, i) {
        orders::leave_sub_plan(turn, i);
    } else {
        turn.effects.extend(turn.state.token(i, turn.context.token_key).map(Effect::Cancel));
    }
}
