//! Folds the events of a plan.

use std::sync::Arc;

use goalmill_common::config::HookPoint;
use goalmill_common::criterion::JudgeKind;
use goalmill_common::event::{
    CleanupStarted, CriteriaJudged, GoalChanged, HookDecided, JudgementRequested, PlanCreated, PlanEnded, PlanEvent,
    QuestionAnswered, QuestionAsked, Record, ReplanTriggered, RevisionProposed, RevisionRefused,
};
use goalmill_common::failure::Failure;
use goalmill_common::number::to_u32;
use goalmill_common::replan_situation::{Answered, Refusal};
use goalmill_common::revision::Trigger;
use goalmill_common::status::{PlanStatus, StepStatus};

use super::counts::{recount_steps, transition};
use crate::attempt::step_result::StepResult;
use crate::budget::plan_size::PlanSize;
use crate::cleanup::cleanup_state::CleanupState;
use crate::cleanup::done_work;
use crate::constraints::constraint_monitor::ConstraintMonitor;
use crate::criteria::implied_criteria::implied_criteria;
use crate::due_time::at;
use crate::graph::phases::Phases;
use crate::graph::running_plan::RunningPlan;
use crate::graph::{PlanGraph, StepIndex};
use crate::people::waiting::{PLANNER_MS, Reviser, Waiting};
use crate::revise::{fold, revising};
use crate::state::{PlanOrigin, PlanState, StepState};
use crate::sub_plan::inner_plans::InnerPlans;
use crate::sub_plan::kept_plans;
use crate::transitions::plan_transition;
use crate::wait::family_events;
use crate::{ReplayError, apply, cleanup};

