//! Unlocks steps whose dependencies are satisfied, skips those whose join is impossible, and ends the plan.

use goalmill_common::config::HookPoint;
use goalmill_common::event::{ApprovalRequested, PlanEnded, Reason, SkipCause, StepEvent, StepSkipped};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::plan::StepKind;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::attempt::failure;
use crate::attempt::failure::plan_failure;
use crate::attempt::report::Spent;
use crate::budget::call_budget;
use crate::constraints::CONSTRAINT_BROKEN;
use crate::decide::Turn;
use crate::graph::open_dependencies::JoinState;
use crate::graph::{StepIndex, checkpoint};
use crate::people::hook;
use crate::render::payloads;
use crate::revise::trigger;
use crate::state::StepState;
use crate::sub_plan::kept_plans;
use crate::{attempt, budget, cleanup, constraints, criteria, delayed_start, people, revise, sub_plan, wait};

/// Tries to unlock every step.
pub(crate) fn unlock_steps(turn: &mut Turn<'_>) {
    if turn.state.cleanup.is_running() {
        cleanup::unlock_cleanup(turn);
        return cleanup::advance_cleanup(turn);
    }
    while checkpoint::move_phase(turn) {}
    for i in turn.state.indices() {
        try_unlock(turn, i);
    }
    propagate(turn);
}

/// Handles the consequences of ended steps until nothing changes. A loop, because dependency chains may be long.
pub(crate) fn propagate(turn: &mut Turn<'_>) {
    loop {
        if turn.state.is_final() || kept_plans::is_kept(turn.state) {
            turn.finished.clear();
            return;
        }
        // What ended the plan may be true for as long as it lasts.
        if turn.state.cleanup.is_running() {
            return cleanup::advance_cleanup(turn);
        }
        if let Some(i) = turn.finished.pop_front() {
            unlock_dependents(turn, i);
            if turn.state.plan.step(i).undoes.is_some() {
                unlock_after_undo(turn);
            }
        } else if let Some(failure) = budget::exceeded_budget(turn).or_else(|| budget::exceeded_failures(turn)) {
            failure::fail_plan(turn, failure);
        } else if constraints::check_constraints(turn) {
            // The plan may have ended, or be replanned.
        } else if let Some(failure) = budget::exceeded_outputs(turn) {
            failure::fail_plan(turn, failure);
        } else if !checkpoint::move_phase(turn) && !run_next_engine_step(turn) {
            break;
        }
    }
    call_budget::continue_within_budget(turn);
    trigger::check_triggers(turn);
    let may_end = matches!(turn.state.status, PlanStatus::Running | PlanStatus::Paused);
    if may_end && turn.state.is_done() && !revise::is_plan_open(turn.state) {
        if checkpoint::is_part_due(turn.state) {
            return checkpoint::request_next_part(turn);
        }
        complete_plan(turn);
    }
}

pub(crate) fn unlock_dependents(turn: &mut Turn<'_>, i: StepIndex) {
    for place in turn.state.graph.dependent_range(i) {
        try_unlock(turn, turn.state.graph.dependent_at(place));
    }
}

/// Unlocks the next undo step of what a revision removed, or all steps that have waited for the last one.
fn unlock_after_undo(turn: &mut Turn<'_>) {
    match turn.state.cleanup.undoing().first() {
        Some(next) => try_unlock(turn, *next),
        None => turn.state.indices().for_each(|i| try_unlock(turn, i)),
    }
}

/// Skips blocked dependents when the plan continues without a failed step.
pub(crate) fn skip_blocked(turn: &mut Turn<'_>) {
    for i in turn.state.indices() {
        if turn.status_of(i) == StepStatus::Blocked {
            skip_for_dependencies(turn, i);
        }
    }
    propagate(turn);
}

/// Makes a pending step ready, or asks before, if nothing holds it back.
pub(crate) fn try_unlock(turn: &mut Turn<'_>, i: StepIndex) {
    let waits = turn.state.loads.is_asked(Some(i));
    if turn.status_of(i) != StepStatus::Pending
        || turn.begins_cleanup
        || !delayed_start::is_under_way(turn)
        || waits
        || !cleanup::is_its_turn(turn.state, i)
    {
        return;
    }
    match turn.state.join_state(i) {
        JoinState::Met if turn.state.is_phase_open(i) => {}
        JoinState::Open | JoinState::Met => return,
        JoinState::Impossible if turn.state.status == PlanStatus::Replanning => {
            let why = Reason::boxed("a dependency failed; waiting for a revision");
            return turn.emit_step(i, StepEvent::Blocked(why));
        }
        JoinState::Impossible => return skip_for_dependencies(turn, i),
    }
    if !meets_condition(turn, i) {
        return;
    }
    let spec = turn.state.plan.step(i);
    let (is_map, approval) = (spec.for_each.is_some(), spec.approve);
    // The items of a map ask each for itself.
    if !is_map && (people::ask_step(turn, i) || hook::ask_hooks_before(turn, i)) {
        return;
    }
    let Some(approval) = approval.filter(|_| !is_map) else { return turn.emit_step(i, StepEvent::Ready) };
    let due_ms = turn.after(approval.limit_ms.min(turn.context.limits.approval_ms_max));
    turn.emit_step(i, StepEvent::ApprovalRequested(Box::new(ApprovalRequested { due_ms })));
}

