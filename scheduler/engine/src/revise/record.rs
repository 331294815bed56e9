//! Records a revision as events, and lets the plan continue.

use std::collections::BTreeSet;

use goalmill_common::event::{PlanEvent, PlanRevised, Reason, SkipCause, StepAdded, StepEvent, StepModified};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::revision::{Proposal, RevisionStrategy, Trigger};
use goalmill_common::status::StepStatus;

use super::Delta;
use super::propose::{TEXT_CHARS_MAX, bounded};
use crate::attempt::failure;
use crate::decide::Turn;
use crate::graph::{StepIndex, unlock};
use crate::revise::propose;
use crate::{Effect, calls};

/// Records a revision and continues the plan.
///
/// - `approved_because`: the reason of the person who approved; empty without approval.
pub(crate) fn apply_revision(turn: &mut Turn<'_>, proposal: Proposal, delta: Delta, approved_because: &str) {
    let by_person = proposal.strategy == RevisionStrategy::Edit;
    let replan = turn.state.waiting.replan().filter(|_| !by_person);
    let trigger = replan.map_or_else(|| Trigger::Edit.as_str().to_owned(), |replan| replan.trigger.clone());
    let (step, reason) = replan.map(|replan| (replan.step.clone(), replan.reason.clone())).unwrap_or_default();
    let (before, after) = propose::confidences(turn, &proposal);
    turn.remember_timers();
    withdraw_attempts(turn, &delta);
    skip_steps(turn, &delta);
    emit_changes(turn, &delta, &proposal.summary);
    let id = |i: &StepIndex| turn.id_of(*i);
    let revised = PlanRevised {
        revision: turn.state.revision + 1,
        trigger,
        changes: bounded(delta.lines),
        added: delta.added.iter().map(|step| step.id.clone()).collect(),
        removed: delta.removed.iter().map(id).collect(),
        modified: delta.modified.keys().map(id).collect(),
        skipped: delta.skipped.keys().map(id).collect(),
        restarted: delta.restarted.iter().map(id).collect(),
        confidence_delta: ((after - before) * 10_000.0).round() / 10_000.0,
        confidence_before: before,
        confidence_after: after,
        strategy: Some(proposal.strategy),
        step,
        reason,
        summary: proposal.summary,
        planner: proposal.planner,
        provenance: proposal.provenance,
        routes: proposal.routes,
        usage: proposal.usage,
        approved_because: approved_because.chars().take(TEXT_CHARS_MAX).collect(),
    };
    turn.emit_plan(PlanEvent::Revised(Box::new(revised)));
    // They may have another priority.
    let ready = delta.modified.keys().filter(|i| turn.status_of(**i) == StepStatus::Ready);
    let offered: Vec<StepIndex> = ready.copied().filter(|i| turn.state.is_offered(*i)).collect();
    turn.effects.extend(offered.into_iter().map(Effect::Ready));
    if turn.is_active() {
        handle_deferred_failure(turn);
        unlock::unlock_steps(turn);
    }
}

/// Withdraws attempts whose work is no longer needed.
fn withdraw_attempts(turn: &mut Turn<'_>, delta: &Delta) {
    let gone = delta.removed.iter().chain(delta.skipped.keys()).chain(&delta.restarted);
    // A step that is changed while a call of it waits must not continue with what the call gives.
    let waits = |i: &StepIndex| turn.status_of(*i) == StepStatus::Retrying && calls::waiting_call(turn, *i).is_some();
    let changed = delta.modified.keys().copied().filter(&waits);
    let is_there = |i: &StepIndex| turn.status_of(*i).is_in_flight() || waits(i);
    let withdrawn: BTreeSet<StepIndex> = gone.copied().filter(is_there).chain(changed).collect();
    for i in withdrawn {
        failure::cancel_attempt(turn, i);
        turn.emit_step(i, StepEvent::Recalled(Reason::boxed("the plan is revised")));
    }
}

/// Skips steps before the revision, which names them.
fn skip_steps(turn: &mut Turn<'_>, delta: &Delta) {
    for (i, why) in &delta.skipped {
        let reason = if why.is_empty() { "skipped by a revision".into() } else { why.clone() };
        unlock::skip_step(turn, *i, SkipCause::Revision, reason);
    }
}

fn emit_changes(turn: &mut Turn<'_>, delta: &Delta, summary: &str) {
    for phase in &delta.phases {
        turn.emit_plan(PlanEvent::PhaseAdded(Box::new(phase.clone())));
    }
    for step in &delta.added {
        turn.emit_added(StepAdded { step: step.clone() });
    }
    for (i, step) in &delta.modified {
        let before = Some(Box::new(turn.state.plan.defined(*i).clone()));
        turn.emit_step(*i, StepEvent::Modified(Box::new(StepModified { step: step.clone(), before })));
    }
    let why = if summary.is_empty() { String::new() } else { format!(": {summary}") };
    for i in &delta.removed {
        let why = format!("removed by revision {}{why}", turn.state.revision + 1);
        turn.emit_step(*i, StepEvent::Removed(Reason::boxed(why)));
    }
}

/// Handles the failure of a step that failed during another replan.
pub(crate) fn handle_deferred_failure(turn: &mut Turn<'_>) {
    let Some(&i) = turn.state.revising.deferred_failures.first() else { return };
    let failure = turn.state.steps[i].failure().cloned();
    let failure = failure.unwrap_or_else(|| Failure::new(FailureClass::Permanent, "UNKNOWN", "it failed"));
    failure::apply_failure_policy(turn, i, failure);
}
