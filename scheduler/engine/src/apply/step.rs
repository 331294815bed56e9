//! Folds the events of a step.

use goalmill_common::call::CallWaitKind;
use goalmill_common::config::HookPoint;
use goalmill_common::event::{
    HookDecided, HookDecision, Record, StepCompleted, StepEvent, StepIterated, StepProgress, StepQueued, StepRetrying,
    StepSkipped, StepStarted, StepWaitStarted,
};
use goalmill_common::failure::{Failure, FailureClass, TASK_MISSING};
use goalmill_common::id::StepId;
use goalmill_common::plan::OnFailure;
use goalmill_common::status::{PlanStatus, StepStatus};

use super::counts::transition;
use crate::ReplayError;
use crate::budget::plan_size::{count_step, count_steps};
use crate::graph::StepIndex;
use crate::revise;
use crate::state::{JoinState, PlanState, StepState, ToldToWait};
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
    let Some(i) = state.graph.find(id.as_str()) else {
        return Err(ReplayError::UnknownStep { seq, step: id.clone() });
    };
    let old = state.steps[i].status;
    let Some(next) = step_transition(old, event) else {
        return Err(ReplayError::StepMove { seq, event: event.type_name(), step: id.clone(), status: old });
    };
    check_attempt(state, seq, i, attempt, event)?;
    check_start(state, seq, i, event)?;
    let step = &mut state.steps[i];
    let begins = attempt > step.attempt;
    if step.sent == 0 && attempt > 0 {
        step.sent = seq;
    }
    step.attempt = attempt;
    if step.ended == 0 && next.is_final() {
        step.ended = seq;
    }
    if next != old {
        step.leave_status();
    }
    fold_step(step, record.time_ms, event);
    step.fold_calls(event);
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
    adjust_width(state, i, old, record.time_ms, event);
    let is_stopping = state.is_stopping(i);
    transition(state, i, old, next, event.satisfies_dependents());
    if is_stopping && next.is_final() {
        state.cleanup.inside_ended(record.time_ms);
        state.pass_cleanup();
    }
    state.fold_grant(i, event);
    fold_budget_wait(state, i, event);
    Ok(())
}

/// Notes which steps wait for the budget, until their next attempt begins.
fn fold_budget_wait(state: &mut PlanState, i: StepIndex, event: &StepEvent) {
    if let StepEvent::Suspended(suspended) = event {
        if suspended.call.wait.kind == CallWaitKind::Budget {
            state.reservations.set_waiting(i, true);
        }
    } else if !matches!(event, StepEvent::Ready) {
        state.reservations.set_waiting(i, false);
    }
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
        && matches!(step.status, StepStatus::Ready | StepStatus::AwaitingApproval)
        && found != step.attempt
        && state.runs_in_engine(i);
    let begins = event.begins_attempt() || is_inline;
    let expected = step.attempt + u32::from(begins);
    if found == expected {
        return Ok(());
    }
    let step = state.plan.step(i).id.clone();
    Err(ReplayError::Attempt { seq, event: event.type_name(), step, expected, found })
}

/// Checks that a step starts only in a running plan, in a phase that has begun, and when its join is satisfied.
fn check_start(state: &PlanState, seq: u64, i: StepIndex, event: &StepEvent) -> Result<(), ReplayError> {
    let waits = state.steps[i].status == StepStatus::Pending;
    let fits = match event {
        StepEvent::Ready => !waits || (state.join_state(i) == JoinState::Met && state.is_phase_open(i)),
        StepEvent::HookAsked(asked) if asked.point == HookPoint::OnStepComplete => true,
        StepEvent::HookDecided(decided) => state.steps[i].asked_hooks().is_some_and(|asked| asked.id == decided.id),
        StepEvent::ApprovalRequested(_) | StepEvent::QuestionAsked(_) | StepEvent::HookAsked(_) => {
            state.join_state(i) == JoinState::Met && state.is_phase_open(i)
        }
        StepEvent::Blocked(_) => state.join_state(i) == JoinState::Impossible,
        StepEvent::Expanded(_) => state.plan.step(i).for_each.is_some(),
        StepEvent::Queued(_) => state.status == PlanStatus::Running && state.is_free(i),
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
        // Logs of earlier builds undo an iteration twice that was sent again.
        StepEvent::Undone(_) => state.plan.step(i).undoes.is_some(),
    };
    let active = matches!(state.status, PlanStatus::Running | PlanStatus::Replanning | PlanStatus::Paused);
    // A person may reject the plan, or skip steps of it, before it runs.
    let is_before = event.abandons_attempt() && state.status == PlanStatus::AwaitingApproval;
    if fits && (active || is_before) { Ok(()) } else { Err(ReplayError::TooEarly { seq, event: event.type_name() }) }
}

