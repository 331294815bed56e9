//! Folds revisions into the plan: steps, graph and counters.

use std::collections::BTreeSet;

use goalmill_common::event::{PhaseAdded, PlanEvent, PlanExtended, PlanRevised, Record, StepEvent};
use goalmill_common::id::StepId;
use goalmill_common::number::to_usize;
use goalmill_common::plan::Plan;
use goalmill_common::revision::{Modified, RevisionRecord, RevisionStrategy, Trigger};
use goalmill_common::status::{Counts, StepStatus};

use super::delta::phase_of;
use super::revision_draft::is_other_work;
use crate::apply::recount_steps;
use crate::cleanup::done_work;
use crate::graph::open_dependencies::OpenDependencies;
use crate::graph::running_plan::RunningPlan;
use crate::graph::{PlanGraph, StepIndex, dependencies};
use crate::people::waiting::{PLANNER_MS, Waiting};
use crate::revise::delta::Delta;
use crate::revise::revising;
use crate::state::{PlanState, StepState};
use crate::transitions::is_changeable;
use crate::{ReplayError, apply, cleanup};

/// Stages a change of one step for the `plan_revised` or `plan_extended` that follows. Returns whether `event` is such
/// a change.
pub(crate) fn stage(state: &mut PlanState, seq: u64, id: &StepId, event: &StepEvent) -> Result<bool, ReplayError> {
    let known = |state: &PlanState| {
        let i = apply::step_of(state, seq, id)?;
        let status = state.steps[i].status();
        let is_undone = || matches!(event, StepEvent::Removed(_)) && cleanup::undo_of(state, i).is_some();
        let fits = is_changeable(status) || status == StepStatus::Completed && is_undone();
        let bad = || ReplayError::StepMove { seq, event: event.type_name(), step: id.clone(), status };
        if fits { Ok(i) } else { Err(bad()) }
    };
    let unfit = |reason: &str| ReplayError::BadPlan { seq, reason: format!("step `{id}` {reason}") };
    if let StepEvent::Added(added) = event {
        let before = state.revising.staged.as_deref().map_or(&[][..], |staged| &staged.added);
        let is_known = state.graph.find(id.as_str()).is_some() || before.iter().any(|step| step.id == *id);
        if is_known || added.step.id != *id {
            return Err(unfit("is added, and was there before"));
        }
        state.revising.staged.get_or_insert_default().added.push(added.step.clone());
    } else if let StepEvent::Modified(modified) = event {
        let i = known(state)?;
        if modified.step.id != *id {
            return Err(unfit("cannot get another id"));
        }
        state.revising.staged.get_or_insert_default().modified.insert(i, modified.step.clone());
    } else if let StepEvent::Removed(_) = event {
        let i = known(state)?;
        state.revising.staged.get_or_insert_default().removed.insert(i);
    }
    Ok(event.is_change())
}

/// Whether an event of the plan may follow staged changes; an added phase is staged too.
pub(crate) fn restage(state: &mut PlanState, event: &PlanEvent) -> bool {
    if let PlanEvent::PhaseAdded(phase) = event {
        state.revising.staged.get_or_insert_default().phases.push(phase.as_ref().clone());
    }
    event.takes_changes() || state.revising.staged.is_none()
}

/// Applies the staged changes. On an error the state is as before.
pub(crate) fn fold_revision(state: &mut PlanState, record: &Record, revised: &PlanRevised) -> Result<(), ReplayError> {
    let seq = record.seq;
    if revised.revision != state.revision + 1 {
        let reason = format!("revision {} follows revision {}", revised.revision, state.revision);
        return Err(ReplayError::BadPlan { seq, reason });
    }
    let staged = state.revising.staged.as_deref().cloned().unwrap_or_default();
    let restarted = touched(state, seq, &revised.restarted)?;
    let skipped = touched(state, seq, &revised.skipped)?;
    let skipped = skipped.into_iter().map(|i| (i, String::new())).collect();
    let delta = Delta { skipped, restarted, ..staged };
    let (plan, graph) = merged(state, seq, &delta)?;
    state.revising.staged = None;
    state.revising.records.push(history(state, record, revised, &delta));
    if !is_decided_by_person(state, record, revised) {
        let removed = delta.removed.iter().filter(|_| delta.added.is_empty());
        state.revising.left_out.extend(delta.skipped.keys().chain(removed));
    }
    change_steps(state, &delta, record.time_ms);
    replace_plan(state, plan, graph, &delta.phases);
    state.revision = revised.revision;
    state.origin.confidence = revised.confidence_after;
    state.usage.add(revised.usage.cost, revised.usage.tokens);
    settle_replan(state, revised);
    Ok(())
}