/// Whether the condition of a step is true. A step with a false one is skipped; one that cannot be evaluated is put
/// off.
fn meets_condition(turn: &mut Turn<'_>, i: StepIndex) -> bool {
    let spec = turn.state.plan.step(i);
    let asks_hooks = turn.context.hooks.contains(HookPoint::OnStepStart);
    let evaluates = spec.when.is_some() || spec.ask.is_some() || asks_hooks;
    if evaluates && !turn.work.allows_more() {
        return false;
    }
    let condition = turn.expressions(i).condition();
    if evaluates {
        turn.count_work(0);
    }
    match condition {
        Err(why) => payloads::put_off(turn, i, why),
        Ok(false) => {
            let when = turn.state.plan.step(i).when.as_deref().unwrap_or_default();
            let reason = format!("`{when}` is false");
            cleanup::skip_by_condition(turn, i, reason);
        }
        Ok(true) => return true,
    }
    false
}

fn skip_for_dependencies(turn: &mut Turn<'_>, i: StepIndex) {
    let state = &*turn.state;
    let spec = state.plan.step(i);
    let mut dependencies = spec.dependencies.iter().filter_map(|id| state.graph.find(id.as_str()));
    let lost = dependencies.find(|d| state.steps[*d].status().is_final() && !revise::apply::is_met(state, spec, *d));
    let reason = match lost.map(|d| (&state.plan.step(d).id, state.steps[d].status())) {
        None => "not enough dependencies can succeed".to_owned(),
        Some((id, status)) => match spec.dependency_status.get(id) {
            None => format!("not enough dependencies can succeed: `{id}` is {status}"),
            Some(allowed) => {
                let allowed: Vec<&str> = allowed.iter().map(|status| status.as_str()).collect();
                format!("`{id}` is {status}, not {}", allowed.join(" or "))
            }
        },
    };
    skip_step(turn, i, SkipCause::DependencyFailed, reason);
}

pub(crate) fn skip_step(turn: &mut Turn<'_>, i: StepIndex, cause: SkipCause, reason: String) {
    let skipped = StepSkipped { reason, ..StepSkipped::new(cause) };
    turn.emit_step(i, StepEvent::Skipped(Box::new(skipped)));
}

/// Runs one ready step that needs no worker. Returns whether there was one.
pub(crate) fn run_next_engine_step(turn: &mut Turn<'_>) -> bool {
    if turn.state.status != PlanStatus::Running || !turn.state.ready.has_engine_step() || !turn.work.allows_more() {
        return false;
    }
    let Some(next) = turn.state.next_engine_step() else { return false };
    run_engine_step(turn, next);
    true
}

/// Completes an inline step, begins a wait, or starts a sub-plan.
pub(crate) fn run_engine_step(turn: &mut Turn<'_>, i: StepIndex) {
    if turn.state.plan.step(i).kind == StepKind::Wait && !turn.state.plan.step(i).starts_plan() {
        return wait::start_wait(turn, i);
    }
    if turn.state.runs_inline(i) {
        return attempt::complete_inline(turn, i);
    }
    match budget::cannot_afford(turn, i) {
        Some(failure) => failure::give_up(turn, i, failure, Spent::default()),
        None => sub_plan::start_sub_plan(turn, i),
    }
    turn.count_work(0);
}

pub(crate) fn complete_plan(turn: &mut Turn<'_>) {
    if let Some(reason) = constraints::check_floors(turn).or_else(|| constraints::check_amounts(turn)) {
        return failure::fail_plan(turn, Failure::new(FailureClass::ConstraintViolation, CONSTRAINT_BROKEN, reason));
    }
    if criteria::judge_criteria(turn) {
        return;
    }
    if let Some((step, failure)) = failure::unhandled_failure(turn.state) {
        return failure::fail_plan(turn, plan_failure(&step, failure));
    }
    let in_part = |step: &StepState| step.is_partial() && step.status() != StepStatus::Revised;
    let is_partial = failure::has_open_failure(turn.state)
        || turn.state.steps.iter().any(in_part)
        || failure::has_left_out(turn.state);
    let status = if is_partial { PlanStatus::Partial } else { PlanStatus::Completed };
    let status = criteria::status_by_criteria(turn, status);
    if status == PlanStatus::Failed {
        let message = "none of the judged success criteria is met";
        return failure::fail_plan(turn, Failure::new(FailureClass::ConstraintViolation, "CRITERIA_UNMET", message));
    }
    cleanup::end_plan(turn, PlanEnded { status, failure: None, reason: String::new(), cancelled: Vec::new() });
}
