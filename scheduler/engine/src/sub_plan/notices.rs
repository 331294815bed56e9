//! What the family tells a plan: one inside has ended, a kept one learns its fate, the family has grown.

use goalmill_common::event::{FamilyGrew, PlanEvent, StepCancelled, StepCompleted, StepEvent, UndonePlan};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Usage;
use goalmill_common::id::StepId;
use goalmill_common::plan::StepKind;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::attempt::spent::Spent;
use crate::attempt::{completion, failure, step_timeout};
use crate::budget::exceeded;
use crate::calls::{call_plan, resume};
use crate::cleanup::plan_end;
use crate::graph::StepIndex;
use crate::people::hook;
use crate::render::payload_loads::HeldOutcome;
use crate::render::payloads;
use crate::requests::PLAN_TIMEOUT;
use crate::sub_plan::kept_plans::{KeptFate, release};
use crate::sub_plan::{family_limits, loops, orders};
use crate::turn::Turn;
use crate::{Rejection, SubPlanEnd, cleanup, progress, sub_plan};

pub(crate) fn sub_plan_ended(
    turn: &mut Turn<'_>,
    step: &StepId,
    attempt: u32,
    end: SubPlanEnd,
) -> Result<(), Rejection> {
    let i = turn.find(step)?;
    let is_stopped = turn.state.inner.is_stopped(i, attempt);
    if is_stopped && end.is_kept {
        // Then it is released, and ends.
        return Err(Rejection::StaleAttempt { step: step.clone(), attempt });
    }
    if is_stopped || turn.state.inner.is_kept(i, attempt) {
        // After a restart it says again that it is kept.
        if !end.is_kept {
            kept_plan_ended(turn, i, attempt, end);
        }
        return Ok(());
    }
    let ends_with_plan = cleanup::is_stopping(turn.state, i) && !turn.state.plan.step(i).is_cleanup();
    if ends_with_plan && turn.state.steps[i].attempt() == attempt {
        inside_ended(turn, i, end);
        return Ok(());
    }
    let at = &turn.state.steps[i];
    if at.attempt() == attempt
        && at.run().awaits_plan()
        && let Some(call) = resume::waiting_call(turn, i)
    {
        if end.is_kept {
            turn.requests
                .push(release(sub_plan::sub_plan_id(turn.state, i), Box::new(sub_plan::as_parent(turn.state, i))));
        }
        call_plan::call_plan_ended(turn, i, call, end);
        progress::propagate(turn);
        return Ok(());
    }
    let awaited = at.status() == StepStatus::Running && at.attempt() == attempt;
    if !awaited || turn.state.plan.step(i).kind != StepKind::Plan {
        return Err(Rejection::StaleAttempt { step: step.clone(), attempt });
    }
    let is_done = matches!(end.status, PlanStatus::Completed | PlanStatus::Partial);
    let again = || HeldOutcome::SubPlan { step: step.clone(), attempt, end: Box::new(end.clone()) };
    if is_done && payloads::hold_for_outputs(turn, i, &end.outputs, again) {
        return Ok(());
    }
    if end.is_kept {
        orders::keep_inside(turn, i);
    }
    let SubPlanEnd { status, outputs, usage, failure, items, not_undone, is_kept: _ } = end;
    let usage = usage.bounded();
    let at = &turn.state.steps[i];
    let duration_ms = Some(turn.now_ms.saturating_sub(at.started_ms()));
    let spent = Spent { cost: usage.cost, tokens: usage.tokens, split: None, duration_ms };
    let partial = status == PlanStatus::Partial;
    // All items of a map were to be undone.
    let is_done = is_done && !(partial && turn.state.plan.step(i).undoes.is_some());
    let failure_inside = failure.clone().filter(|_| is_done);
    let failure = if is_done {
        completion::output_mismatch(turn, i, &outputs).map(Failure::with_unknown_outcome)
    } else {
        Some(sub_plan_failure(turn, i, status, failure)).map(|failure| sub_plan::with_not_undone(failure, &not_undone))
    };
    match failure {
        // The sub-plan has done its own retries: the step is not retried.
        Some(failure) => failure::give_up(turn, i, failure, spent),
        None => {
            let errors: Vec<Failure> = failure_inside.into_iter().collect();
            let completed = StepCompleted { outputs, items, partial, errors, ..spent.into_completed() };
            let completed =
                hook::ask_hooks_after(turn, i, completed).and_then(|completed| loops::iterate(turn, i, completed));
            if let Some(completed) = completed {
                turn.emit_step(i, StepEvent::Completed(Box::new(completed)));
            }
        }
    }
    progress::propagate(turn);
    Ok(())
}

/// The failure of a step whose sub-plan ended without success.
fn sub_plan_failure(turn: &Turn<'_>, i: StepIndex, status: PlanStatus, failure: Option<Failure>) -> Failure {
    match failure {
        Some(failure) if failure.code == PLAN_TIMEOUT && is_out_of_time(turn, i) => step_timeout(),
        Some(failure) => failure,
        None if is_out_of_time(turn, i) => step_timeout(),
        None => Failure::new(FailureClass::Permanent, "SUB_PLAN_FAILED", format!("its plan was {status}")),
    }
}

/// Whether a sub-plan used up the time limit of its step.
fn is_out_of_time(turn: &Turn<'_>, i: StepIndex) -> bool {
    let (spec, step) = (turn.state.plan.step(i), &turn.state.steps[i]);
    // Not by the deadline of the plan, which may come before.
    spec.timeout_ms.is_some_and(|limit_ms| turn.now_ms + 1 >= step.started_ms().saturating_add(limit_ms))
}

/// A plan inside has ended while this one waits for it. The clean-up begins after the last one.
fn inside_ended(turn: &mut Turn<'_>, i: StepIndex, end: SubPlanEnd) {
    if end.is_kept {
        orders::keep_inside(turn, i);
    }
    let Usage { cost, tokens } = end.usage.bounded();
    let (reason, not_undone) =
        ("the plan around it ends".to_owned(), cleanup::named_inside(turn.state, i, end.not_undone));
    let cancelled = StepCancelled { reason, cost, tokens, not_undone };
    turn.emit_step(i, StepEvent::Cancelled(Box::new(cancelled)));
    progress::unlock_cleanup(turn);
    progress::advance_cleanup(turn);
}

/// Takes what becomes of this plan.
pub(crate) fn end_kept(turn: &mut Turn<'_>, fate: KeptFate) -> Result<(), Rejection> {
    let Some(outcome) = turn.state.outcome.kept().cloned() else {
        return Err(Rejection::not_allowed("the plan is not kept"));
    };
    match fate {
        KeptFate::Released => plan_end::emit_end(turn, outcome),
        KeptFate::Undone(outcome) => plan_end::end_plan(turn, outcome),
    }
    Ok(())
}

/// A kept or stopped plan has undone what it did. The clean-up continues.
fn kept_plan_ended(turn: &mut Turn<'_>, i: StepIndex, attempt: u32, end: SubPlanEnd) {
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
        progress::unlock_cleanup(turn);
        progress::advance_cleanup(turn);
    }
}

/// Counts the steps and bytes of plans inside this one, which ends when they are too many.
pub(crate) fn grow_family(turn: &mut Turn<'_>, grown: FamilyGrew) {
    turn.emit_plan(PlanEvent::FamilyGrew(Box::new(grown)));
    if let Some(failure) = exceeded::exceeded_outputs(turn) {
        plan_end::fail_plan(turn, failure);
    } else if turn.state.size.steps_with_family() > family_limits::family_steps_max(turn) {
        plan_end::fail_plan(turn, family_limits::family_too_large(turn));
    }
}
