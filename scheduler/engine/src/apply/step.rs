//! Folds the events of a step.

use goalmill_common::config::HookPoint;
use goalmill_common::event::{Record, StepEvent};
use goalmill_common::id::StepId;
use goalmill_common::plan::OnFailure;
use goalmill_common::status::{PlanStatus, StepStatus};

use super::counts::transition;
use crate::ReplayError;
use crate::budget::plan_size::{count_step, count_steps};
use crate::graph::StepIndex;
use crate::graph::open_dependencies::JoinState;
use crate::revise;
use crate::state::PlanState;
use crate::transitions::step_transition;

pub(super) fn apply_step(
    state: &mut PlanState,
    record: &Record,
    id: &StepId,
    attempt: u32,
    event: &StepEvent,
) -> Result<(), ReplayError> {
    let seq = record.seq;
    if revise::stage(state, seq, id, event)? {
        return Ok(());
    }
    if state.revising.staged.is_some() {
        return Err(ReplayError::TooEarly { seq, event: event.type_name() });
    }
    let i = state.step_of(seq, id)?;
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
        events.take(id);
    }
    if state.begun_ms == 0 && event.executes() {
        state.begun_ms = record.time_ms;
    }
    state.fold_work(i, old, begins, record, event);
    fold_consequences(state, i, event);
    if let StepEvent::Cancelled(cancelled) = event {
        state.inner.note_not_undone(&cancelled.not_undone);
    }
    let usage = event.usage();
    state.usage.add(usage.cost, usage.tokens);
    if old.is_in_flight() {
        state.capacity.fold(&state.steps[i], record.time_ms, event);
    }
    let is_stopping = state.is_stopping(i);
    transition(state, i, old);
    if is_stopping && next.is_final() {
        state.cleanup.inside_ended(record.time_ms);
        state.pass_cleanup();
    }
    state.fold_grant(i, event);
    Ok(())
}

/// Folds what a step's event changes outside of that step's state.
fn fold_consequences(state: &mut PlanState, i: StepIndex, event: &StepEvent) {
    if let StepEvent::Failed(failed) = event {
        if matches!(state.on_failure(i, failed.failure.class), OnFailure::Replan | OnFailure::AskUser) {
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

/// Checks that a step starts only in a running plan, in a phase that has begun, and when its join is satisfied.
fn check_start(state: &PlanState, seq: u64, i: StepIndex, event: &StepEvent) -> Result<(), ReplayError> {
    let may_start = || state.join_state(i) == JoinState::Met && state.is_phase_open(i);
    let fits = match event {
        StepEvent::Ready => state.steps[i].status() != StepStatus::Pending || may_start(),
        StepEvent::HookAsked(asked) => asked.point == HookPoint::OnStepComplete || may_start(),
        StepEvent::HookDecided(decided) => state.steps[i].run().hooks().is_some_and(|asked| asked.id == decided.id),
        StepEvent::ApprovalRequested(_) | StepEvent::QuestionAsked(_) => may_start(),
        StepEvent::Blocked(_) => state.join_state(i) == JoinState::Impossible,
        StepEvent::Expanded(_) => state.plan.step(i).for_each.is_some(),
        StepEvent::Queued(_) => state.status == PlanStatus::Running && state.is_free(i),
        // Logs of earlier builds undo an iteration twice that was sent again.
        StepEvent::Undone(_) => state.plan.step(i).undoes.is_some(),
        StepEvent::Added(_)
        | StepEvent::Modified(_)
        | StepEvent::Removed(_)
        | StepEvent::Approved(_)
        | StepEvent::Answered(_)
        | StepEvent::Recalled(_)
        | StepEvent::Decomposed(_)
        | StepEvent::Started(_)
        | StepEvent::Progress(_)
        | StepEvent::Measured(_)
        | StepEvent::CallRecorded(_)
        | StepEvent::CallsDiscarded(_)
        | StepEvent::WaitStarted(_)
        | StepEvent::Completed(_)
        | StepEvent::Suspended(_)
        | StepEvent::CallbackReceived(_)
        | StepEvent::Resumed(_)
        | StepEvent::Retrying(_)
        | StepEvent::Iterated(_)
        | StepEvent::Released(_)
        | StepEvent::Failed(_)
        | StepEvent::Skipped(_)
        | StepEvent::Cancelled(_) => true,
    };
    let active = matches!(state.status, PlanStatus::Running | PlanStatus::Replanning | PlanStatus::Paused);
    // A person may reject the plan, or skip steps of it, before it runs.
    let is_before = event.abandons_attempt() && state.status == PlanStatus::AwaitingApproval;
    if fits && (active || is_before) { Ok(()) } else { Err(ReplayError::TooEarly { seq, event: event.type_name() }) }
}
