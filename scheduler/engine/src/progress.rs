//! What a turn goes on with: consequences of ended steps, steps that need no worker, the clean-up, the end.

use goalmill_common::event::{PlanEnded, PlanEvent, Reason};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::plan::StepKind;
use goalmill_common::revision::Trigger;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::attempt::open_failures::plan_failure;
use crate::attempt::spent::Spent;
use crate::attempt::{completion, failure, open_failures};
use crate::budget::exceeded;
use crate::calls::budget_wait;
use crate::cleanup::cleanup_state::CleanupRun;
use crate::cleanup::plan_end;
use crate::constraints::{CONSTRAINT_BROKEN, checks};
use crate::criteria::judgement;
use crate::effect::Decision;
use crate::graph::{StepIndex, checkpoint, unlock};
use crate::revise::{revising, trigger};
use crate::state::StepState;
use crate::sub_plan::{family_limits, launch, orders};
use crate::turn::Turn;
use crate::wait::step_wait;
use crate::{PlanState, cleanup};

/// Tries to unlock every step.
pub(crate) fn unlock_steps(turn: &mut Turn<'_>) {
    if turn.state.cleanup.is_running() {
        unlock_cleanup(turn);
        return advance_cleanup(turn);
    }
    while checkpoint::move_phase(turn) {}
    for i in turn.state.indices() {
        unlock::try_unlock(turn, i);
    }
    propagate(turn);
}

/// Handles the consequences of ended steps until nothing changes. A loop, because dependency chains may be long.
pub(crate) fn propagate(turn: &mut Turn<'_>) {
    loop {
        if turn.state.is_final() || turn.state.is_kept() {
            turn.finished.clear();
            return;
        }
        // What ended the plan may be true for as long as it lasts.
        if turn.state.cleanup.is_running() {
            return advance_cleanup(turn);
        }
        if let Some(i) = turn.finished.pop_front() {
            unlock::unlock_dependents(turn, i);
            if turn.state.plan.step(i).undoes.is_some() {
                unlock::unlock_after_undo(turn);
            }
        } else if let Some(failure) = exceeded::exceeded_budget(turn).or_else(|| exceeded::exceeded_failures(turn)) {
            plan_end::fail_plan(turn, failure);
        } else if checks::check_constraints(turn) {
            // The plan may have ended, or be replanned.
        } else if let Some(failure) = exceeded::exceeded_outputs(turn) {
            plan_end::fail_plan(turn, failure);
        } else if !checkpoint::move_phase(turn) && !run_next_engine_step(turn) {
            break;
        }
    }
    budget_wait::continue_within_budget(turn);
    check_triggers(turn);
    let may_end = matches!(turn.state.status, PlanStatus::Running | PlanStatus::Paused);
    if may_end && turn.state.is_done() && !revising::is_plan_open(turn.state) {
        if revising::is_part_due(turn.state) {
            return checkpoint::request_next_part(turn);
        }
        complete_plan(turn);
    }
}

/// Skips blocked dependents when the plan continues without a failed step.
pub(crate) fn skip_blocked(turn: &mut Turn<'_>) {
    for i in turn.state.indices() {
        if turn.status_of(i) == StepStatus::Blocked {
            unlock::skip_for_dependencies(turn, i);
        }
    }
    propagate(turn);
}

/// Runs one ready step that needs no worker. Returns whether there was one.
fn run_next_engine_step(turn: &mut Turn<'_>) -> bool {
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
        return step_wait::start_wait(turn, i);
    }
    if turn.state.runs_inline(i) {
        return completion::complete_inline(turn, i);
    }
    match exceeded::cannot_afford(turn, i) {
        Some(failure) => failure::give_up(turn, i, failure, Spent::default()),
        None => launch::start_sub_plan(turn, i),
    }
    turn.count_work(0);
}

