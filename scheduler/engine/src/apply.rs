//! Folds events into the state. Live decisions, recovery and replay use the same fold.

use std::sync::Arc;

use goalmill_common::call::CallWaitKind;
use goalmill_common::config::HookPoint;
use goalmill_common::criterion::JudgeKind;
use goalmill_common::event::{
    CriteriaJudged, Event, GoalChanged, HookDecided, HookDecision, JudgementRequested, PlanCreated, PlanEnded,
    PlanEvent, QuestionAnswered, Record, ReplanTriggered, RevisionRefused, StepCompleted, StepEvent, StepQueued,
    StepRetrying,
};
use goalmill_common::failure::{Failure, FailureClass, TASK_MISSING};
use goalmill_common::id::StepId;
use goalmill_common::number::{to_u32, to_usize};
use goalmill_common::plan::{OnFailure, StepKind, Strategy};
use goalmill_common::revision::{Answered, Refusal, Trigger};
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::constraint_monitor::ConstraintMonitor;
use crate::grant::GrantedBudgets;
use crate::graph::{PlanGraph, StepIndex};
use crate::implied_criteria::implied_criteria;
use crate::plan_size::{count_step, count_steps};
use crate::reserved::ReservedEstimates;
use crate::revise::{self, into_items, into_plan};
use crate::state::{JoinState, Origin, PhaseState, PlanState, StepHook, StepState, ToldToWait, at};
use crate::transitions::{plan_transition, step_transition};
use crate::waiting::{PLANNER_MS, Waiting};

