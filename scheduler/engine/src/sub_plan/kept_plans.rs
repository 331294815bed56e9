//! Kept plans: a plan inside another one whose work is done, and may be undone for as long as the plan around it runs.
//!
//! The step that holds it continues immediately with the outputs. The plan itself ends with the plan around it: completed when
//! that one releases it, or through its own clean-up, at the place of its step among what the plan around it undoes.

use goalmill_common::event::{KeptPlan, PlanEnded, PlanEvent, UndonePlan};
use goalmill_common::id::{PlanId, StepId};
use goalmill_common::plan::Collect;
use goalmill_common::status::PlanStatus;

use crate::cleanup::done_work;
use crate::decide::{Turn, not_allowed};
use crate::graph::StepIndex;
use crate::sub_plan::family::FamilyRequest;
use crate::sub_plan::inner_plans::InnerPlans;
use crate::token::TokenKey;
use crate::{PlanState, Rejection, SubPlanEnd, cleanup, sub_plan};

/// What becomes of a kept plan.
#[derive(Clone, Debug, PartialEq)]
pub enum KeptFate {
    /// It ends as it is.
    Released,
    /// What it did is undone, because the plan around it ends like this.
    Undone(PlanEnded),
}

/// Takes what becomes of this plan.
pub(crate) fn end_kept(turn: &mut Turn<'_>, fate: KeptFate) -> Result<(), Rejection> {
    let Some(outcome) = turn.state.outcome.kept().cloned() else {
        return Err(not_allowed("the plan is not kept"));
    };
    match fate {
        KeptFate::Released => cleanup::emit_end(turn, outcome),
        KeptFate::Undone(outcome) => cleanup::end_plan(turn, outcome),
    }
    Ok(())
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
    sub_plan::stop_sub_plan(turn, i);
    turn.emit_plan(PlanEvent::InnerPlanStopped(Box::new(KeptPlan { step, attempt })));
}

fn decide_kept(turn: &mut Turn<'_>, i: StepIndex, attempt: u32, fate: KeptFate) {
    let mut parent = Box::new(sub_plan::as_parent(turn.state, i));
    parent.attempt = attempt;
    let plan = kept_plan_id(turn.state, &parent.step, attempt);
    turn.requests.push(FamilyRequest::EndKept { plan, parent, fate });
}

/// A kept or stopped plan has undone what it did. The clean-up continues.
pub(crate) fn kept_plan_ended(turn: &mut Turn<'_>, i: StepIndex, attempt: u32, end: SubPlanEnd) {
    let usage = end.usage.bounded();
    let undone = UndonePlan {
        step: turn.id_of(i),
        attempt,
        cost: usage.cost,
        tokens: usage.tokens,
        not_undone: cleanup::named_inside(turn.state, i, end.not_undone),
    };
    turn.emit_plan(PlanEvent::InnerPlanUndone(Box::new(undone)));
    if turn.state.cleanup.is_running() {
        cleanup::unlock_cleanup(turn);
        cleanup::advance_cleanup(turn);
    }
}

/// Whether it is done, and kept until the plan around it ends.
pub fn is_kept(state: &PlanState) -> bool {
    state.outcome.kept().is_some()
}

/// Why a kept plan takes no other command.
pub(crate) fn refuse_kept(state: &PlanState) -> Rejection {
    let around = state.parent().map_or("", |parent| parent.plan.as_str());
    not_allowed(format!("the work of the plan is done; it ends with the plan around it, `{around}`"))
}

/// Whether it waits for plans inside it that end, or undo what they did.
pub fn awaits_inside(state: &PlanState) -> bool {
    state.inner.unended() > 0 || state.cleanup.is_running() && state.inner.has_kept()
}

/// Whether a plan that ends like that is kept: it has done what can be undone. The plan around a map undoes what its
/// items did, but for what plans inside them did.
pub(crate) fn keeps_work(state: &PlanState, status: PlanStatus) -> bool {
    let has_work =
        || state.graph.undone_steps().any(|i| cleanup::is_undone(state, i) && !done_work::is_idle_map(state, i));
    may_keep_work(state, status) && (state.inner.has_kept() || has_work())
}

/// The same in logs of earlier builds, in which a map has work whose items have done nothing.
pub(crate) fn may_keep_work(state: &PlanState, status: PlanStatus) -> bool {
    let is_done = matches!(status, PlanStatus::Completed | PlanStatus::Partial);
    if !is_done || state.parent().is_none() || state.outcome.kept().is_some() {
        return false;
    }
    let has_work = || state.graph.undone_steps().any(|i| cleanup::is_undone(state, i));
    state.inner.has_kept() || state.plan.definition().collect != Collect::List && has_work()
}

/// The id of the plan that ran for an attempt of a step.
pub(crate) fn kept_plan_id(state: &PlanState, step: &StepId, attempt: u32) -> PlanId {
    TokenKey::sub_plan(&state.accepted.plan_id, step, attempt)
}

/// - `fold`: what the event does to the plan of an attempt.
pub(crate) fn fold_inner(state: &mut PlanState, inside: &KeptPlan, fold: fn(&mut InnerPlans, StepIndex, u32)) {
    if let Some(i) = state.graph.find(inside.step.as_str()) {
        fold(&mut state.inner, i, inside.attempt);
    }
}

pub(crate) fn fold_undone(state: &mut PlanState, time_ms: u64, undone: &UndonePlan) {
    state.usage.add(undone.cost, undone.tokens);
    state.inner.note_not_undone(&undone.not_undone);
    let Some(i) = state.graph.find(undone.step.as_str()) else { return };
    if state.inner.end_undone(i, undone.attempt) {
        state.cleanup.inside_ended(time_ms);
    }
    cleanup::pass_cleanup(state);
}

/// The request that a plan decides about one that it does not keep.
pub(crate) fn release(plan: PlanId, parent: Box<goalmill_common::event::Parent>) -> FamilyRequest {
    FamilyRequest::EndKept { plan, parent, fate: KeptFate::Released }
}