fn complete_plan(turn: &mut Turn<'_>) {
    if let Some(reason) = checks::check_floors(turn).or_else(|| checks::check_amounts(turn)) {
        return plan_end::fail_plan(turn, Failure::new(FailureClass::ConstraintViolation, CONSTRAINT_BROKEN, reason));
    }
    if judgement::judge_criteria(turn) {
        return;
    }
    if let Some((step, failure)) = open_failures::unhandled_failure(turn.state) {
        return plan_end::fail_plan(turn, plan_failure(&step, failure));
    }
    let in_part = |step: &StepState| step.is_partial() && step.status() != StepStatus::Revised;
    let is_partial = open_failures::has_open_failure(turn.state)
        || turn.state.steps.iter().any(in_part)
        || open_failures::has_left_out(turn.state);
    let status = if is_partial { PlanStatus::Partial } else { PlanStatus::Completed };
    let status = judgement::status_by_criteria(turn, status);
    if status == PlanStatus::Failed {
        let message = "none of the judged success criteria is met";
        return plan_end::fail_plan(turn, Failure::new(FailureClass::ConstraintViolation, "CRITERIA_UNMET", message));
    }
    plan_end::end_plan(turn, PlanEnded { status, failure: None, reason: String::new(), cancelled: Vec::new() });
}

/// Goes on with the clean-up, and ends the plan after it.
pub(crate) fn advance_cleanup(turn: &mut Turn<'_>) {
    if turn.begins_cleanup {
        unlock_cleanup(turn);
    }
    loop {
        if turn.state.is_final() {
            return turn.finished.clear();
        }
        if let Some(i) = turn.finished.pop_front() {
            unlock::unlock_dependents(turn, i);
            if turn.state.plan.step(i).undoes.is_some() {
                unlock_cleanup(turn);
            }
        } else if !run_next_engine_step(turn) {
            break;
        }
    }
    if turn.state.is_done() {
        plan_end::finish_cleanup(turn, "");
    }
}

/// Lets the next undo step begin, or after the last one all `always` steps.
pub(crate) fn unlock_cleanup(turn: &mut Turn<'_>) {
    turn.begins_cleanup = false;
    if turn.state.cleanup.is_stopping() {
        return;
    }
    match turn.state.cleanup.run().and_then(CleanupRun::next_undo) {
        Some(next) if turn.state.plan.step(next).is_cleanup() => unlock::try_unlock(turn, next),
        Some(holder) => orders::undo_kept(turn, holder),
        None => {
            let open: Vec<StepIndex> = cleanup::open_cleanup(turn.state).collect();
            open.into_iter().for_each(|i| unlock::try_unlock(turn, i));
        }
    }
}

/// Ends an iterative plan to which the planner adds nothing.
pub(crate) fn finish_iterative_plan(turn: &mut Turn<'_>, summary: &str) {
    let said = if summary.is_empty() { String::new() } else { format!(": {summary}") };
    let needs_next_part = revising::needs_next_part(turn.state);
    turn.emit_plan(PlanEvent::Resumed(Reason::boxed(format!("the planner adds nothing{said}"))));
    // `propagate` would request the next part again.
    if needs_next_part && !revising::is_plan_open(turn.state) {
        complete_plan(turn);
    } else {
        skip_blocked(turn);
    }
}

/// Ends the turn: a clean-up that has begun goes on, a log that is too long ends the plan, and the family learns what
/// was added.
pub(crate) fn finish_turn(mut turn: Turn<'_>) -> Decision {
    if turn.begins_cleanup {
        advance_cleanup(&mut turn);
    }
    let is_open = !turn.state.is_final() && !turn.state.is_kept();
    if is_open && turn.state.seq >= cleanup::events_end(turn.state, &turn.context.limits) {
        plan_end::fail_for_events(&mut turn);
        if turn.begins_cleanup {
            advance_cleanup(&mut turn);
        }
    }
    family_limits::report_growth(&mut turn);
    turn.end()
}

/// Checks the optional triggers of the plan's revision policy.
fn check_triggers(turn: &mut Turn<'_>) {
    let Some(policy) = &turn.state.plan.definition().revision else { return };
    if turn.state.status != PlanStatus::Running || turn.state.is_done() {
        return;
    }
    if turn.state.counts.failed > turn.state.revising.failures_seen {
        let share = failure_share(turn.state);
        if share > policy.threshold {
            let reason = format!("{:.0} % of the steps have failed", share * 100.0);
            return trigger::replan(turn, Trigger::FailureRate, None, reason);
        }
    }
    if !turn.state.revising.budget_seen
        && let Some(reason) = exceeded::low_budget(turn, policy.budget_low)
    {
        trigger::replan(turn, Trigger::BudgetLow, None, reason);
    }
}

/// Share of failed steps; removed steps do not count.
fn failure_share(state: &PlanState) -> f64 {
    let live = state.steps.iter().filter(|step| step.status() != StepStatus::Revised).count();
    f64::from(state.counts.failed) / live.max(1) as f64
}