fn fold_step(step: &mut StepState, time_ms: u64, event: &StepEvent) {
    // What was handed back or recalled while it ran may be done.
    let is_cut = event.abandons_attempt() || matches!(event, StepEvent::Released(_) | StepEvent::Recalled(_));
    if event.failure().is_some_and(Failure::may_be_done) || is_cut && step.started_ms > 0 {
        step.details().may_have_acted = true;
    }
    match event {
        StepEvent::Added(_)
        | StepEvent::Modified(_)
        | StepEvent::Removed(_)
        | StepEvent::Expanded(_)
        | StepEvent::Measured(_)
        | StepEvent::CallRecorded(_)
        | StepEvent::CallsDiscarded(_)
        | StepEvent::Ready
        | StepEvent::Released(_) => {}
        StepEvent::QuestionAsked(asked) => {
            step.due_ms = asked.due_ms;
            step.details().question = Some(asked.question.clone());
        }
        StepEvent::Answered(answered) => step.details().answer = Some(answered.answer.clone()),
        StepEvent::HookAsked(asked) => {
            // One question may follow another.
            step.due_ms = 0;
            step.details().hooks.ask(asked);
        }
        StepEvent::HookDecided(decided) => fold_hook(step, decided),
        StepEvent::Recalled(_) => step.clear_hooks(),
        StepEvent::Decomposed(_) => begin_again(step),
        StepEvent::Undone(_) => undo_next(step),
        StepEvent::Approved(_) => approve(step),
        StepEvent::Suspended(suspended) => step.fold_suspended(suspended),
        StepEvent::CallbackReceived(received) => {
            step.details().callback = Some(Box::new((step.attempt, received.digest.clone())));
        }
        StepEvent::Resumed(_) => {
            step.details().calls.resume();
        }
        StepEvent::WaitStarted(started) => start_wait(step, started),
        StepEvent::Blocked(why) => step.details().reason.clone_from(&why.reason),
        StepEvent::ApprovalRequested(request) => step.due_ms = request.due_ms,
        StepEvent::Queued(queued) => queue(step, time_ms, queued),
        StepEvent::Started(started) => start(step, started),
        StepEvent::Progress(progress) => note_progress(step, progress),
        StepEvent::Completed(completed) => complete(step, time_ms, completed),
        StepEvent::Iterated(iterated) => iterate(step, iterated),
        StepEvent::Retrying(retrying) => retry(step, time_ms, retrying),
        StepEvent::Failed(failed) => {
            step.details().failure = Some(failed.failure.clone());
            step.finished_ms = time_ms;
        }
        StepEvent::Skipped(skipped) => skip(step, time_ms, skipped),
        StepEvent::Cancelled(why) => {
            step.details().reason.clone_from(&why.reason);
            step.finished_ms = time_ms;
        }
    }
}

fn approve(step: &mut StepState) {
    if let Some(details) = &mut step.details {
        details.hooks.pass();
    }
}

/// The next attempt has all retries again.
fn begin_again(step: &mut StepState) {
    (step.failures, step.lost, step.fallback) = (0, 0, false);
    step.details().told_to_wait = None;
}

/// The undo step begins with the next piece of work as if it had not begun.
fn undo_next(step: &mut StepState) {
    begin_again(step);
    step.clear_hooks();
    let details = step.details();
    (details.failure, details.answer, details.iterated) = (None, None, None);
    details.may_have_acted = false;
}

fn iterate(step: &mut StepState, iterated: &StepIterated) {
    begin_again(step);
    step.due_ms = iterated.due_ms;
    step.clear_hooks();
    let details = step.details();
    (details.failure, details.may_have_acted) = (None, false);
    details.iterated = Some((iterated.iteration, iterated.outputs.clone()));
    step.partial |= iterated.partial;
}

