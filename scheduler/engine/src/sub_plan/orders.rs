//! What a plan asks of the plans inside it.

use goalmill_common::command::Verb;
use goalmill_common::event::{KeptPlan, PlanEnded, PlanEvent};

use crate::graph::StepIndex;
use crate::sub_plan::family_plans::FamilyRequest;
use crate::sub_plan::kept_plans;
use crate::sub_plan::kept_plans::KeptFate;
use crate::turn::Turn;
use crate::{Command, sub_plan};

/// Sends a request to the sub-plan of a step.
pub(crate) fn ask_sub_plan(turn: &mut Turn<'_>, i: StepIndex, verb: Verb) {
    let plan = sub_plan::sub_plan_id(turn.state, i);
    let command = Box::new(Command::Verb(verb));
    turn.requests.push(FamilyRequest::Give { plan, command });
}

/// Sends a request to all running sub-plans.
pub(crate) fn ask_sub_plans(turn: &mut Turn<'_>, verb: &Verb) {
    let running: Vec<StepIndex> = turn.state.indices().filter(|i| sub_plan::has_sub_plan(turn.state, *i)).collect();
    for step in running {
        ask_sub_plan(turn, step, verb.clone());
    }
}

/// Stops the plan of a step, or of one of its calls, which reports its end.
pub(crate) fn stop_sub_plan(turn: &mut Turn<'_>, i: StepIndex) {
    let (plan, parent) = (sub_plan::sub_plan_id(turn.state, i), Box::new(sub_plan::as_parent(turn.state, i)));
    turn.requests.push(FamilyRequest::Stop { plan, parent });
}

/// Notes that the plan of a step is kept.
pub(crate) fn keep_inside(turn: &mut Turn<'_>, i: StepIndex) {
    let (step, attempt) = (turn.id_of(i), turn.state.steps[i].attempt());
    turn.emit_plan(PlanEvent::InnerPlanKept(Box::new(KeptPlan { step, attempt })));
}

/// Asks the next kept plan of a step to undo what it did, the last one first.
pub(crate) fn undo_kept(turn: &mut Turn<'_>, i: StepIndex) {
    let Some(attempt) = turn.state.inner.last_kept(i) else { return };
    let Some(cleanup) = turn.state.cleanup.run() else { return };
    let (reason, cancelled) = ("what it did is undone with the plan around it".into(), Vec::new());
    let outcome = PlanEnded { reason, cancelled, ..cleanup.outcome.clone() };
    decide_kept(turn, i, attempt, KeptFate::Undone(outcome));
}

/// Releases the kept plans of all steps: they stay done.
pub(crate) fn release_kept(turn: &mut Turn<'_>) {
    let kept: Vec<(StepIndex, u32)> = turn.state.inner.kept().collect();
    for (i, attempt) in kept {
        decide_kept(turn, i, attempt, KeptFate::Released);
    }
}

/// Stops the plan of a step that continues without it.
pub(crate) fn leave_sub_plan(turn: &mut Turn<'_>, i: StepIndex) {
    let (step, attempt) = (turn.id_of(i), turn.state.steps[i].attempt());
    stop_sub_plan(turn, i);
    turn.emit_plan(PlanEvent::InnerPlanStopped(Box::new(KeptPlan { step, attempt })));
}

fn decide_kept(turn: &mut Turn<'_>, i: StepIndex, attempt: u32, fate: KeptFate) {
    let mut parent = Box::new(sub_plan::as_parent(turn.state, i));
    parent.attempt = attempt;
    let plan = kept_plans::kept_plan_id(turn.state, &parent.step, attempt);
    turn.requests.push(FamilyRequest::EndKept { plan, parent, fate });
}