/// Why a log cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("event {found} follows event {}: the log has a gap or is out of order", .expected - 1)]
    Gap { expected: u64, found: u64 },
    #[error("event {seq} comes before `goal_accepted`")]
    NotBegun { seq: u64 },
    #[error("event {seq} comes after the plan's end")]
    AfterEnd { seq: u64 },
    #[error("event {seq} names step `{step}`, which does not exist")]
    UnknownStep { seq: u64, step: StepId },
    #[error("event {seq} (`{event}`) cannot happen to a plan that is {status}")]
    PlanMove { seq: u64, event: &'static str, status: PlanStatus },
    #[error("event {seq} (`{event}`) cannot happen to step `{step}`, which is {status}")]
    StepMove { seq: u64, event: &'static str, step: StepId, status: StepStatus },
    #[error("event {seq} (`{event}`) is about attempt {found} of step `{step}`, not {expected}")]
    Attempt { seq: u64, event: &'static str, step: StepId, expected: u32, found: u32 },
    #[error("event {seq} (`{event}`) comes too early")]
    TooEarly { seq: u64, event: &'static str },
    #[error("event {seq} brings a plan that cannot run: {reason}")]
    BadPlan { seq: u64, reason: String },
}

/// Folds the next event of a log; the first one creates the state. On an error the state is as before.
pub fn replay(state: &mut Option<PlanState>, record: &Record) -> Result<(), ReplayError> {
    match state {
        Some(state) => apply(state, record),
        None => {
            *state = Some(PlanState::new(record)?);
            Ok(())
        }
    }
}

impl PlanState {
    /// Creates the state from the first event of a log, which must be `goal_accepted`.
    pub fn new(record: &Record) -> Result<Self, ReplayError> {
        let seq = record.seq;
        match &record.event {
            _ if seq != 1 => Err(ReplayError::Gap { expected: 1, found: seq }),
            Event::Plan(PlanEvent::GoalAccepted(accepted)) => Ok(Self::accept(accepted, record.time_ms)),
            Event::Plan(_) | Event::Step { .. } => Err(ReplayError::NotBegun { seq }),
        }
    }
}

/// Folds one event into the state; on an error the state is as before.
pub fn apply(state: &mut PlanState, record: &Record) -> Result<(), ReplayError> {
    let seq = record.seq;
    if seq != state.seq + 1 {
        return Err(ReplayError::Gap { expected: state.seq + 1, found: seq });
    }
    if state.is_final() {
        return Err(ReplayError::AfterEnd { seq });
    }
    match &record.event {
        Event::Plan(event) => apply_plan(state, record, event)?,
        Event::Step { step, attempt, event, phase: _ } => apply_step(state, record, step, *attempt, event)?,
    }
    state.seq = seq;
    state.updated_ms = record.time_ms;
    Ok(())
}

fn apply_plan(state: &mut PlanState, record: &Record, event: &PlanEvent) -> Result<(), ReplayError> {
    let seq = record.seq;
    let impossible = ReplayError::PlanMove { seq, event: event.type_name(), status: state.status };
    let next = plan_transition(state.status, event).ok_or(impossible)?;
    check_plan(state, seq, event)?;
    if !revise::restage(state, event) {
        return Err(ReplayError::TooEarly { seq, event: event.type_name() });
    }
    match event {
        PlanEvent::GoalChanged(changed) => change_goal(state, changed),
        PlanEvent::PlanCreated(created) => create(state, record, created)?,
        PlanEvent::ApprovalRequested(request) => {
            state.waiting = Waiting::Approval { due_ms: request.due_ms, hook: None };
        }
        PlanEvent::HookAsked(asked) => state.waiting.ask_hook(asked),
        PlanEvent::HookDecided(decided) => decide_hook(state, decided),
        PlanEvent::Approved(_) => state.waiting = Waiting::Nothing,
        PlanEvent::PhaseStarted(_) => state.phases[state.phase].begun = true,
        PlanEvent::PhaseCompleted(_) | PlanEvent::PhaseFailed(_) | PlanEvent::PhaseSkipped(_) => state.phase += 1,
        PlanEvent::ReplanTriggered(trigger) => {
            replan(state, trigger);
            state.revising.replan_seq = record.seq;
        }
        PlanEvent::Resumed(_) => {
            state.has_gone_on |= state.status == PlanStatus::Paused;
            // The failure of that step is handled; other deferred failures follow.
            if let Some(step) = state.waiting.take_replan().and_then(|replan| replan.step) {
                let steps = &state.plan.steps;
                state.revising.deferred_failures.retain(|i| steps[*i].id != step);
            }
            state.revising.end_replan();
        }
        PlanEvent::Rejected(why) => {
            end(state, record.time_ms, PlanStatus::Rejected, None, &why.reason);
        }
        PlanEvent::Completed(ended) | PlanEvent::Failed(ended) | PlanEvent::Cancelled(ended) => {
            end(state, record.time_ms, ended.status, ended.failure.as_ref(), &ended.reason);
        }
        PlanEvent::RevisionProposed(proposed) => {
            let replan = state.waiting.take_replan().unwrap_or_default();
            state.waiting = Waiting::RevisionApproval { replan, proposed: proposed.clone() };
        }
        PlanEvent::RevisionRefused(refused) => refuse(state, refused),
        PlanEvent::QuestionAsked(asked) => {
            let replan = state.waiting.take_replan().unwrap_or_default();
            state.waiting = Waiting::Answer { replan, asked: asked.clone() };
            state.revising.questions += 1;
            state.usage.add(asked.usage.cost, asked.usage.tokens);
        }
        PlanEvent::QuestionAnswered(answered) => answer(state, answered),
        PlanEvent::Revised(revised) => {
            revise::revise(state, record, revised)?;
            if let Some(judging) = &mut state.judging {
                judging.restart();
            }
            if matches!(state.waiting, Waiting::Judgement { .. }) {
                state.waiting = Waiting::Nothing;
            }
        }
        PlanEvent::PlanValidated(validated) => state.origin.keep_note(&validated.warnings),
        PlanEvent::Extended(extended) => revise::extend(state, record, extended)?,
        PlanEvent::ModelAnswered(answered) => {
            state.usage.add(answered.usage.cost, answered.usage.tokens);
        }
        PlanEvent::FamilyGrew(grew) => state.family_steps = state.family_steps.saturating_add(grew.steps),
        PlanEvent::EventReceived(event) => state.events.get_or_insert_default().push(event),
        PlanEvent::ConstraintChanged(changed) => {
            if let Some(monitor) = &mut state.monitor {
                monitor.change(changed);
            }
        }
        PlanEvent::JudgementRequested(requested) => {
            let JudgementRequested { judge, criteria, due_ms } = (**requested).clone();
            let judging = state.judging.get_or_insert_default();
            judging.model_asked |= judge == JudgeKind::Model;
            judging.person_asked |= judge == JudgeKind::Person;
            state.waiting = Waiting::Judgement { judge, criteria, due_ms };
        }
        PlanEvent::CriteriaJudged(judged) => judge(state, judged),
        PlanEvent::CleanupStarted(started) => {
            stop(state, record.time_ms, true);
            let step = |step| ReplayError::UnknownStep { seq, step };
            state.begin_cleanup(started).map_err(step)?;
        }
        PlanEvent::GoalAccepted(_)
        | PlanEvent::ModelAsked(_)
        | PlanEvent::ToolsCalled(_)
        | PlanEvent::PlanningFailed(_)
        | PlanEvent::PhaseAdded(_)
        | PlanEvent::Quarantined(_)
        | PlanEvent::Paused(_) => {}
    }
    state.calls.fold(event);
    state.status = next;
    Ok(())
}

/// Checks what the status alone does not tell: whether this event may come here.
fn check_plan(state: &PlanState, seq: u64, event: &PlanEvent) -> Result<(), ReplayError> {
    let current = state.plan.phases.get(state.phase);
    let is_current = |name: &str| current.is_some_and(|phase| phase.id == name);
    let phase = state.phases.get(state.phase).copied().unwrap_or_default();
    let fits = match event {
        PlanEvent::PlanCreated(_) => !state.origin.created,
        PlanEvent::PlanValidated(_) => state.origin.created,
        PlanEvent::ApprovalRequested(_) => {
            let begun = state.counts.in_progress + state.counts.failed;
            begun == 0 && state.phase == 0
        }
        PlanEvent::HookAsked(asked) => match asked.point {
            HookPoint::OnPlanGenerated => state.waiting == Waiting::Nothing && state.counts.in_progress == 0,
            HookPoint::OnPlanApproved => matches!(state.waiting, Waiting::Approval { .. }),
            HookPoint::OnStepStart | HookPoint::OnStepComplete | HookPoint::OnRevisionNeeded => false,
        },
        PlanEvent::HookDecided(decided) => match decided.point {
            HookPoint::OnRevisionNeeded => true,
            HookPoint::OnPlanGenerated
            | HookPoint::OnPlanApproved
            | HookPoint::OnStepStart
            | HookPoint::OnStepComplete => state.waiting.hook().is_some_and(|asked| asked.id == decided.id),
        },
        PlanEvent::JudgementRequested(_) => state.is_done() && state.waiting == Waiting::Nothing,
        PlanEvent::QuestionAnswered(answered) => state.waiting.asked().is_some_and(|asked| asked.id == answered.id),
        PlanEvent::CleanupStarted(_) => state.cleanup.is_none(),
        PlanEvent::PhaseStarted(named) => is_current(&named.phase) && !phase.begun,
        PlanEvent::PhaseCompleted(named) | PlanEvent::PhaseFailed(named) => {
            is_current(&named.phase) && phase.begun && phase.open == 0
        }
        PlanEvent::PhaseSkipped(named) => is_current(&named.phase) && phase.open == 0,
        PlanEvent::Completed(_) => state.is_done() && !state.is_open(),
        PlanEvent::EventReceived(event) => state.events.as_ref().is_none_or(|events| !events.has(&event.id)),
        PlanEvent::GoalAccepted(_)
        | PlanEvent::ModelAsked(_)
        | PlanEvent::ModelAnswered(_)
        | PlanEvent::ToolsCalled(_)
        | PlanEvent::GoalChanged(_)
        | PlanEvent::PlanningFailed(_)
        | PlanEvent::Approved(_)
        | PlanEvent::Rejected(_)
        | PlanEvent::PhaseAdded(_)
        | PlanEvent::ReplanTriggered(_)
        | PlanEvent::RevisionProposed(_)
        | PlanEvent::RevisionRefused(_)
        | PlanEvent::QuestionAsked(_)
        | PlanEvent::Revised(_)
        | PlanEvent::Extended(_)
        | PlanEvent::FamilyGrew(_)
        | PlanEvent::ConstraintChanged(_)
        | PlanEvent::CriteriaJudged(_)
        | PlanEvent::Quarantined(_)
        | PlanEvent::Paused(_)
        | PlanEvent::Resumed(_)
        | PlanEvent::Failed(_)
        | PlanEvent::Cancelled(_) => true,
    };
    if fits { Ok(()) } else { Err(ReplayError::TooEarly { seq, event: event.type_name() }) }
}

fn decide_hook(state: &mut PlanState, decided: &HookDecided) {
    match decided.point {
        HookPoint::OnPlanGenerated => state.waiting = Waiting::Nothing,
        HookPoint::OnPlanApproved => {
            if let Waiting::Approval { hook, .. } = &mut state.waiting {
                *hook = None;
            }
        }
        HookPoint::OnRevisionNeeded => state.revising.hook = Some(Box::new(decided.clone())),
        HookPoint::OnStepStart | HookPoint::OnStepComplete => {}
    }
}

/// Takes verdicts. A model answers for all criteria at once, a person for one after the other.
fn judge(state: &mut PlanState, judged: &CriteriaJudged) {
    state.usage.add(judged.usage.cost, judged.usage.tokens);
    state.judging.get_or_insert_default().fold(judged);
    if let Waiting::Judgement { judge, criteria, .. } = &mut state.waiting {
        criteria.retain(|id| judged.verdicts.iter().all(|verdict| verdict.criterion != *id));
        if *judge == JudgeKind::Model || criteria.is_empty() || judged.verdicts.is_empty() {
            state.waiting = Waiting::Nothing;
        }
    }
}

fn replan(state: &mut PlanState, trigger: &ReplanTriggered) {
    if trigger.trigger == Trigger::CriterionUnmet.as_str() {
        state.judging.get_or_insert_default().revision_asked = true;
    }
    state.waiting = Waiting::for_replan(Box::new(trigger.clone()));
    state.revising.end_replan();
    state.revising.failures_seen = state.counts.failed;
    state.revising.budget_seen |= trigger.trigger == Trigger::BudgetLow.as_str();
}

fn refuse(state: &mut PlanState, refused: &RevisionRefused) {
    let due_ms = at(refused.due_ms).or(state.waiting.due_ms()).unwrap_or_default();
    let replan = state.waiting.take_replan().unwrap_or_default();
    state.waiting = Waiting::for_replan(Box::new(ReplanTriggered { due_ms, ..*replan }));
    state.usage.add(refused.usage.cost, refused.usage.tokens);
    let RevisionRefused { strategy, reason, issues, .. } = refused.clone();
    state.revising.refused.push(Refusal { strategy, reason, issues });
}

fn answer(state: &mut PlanState, answered: &QuestionAnswered) {
    let question = state.waiting.asked().map(|asked| asked.question.question.clone()).unwrap_or_default();
    let replan = state.waiting.take_replan().unwrap_or_default();
    state.waiting = Waiting::for_replan(Box::new(ReplanTriggered { due_ms: answered.due_ms, ..*replan }));
    let (answer, by_default) = (answered.answer.clone(), answered.by_default);
    state.revising.answers.push(Answered { question, answer, by_default });
}

/// Gives the goal other fields. Nothing runs yet, so nothing was measured against the former ones.
fn change_goal(state: &mut PlanState, changed: &GoalChanged) {
    let accepted = state.accepted.as_mut();
    changed.set(&mut accepted.goal);
    accepted.deadline_ms = changed.due_ms;
    state.monitor = ConstraintMonitor::new(&accepted.goal, accepted.parent.is_some());
    state.goal_read.clone_from(&changed.read);
}

fn create(state: &mut PlanState, record: &Record, created: &PlanCreated) -> Result<(), ReplayError> {
    let seq = record.seq;
    let plan = Arc::clone(&created.plan);
    state.size = count_steps(&plan);
    let graph = PlanGraph::new(&plan).map_err(|reason| ReplayError::BadPlan { seq, reason })?;
    state.steps = (0..plan.steps.len()).map(|i| StepState::new(graph.waits(StepIndex::new(i)))).collect();
    state.counts.total = to_u32(plan.steps.len());
    state.counts.pending = state.counts.total;
    let phase = |members: &Vec<StepIndex>| PhaseState { open: to_u32(members.len()), ..PhaseState::default() };
    state.phases = graph.members().iter().map(phase).collect();
    state.resources_held = vec![0; graph.resources()];
    state.origin = Origin {
        created: true,
        planner: created.planner.clone(),
        confidence: created.confidence,
        open_until_ms: if created.open { record.time_ms.saturating_add(PLANNER_MS) } else { 0 },
        fork: created.fork.clone(),
        note: None,
        implied: implied_criteria(state, created),
    };
    state.graph = graph;
    state.plan = plan;
    state.waiting = Waiting::Nothing;
    for (id, outputs) in created.fork.iter().flat_map(|fork| &fork.kept) {
        let step = || ReplayError::UnknownStep { seq, step: id.clone() };
        let i = state.graph.find(id.as_str()).ok_or_else(step)?;
        let step = &mut state.steps[i];
        step.outputs = Some(outputs.clone());
        state.outputs_bytes = state.outputs_bytes.saturating_add(outputs.text().len());
        finish(step, record.time_ms);
        transition(state, i, StepStatus::Pending, StepStatus::Completed, true);
    }
    Ok(())
}

/// Ends the plan and cancels its open steps; the event lists them.
fn end(state: &mut PlanState, time_ms: u64, status: PlanStatus, failure: Option<&Failure>, reason: &str) {
    stop(state, time_ms, false);
    state.cleanup = None;
    state.undoing.clear();
    state.finished_ms = time_ms;
    // The status of each step tells what the end cancelled.
    let (failure, reason, cancelled) = (failure.cloned(), reason.to_owned(), Vec::new());
    state.ended = Some(Box::new(PlanEnded { status, failure, reason, cancelled }));
}

/// Cancels the open steps and whatever the plan waits for.
///
/// - `keeps_cleanup`: whether the steps of the clean-up stay.
fn stop(state: &mut PlanState, time_ms: u64, keeps_cleanup: bool) {
    for (spec, step) in state.plan.steps.iter().zip(&mut state.steps) {
        if step.status.is_final() || keeps_cleanup && spec.is_cleanup() {
            continue;
        }
        state.counts.shift(step.status, StepStatus::Cancelled);
        step.status = StepStatus::Cancelled;
        step.clear_reason();
        finish(step, time_ms);
    }
    state.in_flight = 0;
    state.reserved = ReservedEstimates::default();
    state.granted = GrantedBudgets::default();
    state.waits_for_budget.clear();
    state.resources_held.fill(0);
    clear_tracked(state);
    state.waiting = Waiting::Nothing;
    state.origin.open_until_ms = 0;
    state.revising.end_replan();
}

fn apply_step(
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
    step.attempt = attempt;
    if next != old {
        step.clear_reason();
    }
    fold_step(step, record.time_ms, event);
    step.fold_calls(event);
    if let StepEvent::Completed(completed) = event {
        state.outputs_bytes = state.outputs_bytes.saturating_add(completed.outputs.text().len());
        if let (Some(id), Some(events)) = (&completed.event, &mut state.events) {
            events.take(id);
        }
    } else if let StepEvent::Iterated(iterated) = event {
        state.outputs_bytes = state.outputs_bytes.saturating_add(iterated.outputs.text().len());
    }
    if let StepEvent::Queued(queued) = event
        && let Some(inputs) = &queued.inputs
    {
        let by_reference = to_usize(queued.inputs_bytes);
        let bytes = inputs.text().len().saturating_add(by_reference);
        state.recorded_bytes = state.recorded_bytes.saturating_add(bytes);
    }
    if state.begun_ms == 0 && event.executes() {
        state.begun_ms = record.time_ms;
    }
    fold_consequences(state, i, event);
    let usage = event.usage();
    state.usage.add(usage.cost, usage.tokens);
    adjust_width(state, i, old, record.time_ms, event);
    transition(state, i, old, next, event.satisfies_dependents());
    state.fold_grant(i, event);
    fold_budget_wait(state, i, event);
    Ok(())
}

/// Notes which steps wait for the budget, until their next attempt begins.
fn fold_budget_wait(state: &mut PlanState, i: StepIndex, event: &StepEvent) {
    if let StepEvent::Suspended(suspended) = event {
        if suspended.call.wait.kind == CallWaitKind::Budget {
            state.waits_for_budget.insert(i);
        }
    } else if !matches!(event, StepEvent::Ready) && !state.waits_for_budget.is_empty() {
        state.waits_for_budget.remove(&i);
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
    } else if let StepEvent::Suspended(suspended) = event {
        state.size = state.size.saturating_add(suspended.plan.as_deref().map_or(0, |plan| 1 + count_steps(plan)));
    } else if let StepEvent::Decomposed(decomposed) = event {
        let plan = decomposed.plan.as_deref().cloned();
        state.size = state.size.saturating_add(1 + plan.as_ref().map_or(0, count_steps));
        into_plan(&mut Arc::make_mut(&mut state.plan).steps[i], plan);
    } else if let StepEvent::Expanded(expanded) = event {
        let step = &mut Arc::make_mut(&mut state.plan).steps[i];
        let before = count_step(step);
        into_items(step, &expanded.plan);
        state.size = state.size.saturating_add(count_step(step)).saturating_sub(before);
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
    let step = state.plan.steps[i].id.clone();
    Err(ReplayError::Attempt { seq, event: event.type_name(), step, expected, found })
}

/// Checks that a step starts only in a running plan, in a phase that has begun, and when its join is satisfied.
fn check_start(state: &PlanState, seq: u64, i: StepIndex, event: &StepEvent) -> Result<(), ReplayError> {
    let waits = state.steps[i].status == StepStatus::Pending;
    let fits = match event {
        StepEvent::Ready => !waits || (state.join_state(i) == JoinState::Met && state.is_phase_open(i)),
        StepEvent::HookAsked(asked) if asked.point == HookPoint::OnStepComplete => true,
        StepEvent::HookDecided(decided) => {
            let at = state.steps[i].hook();
            at.and_then(StepHook::asked).is_some_and(|asked| asked.id == decided.id)
        }
        StepEvent::ApprovalRequested(_) | StepEvent::QuestionAsked(_) | StepEvent::HookAsked(_) => {
            state.join_state(i) == JoinState::Met && state.is_phase_open(i)
        }
        StepEvent::Blocked(_) => state.join_state(i) == JoinState::Impossible,
        StepEvent::Expanded(_) => state.plan.steps[i].for_each.is_some(),
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
    };
    let active = matches!(state.status, PlanStatus::Running | PlanStatus::Replanning | PlanStatus::Paused);
    // A person may reject the plan, or skip steps of it, before it runs.
    let is_before = event.abandons_attempt() && state.status == PlanStatus::AwaitingApproval;
    if fits && (active || is_before) { Ok(()) } else { Err(ReplayError::TooEarly { seq, event: event.type_name() }) }
}

fn fold_step(step: &mut StepState, time_ms: u64, event: &StepEvent) {
    match event {
        StepEvent::Added(_)
        | StepEvent::Modified(_)
        | StepEvent::Removed(_)
        | StepEvent::Expanded(_)
        | StepEvent::Measured(_)
        | StepEvent::CallRecorded(_)
        | StepEvent::CallsDiscarded(_) => {}
        StepEvent::QuestionAsked(asked) => {
            step.due_ms = asked.due_ms;
            step.details().question = Some(asked.question.clone());
        }
        StepEvent::Answered(answered) => {
            step.due_ms = 0;
            let details = step.details();
            (details.question, details.answer) = (None, Some(answered.answer.clone()));
        }
        StepEvent::HookAsked(asked) => {
            step.due_ms = 0;
            step.details().hook = Some(StepHook::Asked(asked.clone()));
        }
        StepEvent::HookDecided(decided) => fold_hook(step, decided),
        StepEvent::Recalled(_) => {
            step.due_ms = 0;
            step.clear_hook();
        }
        StepEvent::Decomposed(_) => {
            (step.due_ms, step.failures, step.lost, step.fallback) = (0, 0, 0, false);
            step.details().told_to_wait = None;
        }
        StepEvent::Approved(_) => {
            step.due_ms = 0;
            if let Some(details) = &mut step.details
                && details.hook.is_some()
            {
                details.hook = Some(StepHook::Passed);
            }
        }
        StepEvent::Ready | StepEvent::Released(_) => step.due_ms = 0,
        StepEvent::Suspended(suspended) => step.fold_suspended(suspended),
        StepEvent::CallbackReceived(received) => {
            step.details().callback = Some(Box::new((step.attempt, received.digest.clone())));
        }
        StepEvent::Resumed(_) => {
            step.due_ms = 0;
            let details = step.details();
            (details.suspended, details.call_plan) = (None, None);
        }
        StepEvent::WaitStarted(started) => {
            step.due_ms = started.due_ms;
            if !started.event.is_empty() {
                step.details().awaited_event = Some(Box::new((started.event.clone(), started.key.clone())));
            }
        }
        StepEvent::Blocked(why) => step.details().reason.clone_from(&why.reason),
        StepEvent::ApprovalRequested(request) => step.due_ms = request.due_ms,
        StepEvent::Queued(queued) => queue(step, time_ms, queued),
        StepEvent::Started(started) => {
            step.worker.clone_from(&started.worker);
            step.started_ms = started.started_ms;
            step.due_ms = started.due_ms;
        }
        StepEvent::Progress(progress) => {
            let details = step.details();
            details.progress = progress.progress.or(details.progress);
            details.message = progress.message.clone().or(details.message.take());
        }
        StepEvent::Completed(completed) => complete(step, time_ms, completed),
        StepEvent::Iterated(iterated) => {
            (step.due_ms, step.failures, step.lost, step.fallback) = (iterated.due_ms, 0, 0, false);
            step.clear_hook();
            let details = step.details();
            (details.told_to_wait, details.failure) = (None, None);
            details.iterated = Some((iterated.iteration, iterated.outputs.clone()));
        }
        StepEvent::Retrying(retrying) => retry(step, time_ms, retrying),
        StepEvent::Failed(failed) => {
            step.details().failure = Some(failed.failure.clone());
            finish(step, time_ms);
        }
        StepEvent::Skipped(skipped) => {
            let details = step.details();
            details.cause = Some(skipped.cause);
            details.reason.clone_from(&skipped.reason);
            details.failure = skipped.failure.clone().or(details.failure.take());
            finish(step, time_ms);
        }
        StepEvent::Cancelled(why) => {
            step.details().reason.clone_from(&why.reason);
            finish(step, time_ms);
        }
    }
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
        details.suspended = None;
    }
}

fn complete(step: &mut StepState, time_ms: u64, completed: &StepCompleted) {
    step.outputs = Some(completed.outputs.clone());
    if completed.adjustments.is_some() {
        step.details().adjustments.clone_from(&completed.adjustments);
    }
    step.partial = completed.partial;
    if !completed.errors.is_empty() || !completed.suggested_adjustments.is_empty() {
        let details = step.details();
        details.errors.clone_from(&completed.errors);
        details.suggested.clone_from(&completed.suggested_adjustments);
    }
    finish(step, completed.finished_ms.unwrap_or(time_ms));
}

/// Folds the decision about a step: it is held, or goes on.
fn fold_hook(step: &mut StepState, decided: &HookDecided) {
    let is_start = decided.point == HookPoint::OnStepStart;
    step.due_ms = decided.due_ms;
    let details = step.details();
    if is_start {
        details.hook_inputs.clone_from(&decided.inputs);
    } else if decided.decision == HookDecision::Refuse {
        let completed = details.hook.as_ref().and_then(StepHook::asked).and_then(|asked| asked.completed.as_deref());
        details.refused_cache |= completed.is_some_and(|completed| completed.cache_key.is_some());
    }
    details.hook = match decided.decision {
        HookDecision::Hold if is_start => Some(StepHook::Held),
        HookDecision::Allow
        | HookDecision::Refuse
        | HookDecision::Change
        | HookDecision::Approve
        | HookDecision::Hold
        | HookDecision::Choose => is_start.then_some(StepHook::Passed),
    };
    if decided.decision == HookDecision::Hold {
        step.details().reason.clone_from(&decided.reason);
    }
}

fn finish(step: &mut StepState, time_ms: u64) {
    step.due_ms = 0;
    step.finished_ms = time_ms;
}

fn retry(step: &mut StepState, time_ms: u64, retrying: &StepRetrying) {
    step.due_ms = retrying.due_ms;
    let before = step.told_to_wait().unwrap_or(ToldToWait { since_ms: time_ms, times: 0 });
    let times = before.times.saturating_add(1);
    step.details().told_to_wait = retrying.told_to_wait.then_some(ToldToWait { times, ..before });
    if retrying.told_to_wait {
        // It uses no retry.
    } else if retrying.failure.class == FailureClass::Lost {
        step.lost += u32::from(retrying.failure.code != TASK_MISSING);
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
        state.adaptive_width.record_success(waited_ms, ran_ms);
    } else if event.failure().is_some() {
        state.adaptive_width.record_failure();
    }
}

/// Returns how long an attempt waited and ran, in milliseconds. The run is measured by the worker's clock only, the
/// whole by the owner's clock only, so clock skew does not matter.
fn durations(step: &StepState, time_ms: u64, completed: &StepCompleted) -> (u64, u64) {
    let whole = time_ms.saturating_sub(step.queued_ms);
    let ran = completed.finished_ms.unwrap_or(time_ms).saturating_sub(step.started_ms).min(whole);
    (whole - ran, ran)
}

/// Changes a step's status and every counter that depends on it.
fn transition(state: &mut PlanState, i: StepIndex, old: StepStatus, new: StepStatus, satisfied: bool) {
    state.steps[i].status = new;
    state.counts.shift(old, new);
    if old.is_in_flight() != new.is_in_flight() {
        count_in_flight(state, i, new.is_in_flight());
    }
    if old == StepStatus::Ready || new == StepStatus::Ready {
        track_engine_step(state, i, new == StepStatus::Ready);
    }
    if state.plan.strategy == Strategy::Sequential {
        track_listed(state, i, new);
    }
    if new.is_final() && !old.is_final() {
        state.undoing.retain(|undo| *undo != i);
        release_dependents(state, i, new, satisfied);
    }
}

/// Forgets which steps the engine runs itself, and which have their turn.
pub(crate) fn clear_tracked(state: &mut PlanState) {
    state.ready_inline.clear();
    state.ready_waits.clear();
    state.ready_sub_plans.clear();
    state.listed.clear();
}

/// Tracks the ready steps that the engine runs itself.
pub(crate) fn track_engine_step(state: &mut PlanState, i: StepIndex, ready: bool) {
    let set = if state.plan.steps[i].starts_plan() {
        &mut state.ready_sub_plans
    } else if state.plan.steps[i].kind == StepKind::Wait {
        &mut state.ready_waits
    } else if state.runs_inline(i) {
        &mut state.ready_inline
    } else {
        return;
    };
    if ready {
        set.insert(i);
    } else {
        set.remove(&i);
    }
}

/// Tracks the steps among which the first one of the list has its turn.
pub(crate) fn track_listed(state: &mut PlanState, i: StepIndex, status: StepStatus) {
    if status.is_unlocked() {
        state.listed.insert(i);
    } else {
        state.listed.remove(&i);
    }
}

fn count_in_flight(state: &mut PlanState, i: StepIndex, begins: bool) {
    let held = state.graph.resource(i).map(|resource| &mut state.resources_held[resource]);
    state.reserved.count(&state.plan.steps[i], begins);
    for count in held.into_iter().chain([&mut state.in_flight]) {
        *count = if begins { *count + 1 } else { count.saturating_sub(1) };
    }
}

fn release_dependents(state: &mut PlanState, i: StepIndex, status: StepStatus, satisfied: bool) {
    let id = &state.plan.steps[i].id;
    for &dependent in state.graph.dependents(i) {
        let step = &mut state.steps[dependent];
        step.open = step.open.saturating_sub(1);
        step.met += u32::from(state.plan.steps[dependent].is_met_by(id, status, satisfied));
    }
    if let Some(phase) = state.graph.phase(i) {
        let phase = &mut state.phases[phase];
        phase.open -= 1;
        phase.completed += u32::from(status == StepStatus::Completed);
        phase.failed += u32::from(status == StepStatus::Failed);
    }
}