/// Gives the steps the statuses that the revision gives them. The plan is still the former one.
fn change_steps(state: &mut PlanState, delta: &Delta, time_ms: u64) {
    state.steps.extend(delta.added.iter().map(|_| StepState::default()));
    state.steps.iter_mut().for_each(StepState::unblock);
    for (i, after) in &delta.modified {
        let before = state.plan.defined(*i);
        let is_other_work = state.steps[*i].attempt() > 0 && is_other_work(before, after);
        if is_other_work {
            let inputs = before.inputs.clone();
            state.done.keep_inputs(*i, &inputs);
        }
        state.steps[*i].change(is_other_work);
    }
    for i in &delta.restarted {
        state.steps[*i].restart();
        state.done.withdraw(*i);
        // The step that it undoes is gone already.
        if cleanup::undoes_removed(state, *i) && !state.cleanup.undoing().contains(i) {
            state.cleanup.undo(vec![*i]);
        }
    }
    for i in delta.skipped.keys() {
        state.steps[*i].pass_over(time_ms);
    }
    let undoing = cleanup::undos_of(state, &delta.removed);
    done_work::settle_work(state, |i| delta.removed.contains(&i));
    state.cleanup.undo(undoing);
    for i in &delta.removed {
        state.steps[*i].remove(time_ms);
    }
    let steps = &state.steps;
    state.cleanup.retain_undos(|undo| !steps[undo].status().is_final());
}

/// Ends the replan that brought the revision. Failures that it did not handle stay deferred.
fn settle_replan(state: &mut PlanState, revised: &PlanRevised) {
    let (steps, revising) = (&state.steps, &mut state.revising);
    revising.estimates_agreed |= !revised.approved_because.is_empty();
    revising.by_planners += u32::from(revised.strategy != Some(RevisionStrategy::Edit));
    if let Some(step) = state.waiting.replan().and_then(|replan| replan.step.as_ref()) {
        revising.deferred_failures.retain(|i| state.plan.step(*i).id != *step);
    }
    revising.deferred_failures.retain(|i| steps[*i].status() == StepStatus::Failed);
    revising.end_replan();
    if let Some(judging) = &mut state.judging {
        judging.restart();
    }
    if matches!(state.waiting, Waiting::Replan { .. } | Waiting::Judgement { .. }) {
        state.waiting = Waiting::Nothing;
    }
}

/// - `phases`: those that are new.
fn replace_plan(state: &mut PlanState, plan: RunningPlan, graph: PlanGraph, phases: &[PhaseAdded]) {
    // What a revision takes out was there.
    let before = state.plan.count_steps();
    state.size.replace(before, plan.count_steps().max(before));
    (state.plan, state.graph) = (plan, graph);
    done_work::follow_work(state);
    recount(state, phases);
}

/// Adds staged steps to a streamed plan, or closes it.
pub(crate) fn extend(state: &mut PlanState, record: &Record, extended: &PlanExtended) -> Result<(), ReplayError> {
    let staged = state.revising.staged.as_deref().cloned().unwrap_or_default();
    if !revising::is_plan_open(state) || !staged.modified.is_empty() || !staged.removed.is_empty() {
        return Err(ReplayError::TooEarly { seq: record.seq, event: "plan_extended" });
    }
    if !staged.added.is_empty() {
        let (plan, graph) = merged(state, record.seq, &staged)?;
        state.steps.extend(staged.added.iter().map(|_| StepState::default()));
        replace_plan(state, plan, graph, &staged.phases);
    }
    state.revising.staged = None;
    state.origin.open_until_ms = if extended.open { record.time_ms.saturating_add(PLANNER_MS) } else { 0 };
    state.origin.keep_note(&extended.warnings);
    if let Some(confidence) = extended.confidence {
        state.origin.confidence = confidence;
    }
    Ok(())
}

/// Finds steps that a revision restarts or skips: neither completed nor in flight.
fn touched(state: &PlanState, seq: u64, ids: &[StepId]) -> Result<BTreeSet<StepIndex>, ReplayError> {
    let find = |id: &StepId| {
        let i = apply::step_of(state, seq, id)?;
        let status = state.steps[i].status();
        let fits = is_changeable(status) && !status.is_in_flight();
        let bad = || ReplayError::StepMove { seq, event: "plan_revised", step: id.clone(), status };
        if fits { Ok(i) } else { Err(bad()) }
    };
    ids.iter().map(find).collect()
}