fn start_wait(step: &mut StepState, started: &StepWaitStarted) {
    step.due_ms = started.due_ms;
    if !started.event.is_empty() {
        step.details().awaited_event = Some(Box::new((started.event.clone(), started.key.clone())));
    }
}

fn start(step: &mut StepState, started: &StepStarted) {
    step.worker.clone_from(&started.worker);
    step.started_ms = started.started_ms;
    step.due_ms = started.due_ms;
}

fn note_progress(step: &mut StepState, progress: &StepProgress) {
    let details = step.details();
    details.progress = progress.progress.or(details.progress);
    details.message = progress.message.clone().or(details.message.take());
}

fn skip(step: &mut StepState, time_ms: u64, skipped: &StepSkipped) {
    let details = step.details();
    details.cause = Some(skipped.cause);
    details.reason.clone_from(&skipped.reason);
    details.failure = skipped.failure.clone().or(details.failure.take());
    step.finished_ms = time_ms;
}

fn queue(step: &mut StepState, time_ms: u64, queued: &StepQueued) {
    step.queued_ms = time_ms;
    step.started_ms = 0;
    step.worker = None;
    step.due_ms = queued.due_ms;
    if queued.cache_key.is_some() {
        step.details().cache_key.clone_from(&queued.cache_key);
    }
    if let Some(details) = &mut step.details {
        details.progress = None;
        details.message = None;
    }
}

fn complete(step: &mut StepState, time_ms: u64, completed: &StepCompleted) {
    step.outputs = Some(completed.outputs.clone());
    if completed.adjustments.is_some() {
        step.details().adjustments.clone_from(&completed.adjustments);
    }
    step.partial |= completed.partial;
    if !completed.errors.is_empty() || !completed.suggested_adjustments.is_empty() {
        let details = step.details();
        details.errors.clone_from(&completed.errors);
        details.suggested.clone_from(&completed.suggested_adjustments);
    }
    step.finished_ms = completed.finished_ms.unwrap_or(time_ms);
}

/// Folds the decision about a step: it is held, or goes on.
fn fold_hook(step: &mut StepState, decided: &HookDecided) {
    step.due_ms = decided.due_ms;
    step.details().hooks.decide(decided);
    if decided.decision == HookDecision::Hold {
        step.details().reason.clone_from(&decided.reason);
    }
}

fn retry(step: &mut StepState, time_ms: u64, retrying: &StepRetrying) {
    step.due_ms = retrying.due_ms;
    let before = step.told_to_wait().unwrap_or(ToldToWait { since_ms: time_ms, times: 0 });
    let times = before.times.saturating_add(1);
    step.details().told_to_wait = retrying.told_to_wait.then_some(ToldToWait { times, ..before });
    if retrying.told_to_wait {
        // It uses no retry.
    } else if retrying.failure.class == FailureClass::Lost {
        step.lost = if retrying.failure.code == TASK_MISSING { step.lost } else { step.losses() };
    } else {
        step.failures += 1;
    }
    if retrying.fallback {
        step.fallback = true;
        step.failures = 0;
    }
    step.details().failure = Some(retrying.failure.clone());
}

fn adjust_width(state: &mut PlanState, i: StepIndex, old: StepStatus, time_ms: u64, event: &StepEvent) {
    if !old.is_in_flight() {
        return;
    }
    if let StepEvent::Completed(completed) = event {
        let (waited_ms, ran_ms) = durations(&state.steps[i], time_ms, completed);
        state.capacity.record_success(waited_ms, ran_ms);
    } else if event.failure().is_some() {
        state.capacity.record_failure();
    }
}

/// Returns how long an attempt waited and ran, in milliseconds. The run is measured by the worker's clock only, the
/// whole by the owner's clock only, so clock skew does not matter.
fn durations(step: &StepState, time_ms: u64, completed: &StepCompleted) -> (u64, u64) {
    let whole = time_ms.saturating_sub(step.queued_ms);
    let ran = completed.finished_ms.unwrap_or(time_ms).saturating_sub(step.started_ms).min(whole);
    (whole - ran, ran)
}
