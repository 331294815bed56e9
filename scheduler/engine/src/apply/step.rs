//! Folds the events of a step.

use goalmill_common::event::{Record, StepEvent};
use goalmill_common::id::StepId;
use goalmill_common::plan::OnFailure;
use goalmill_common::status::{PlanStatus, StepStatus};

use super::counts::transition;
use crate::attempt::open_failures;
use crate::budget::call_budget;
use crate::budget::plan_size::{count_step, count_steps};
use crate::cleanup::done_work;
use crate::graph::StepIndex;
use crate::revise::fold;
use crate::state::PlanState;
use crate::transitions::{has_what_it_needs, step_transition};
use crate::{ReplayError, apply, cleanup};

pub(super) fn apply_step(
    state: &mut PlanState,
    record: &Record,
    id: &StepId,
    attempt: u32,
    event: &StepEvent,
) -> Result<(), ReplayError> {
    let seq = record.seq;
    if fold::stage(state, seq, id, event)? {
        return Ok(());
    }
    if state.revising.staged.is_some() {
        return Err(ReplayError::TooEarly { seq, event: event.type_name() });
    }
    let i = apply::step_of(state, seq, id)?;
    let old = state.steps[i].status();
    let Some(next) = step_transition(old, event) else {
        return Err(ReplayError::StepMove { seq, event: event.type_name(), step: id.clone(), status: old });
    };
    check_attempt(state, seq, i, attempt, event)?;
    check_start(state, seq, i, event)?;
    let step = &mut state.steps[i];
    let begins = attempt > step.attempt();
    step.fold(seq, record.time_ms, attempt, event);
    state.size.fold(event);
    if let StepEvent::Completed(completed) = event
        && let (Some(id), Some(events)) = (&completed.event, &mut state.events)
    {
        events.remove_event(id);
    }
    if state.begun_ms == 0 && event.executes() {
        state.begun_ms = record.time_ms;
    }
    done_work::fold_work(state, i, old, begins, record, event);
    fold_consequences(state, i, event);
    if let StepEvent::Cancelled(cancelled) = event {
        state.inner.note_not_undone(&cancelled.not_undone);
    }
    let usage = event.usage();
    state.usage.add(usage.cost, usage.tokens);
    if old.is_in_flight() {
        state.capacity.fold(&state.steps[i], record.time_ms, event);
    }
    let is_stopping = cleanup::is_stopping(state, i);
    transition(state, i, old);
    if is_stopping && next.is_final() {
        state.cleanup.inside_ended(record.time_ms);
        cleanup::pass_cleanup(state);
    }
    call_budget::fold_grant(state, i, event);
    Ok(())
}

/// Folds what a step's event changes outside of that step's state.
fn fold_consequences(state: &mut PlanState, i: StepIndex, event: &StepEvent) {
    if let StepEvent::Failed(failed) = event {
        if matches!(
            open_failures::failure_policy(state, i, failed.failure.class),
            OnFailure::Replan | OnFailure::AskUser
        ) {
            state.revising.deferred_failures.insert(i);
        }
    } else if let (StepEvent::Measured(measured), Some(monitor)) = (event, &mut state.monitor) {
        monitor.add(&measured.measures);
    } else if let StepEvent::Decomposed(decomposed) = event {
        let plan = decomposed.plan.as_deref().cloned();
        state.size.replace(0, 1 + plan.as_ref().map_or(0, count_steps));
        state.plan.begin_plan(i, plan);
    } else if let StepEvent::Expanded(expanded) = event {
        let before = count_step(state.plan.step(i));
        state.plan.begin_items(i, &expanded.plan);
        state.size.replace(before, count_step(state.plan.step(i)));
    }
}

/// Only a new attempt has a new number: one more than the last.
fn check_attempt(state: &PlanState, seq: u64, i: StepIndex, found: u32, event: &StepEvent) -> Result<(), ReplayError> {
    let step = &state.steps[i];
    // The engine begins and completes its own steps in one event; a manual completion has no attempt.
    let is_inline = matches!(event, StepEvent::Completed(_))
        && matches!(step.status(), StepStatus::Ready | StepStatus::AwaitingApproval)
        && found != step.attempt()
        && state.runs_in_engine(i);
    let begins = event.begins_attempt() || is_inline;
    let expected = step.attempt() + u32::from(begins);
    if found == expected {
        return Ok(());
    }
    let step = state.plan.step(i).id.clone();
    Err(ReplayError::Attempt { seq, event: event.type_name(), step, expected, found })
}

/// Checks that an event comes while the plan is active, and that what it needs besides is there.
fn check_start(state: &PlanState, seq: u64, i: StepIndex, event: &StepEvent) -> Result<(), ReplayError> {
    let active = matches!(state.status, PlanStatus::Running | PlanStatus::Replanning | PlanStatus::Paused);
    // A person may reject the plan, or skip steps of it, before it runs.
    let is_before = event.abandons_attempt() && state.status == PlanStatus::AwaitingApproval;
    let fits = (active || is_before) && has_what_it_needs(state, i, event);
    if fits { Ok(()) } else { Err(ReplayError::TooEarly { seq, event: event.type_name() }) }
}