/// Returns the changed plan and its graph. Removed steps stay in the list, without edges.
fn merged(state: &PlanState, seq: u64, delta: &Delta) -> Result<(RunningPlan, PlanGraph), ReplayError> {
    let mut plan = Plan::clone(state.plan.definition());
    for (i, step) in &delta.modified {
        plan.steps[*i] = step.clone();
    }
    for i in &delta.removed {
        let step = &mut plan.steps[*i];
        (step.phase, step.resource) = (None, None);
        step.dependencies.clear();
    }
    plan.steps.extend(delta.added.iter().cloned());
    for phase in &delta.phases {
        let place = to_usize(phase.place);
        if place > plan.phases.len() || place < state.phases.current() {
            let reason = format!("phase `{}` cannot be inserted at this position", phase.phase);
            return Err(ReplayError::BadPlan { seq, reason });
        }
        plan.phases.insert(place, phase_of(phase));
    }
    let graph = PlanGraph::new(&plan).map_err(|reason| ReplayError::BadPlan { seq, reason })?;
    let changed = delta.modified.keys().map(|i| (*i, delta.restarted.contains(i)));
    Ok((state.plan.revised(plan, changed), graph))
}

/// Recomputes every counter from the steps' statuses.
fn recount(state: &mut PlanState, phases: &[PhaseAdded]) {
    for phase in phases {
        state.phases.insert(to_usize(phase.place));
    }
    let mut counts = Counts::default();
    for i in state.indices() {
        *state.steps[i].dependencies_mut() = dependencies_of(state, i);
        counts.add(state.steps[i].status());
    }
    state.counts = counts;
    let (graph, steps) = (&state.graph, &state.steps);
    let phase_of = |i: usize| Some((graph.phase(StepIndex::new(i))?, steps[i].status()));
    state.phases.recount((0..steps.len()).filter_map(phase_of));
    recount_steps(state);
}

/// Counts the open and the satisfied dependencies of a step.
fn dependencies_of(state: &PlanState, i: StepIndex) -> OpenDependencies {
    let (mut open, mut met) = (0, 0);
    let dependencies = &state.plan.step(i).dependencies;
    let mut once: Vec<StepIndex> = dependencies.iter().filter_map(|id| state.graph.find(id.as_str())).collect();
    once.sort_unstable();
    once.dedup();
    for dependency in once {
        open += u32::from(!state.steps[dependency].status().is_final());
        met += u32::from(dependencies::is_met(state, state.plan.step(i), dependency));
    }
    OpenDependencies::new(open, met)
}

/// Whether a person made the revision, asked for it, agreed to it, or answered the question that it follows from.
fn is_decided_by_person(state: &PlanState, record: &Record, revised: &PlanRevised) -> bool {
    revised.planner.is_empty()
        || record.actor.is_some()
        || Trigger::parse(&revised.trigger) == Some(Trigger::UserRequest)
        || state.revising.answers.iter().any(|answer| !answer.by_default)
}

fn history(state: &PlanState, record: &Record, revised: &PlanRevised, delta: &Delta) -> RevisionRecord {
    let spec = |i: StepIndex| state.plan.defined(i).clone();
    RevisionRecord {
        revision: revised.revision,
        time_ms: record.time_ms,
        actor: record.actor.clone(),
        trigger: revised.trigger.clone(),
        step: revised.step.clone(),
        reason: revised.reason.clone(),
        strategy: revised.strategy.unwrap_or(if revised.trigger == Trigger::Edit.as_str() {
            RevisionStrategy::Edit
        } else {
            RevisionStrategy::ReplanRemaining
        }),
        summary: revised.summary.clone(),
        planner: revised.planner.clone(),
        changes: revised.changes.clone(),
        added: delta.added.clone(),
        removed: delta.removed.iter().map(|i| spec(*i)).collect(),
        modified: delta.modified.iter().map(|(i, after)| Modified { before: spec(*i), after: after.clone() }).collect(),
        skipped: revised.skipped.clone(),
        phases: delta.phases.iter().map(|phase| phase.phase.clone()).collect(),
        confidence_before: revised.confidence_before,
        confidence_after: revised.confidence_after,
    }
}