pub(super) fn apply_plan(state: &mut PlanState, record: &Record, event: &PlanEvent) -> Result<(), ReplayError> {
    let seq = record.seq;
    let impossible = ReplayError::PlanMove { seq, event: event.type_name(), status: state.status };
    let next = plan_transition(state.status, event).ok_or(impossible)?;
    check_plan(state, seq, event)?;
    if !fold::restage(state, event) {
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
        PlanEvent::PhaseStarted(_) => state.phases.begin(),
        PlanEvent::PhaseCompleted(_) | PlanEvent::PhaseFailed(_) | PlanEvent::PhaseSkipped(_) => state.phases.end(),
        PlanEvent::ReplanTriggered(trigger) => replan(state, seq, trigger),
        PlanEvent::Resumed(_) => resume(state),
        PlanEvent::Rejected(why) => end(state, record.time_ms, PlanStatus::Rejected, None, &why.reason),
        PlanEvent::Completed(ended) | PlanEvent::Failed(ended) | PlanEvent::Cancelled(ended) => {
            end(state, record.time_ms, ended.status, ended.failure.as_ref(), &ended.reason);
        }
        PlanEvent::RevisionProposed(proposed) => propose(state, proposed),
        PlanEvent::RevisionRefused(refused) => refuse(state, refused),
        PlanEvent::QuestionAsked(asked) => ask(state, asked),
        PlanEvent::QuestionAnswered(answered) => answer(state, answered),
        PlanEvent::Revised(revised) => fold::fold_revision(state, record, revised)?,
        PlanEvent::PlanValidated(validated) => state.origin.keep_note(&validated.warnings),
        PlanEvent::Extended(extended) => fold::extend(state, record, extended)?,
        PlanEvent::ModelAnswered(answered) => state.usage.add(answered.usage.cost, answered.usage.tokens),
        PlanEvent::FamilyGrew(grown) => state.size.grow(grown),
        PlanEvent::EventReceived(event) => state.events.get_or_insert_default().push(event),
        PlanEvent::EventTaken(taken) => state.events.get_or_insert_default().take_inside(&taken.id),
        PlanEvent::ConstraintChanged(changed) => {
            if let Some(monitor) = &mut state.monitor {
                monitor.change(changed);
            }
        }
        PlanEvent::JudgementRequested(requested) => request_judgement(state, requested),
        PlanEvent::CriteriaJudged(judged) => judge(state, judged),
        PlanEvent::CleanupStarted(started) => clean_up(state, record, started)?,
        PlanEvent::Kept(outcome) => keep(state, outcome),
        PlanEvent::InnerPlanKept(kept) => kept_plans::fold_inner(state, kept, InnerPlans::keep),
        PlanEvent::InnerPlanStopped(stopped) => kept_plans::fold_inner(state, stopped, InnerPlans::stop),
        PlanEvent::InnerPlanUndone(undone) => kept_plans::fold_undone(state, record.time_ms, undone),
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
    let current = state.plan.definition().phases.get(state.phases.current());
    let is_current = |name: &str| current.is_some_and(|phase| phase.id == name);
    let phase = state.phases.current_state().unwrap_or_default();
    let fits = match event {
        PlanEvent::PlanCreated(_) => !state.origin.created,
        PlanEvent::PlanValidated(_) => state.origin.created,
        PlanEvent::ApprovalRequested(_) => {
            state.counts.in_progress + state.counts.failed == 0 && state.phases.current() == 0
        }
        PlanEvent::HookAsked(asked) => match asked.point {
            HookPoint::OnPlanGenerated => state.waiting == Waiting::Nothing && state.counts.in_progress == 0,
            HookPoint::OnPlanApproved => matches!(state.waiting, Waiting::Approval { .. }),
            HookPoint::OnStepStart | HookPoint::OnStepComplete | HookPoint::OnRevisionNeeded => false,
        },
        PlanEvent::HookDecided(decided) => {
            let is_asked = || state.waiting.hook().is_some_and(|asked| asked.id == decided.id);
            decided.point == HookPoint::OnRevisionNeeded || is_asked()
        }
        PlanEvent::JudgementRequested(_) => state.is_done() && state.waiting == Waiting::Nothing,
        PlanEvent::QuestionAnswered(answered) => state.waiting.asked().is_some_and(|asked| asked.id == answered.id),
        PlanEvent::CleanupStarted(_) => !state.cleanup.is_running(),
        PlanEvent::Kept(_) => cleanup::may_keep_work(state, PlanStatus::Completed) && !revising::is_plan_open(state),
        PlanEvent::PhaseStarted(named) => is_current(&named.phase) && !phase.begun,
        PlanEvent::PhaseCompleted(named) | PlanEvent::PhaseFailed(named) => {
            is_current(&named.phase) && phase.begun && phase.open == 0
        }
        PlanEvent::PhaseSkipped(named) => is_current(&named.phase) && phase.open == 0,
        PlanEvent::Completed(_) => state.is_done() && !revising::is_plan_open(state),
        PlanEvent::EventReceived(event) => !family_events::has_event(state, &event.id),
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
        | PlanEvent::EventTaken(_)
        | PlanEvent::InnerPlanKept(_)
        | PlanEvent::InnerPlanStopped(_)
        | PlanEvent::InnerPlanUndone(_)
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

/// Takes verdicts. A model answers for all criteria together, a person for one after the other.
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

fn resume(state: &mut PlanState) {
    state.was_resumed |= state.status == PlanStatus::Paused;
    // The failure of that step is handled; other deferred failures follow.
    if let Some(step) = state.waiting.take_replan().and_then(|replan| replan.step) {
        let plan = &state.plan;
        state.revising.deferred_failures.retain(|i| plan.step(*i).id != step);
    }
    state.revising.end_replan();
}

fn request_judgement(state: &mut PlanState, requested: &JudgementRequested) {
    let JudgementRequested { judge, criteria, due_ms } = requested.clone();
    let judging = state.judging.get_or_insert_default();
    judging.model_asked |= judge == JudgeKind::Model;
    judging.person_asked |= judge == JudgeKind::Person;
    state.waiting = Waiting::Judgement { judge, criteria, due_ms };
}

fn clean_up(state: &mut PlanState, record: &Record, started: &CleanupStarted) -> Result<(), ReplayError> {
    stop(state, record.time_ms, true);
    done_work::settle_work(state, |_| true);
    cleanup::begin_cleanup(state, record.seq, started)
}

/// The plan waits, done, for the end of the plan around it.
fn keep(state: &mut PlanState, outcome: &PlanEnded) {
    state.outcome.keep(outcome, state.usage);
    state.cleanup.end();
    state.waiting = Waiting::Nothing;
    state.origin.open_until_ms = 0;
    state.revising.end_replan();
}

fn replan(state: &mut PlanState, seq: u64, trigger: &ReplanTriggered) {
    state.revising.replan_seq = seq;
    if trigger.trigger == Trigger::CriterionUnmet.as_str() {
        state.judging.get_or_insert_default().revision_asked = true;
    }
    state.waiting = Waiting::for_replan(Box::new(trigger.clone()));
    state.revising.end_replan();
    state.revising.failures_seen = state.counts.failed;
    state.revising.budget_seen |= trigger.trigger == Trigger::BudgetLow.as_str();
}

fn propose(state: &mut PlanState, proposed: &RevisionProposed) {
    let replan = state.waiting.take_replan().unwrap_or_default();
    state.waiting = Waiting::Replan { replan, by: Reviser::Approval(Box::new(proposed.clone())) };
}

fn refuse(state: &mut PlanState, refused: &RevisionRefused) {
    let due_ms = at(refused.due_ms).or(state.waiting.due_ms()).unwrap_or_default();
    let replan = state.waiting.take_replan().unwrap_or_default();
    state.waiting = Waiting::for_replan(Box::new(ReplanTriggered { due_ms, ..*replan }));
    state.usage.add(refused.usage.cost, refused.usage.tokens);
    let RevisionRefused { strategy, reason, issues, .. } = refused.clone();
    state.revising.refused.push(Refusal { strategy, reason, issues });
}

fn ask(state: &mut PlanState, asked: &QuestionAsked) {
    let replan = state.waiting.take_replan().unwrap_or_default();
    state.waiting = Waiting::Replan { replan, by: Reviser::Answer(Box::new(asked.clone())) };
    state.revising.questions += 1;
    state.usage.add(asked.usage.cost, asked.usage.tokens);
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
    state.size = PlanSize::new(&plan);
    let graph = PlanGraph::new(&plan).map_err(|reason| ReplayError::BadPlan { seq, reason })?;
    state.steps = (0..plan.steps.len()).map(|i| StepState::new(graph.waits(StepIndex::new(i)))).collect();
    state.counts.total = to_u32(plan.steps.len());
    state.counts.pending = state.counts.total;
    state.phases = Phases::new(&graph);
    state.capacity.clear(&graph);
    state.origin = PlanOrigin {
        created: true,
        planner: created.planner.clone(),
        confidence: created.confidence,
        open_until_ms: if created.open { record.time_ms.saturating_add(PLANNER_MS) } else { 0 },
        fork: created.fork.clone(),
        note: None,
        implied: implied_criteria(state, created),
    };
    state.cleanup = CleanupState::new(to_u32(graph.cleanup_steps().len()));
    state.graph = graph;
    state.plan = RunningPlan::new(plan);
    state.waiting = Waiting::Nothing;
    for (id, outputs) in created.fork.iter().flat_map(|fork| &fork.kept) {
        let i = apply::step_of(state, seq, id)?;
        let errors = created.fork.as_ref().and_then(|fork| fork.partial.get(id));
        let result = StepResult::kept(outputs.clone(), errors.map_or(&[], Vec::as_slice));
        state.steps[i].keep(result, errors.is_some(), record.time_ms);
        state.size.add_outputs(outputs);
        transition(state, i, StepStatus::Pending);
    }
    for (id, calls) in created.fork.iter().flat_map(|fork| &fork.calls) {
        let i = apply::step_of(state, seq, id)?;
        state.steps[i].keep_calls(calls.clone());
    }
    Ok(())
}

/// Ends the plan and cancels its open steps; the event lists them.
fn end(state: &mut PlanState, time_ms: u64, status: PlanStatus, failure: Option<&Failure>, reason: &str) {
    stop(state, time_ms, false);
    state.cleanup.end();
    state.finished_ms = time_ms;
    // The status of each step tells what the end cancelled.
    let (failure, reason, cancelled) = (failure.cloned(), reason.to_owned(), Vec::new());
    state.outcome.end(PlanEnded { status, failure, reason, cancelled });
}

/// Cancels the open steps and whatever the plan waits for.
///
/// - `keeps_cleanup`: whether the steps of the clean-up stay, and those whose plans end first.
fn stop(state: &mut PlanState, time_ms: u64, keeps_cleanup: bool) {
    for (i, (spec, step)) in state.plan.steps().zip(&mut state.steps).enumerate() {
        let is_kept = |i| spec.is_cleanup() || state.inner.is_holder(StepIndex::new(i));
        if step.status().is_final() || keeps_cleanup && is_kept(i) {
            continue;
        }
        state.counts.shift(step.status(), StepStatus::Cancelled);
        step.cancel(time_ms);
    }
    state.reservations.clear_grants();
    // The undo step of what a revision removed may be ready or in flight.
    recount_steps(state);
    state.waiting = Waiting::Nothing;
    state.origin.open_until_ms = 0;
    state.revising.end_replan();
}
