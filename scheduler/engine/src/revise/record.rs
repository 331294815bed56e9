//! Records a revision as events, and lets the plan continue.

use std::collections::BTreeSet;

use goalmill_common::event::{
    PlanEvent, PlanRevised, Reason, ReplanTriggered, SkipCause, StepAdded, StepEvent, StepModified,
};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::revision::{Proposal, RevisionStrategy, Trigger};
use goalmill_common::status::StepStatus;

use crate::attempt::{cancel, failure, open_failures};
use crate::calls::resume;
use crate::cleanup::plan_end;
use crate::constraints::CONSTRAINT_BROKEN;
use crate::graph::StepIndex;
use crate::revise::delta::Delta;
use crate::revise::{fork, revising};
use crate::turn::Turn;
use crate::{Effect, progress};

/// Longest summary or reason kept, in characters.
pub(super) const TEXT_CHARS_MAX: usize = 1_000;
/// Most lines about a revision's changes kept.
const LINES_MAX: usize = 100;

/// Records a revision and continues the plan.
///
/// - `approved_because`: the reason of the person who approved; empty without approval.
pub(crate) fn apply_revision(turn: &mut Turn<'_>, proposal: Proposal, delta: Delta, approved_because: &str) {
    let by_person = proposal.strategy == RevisionStrategy::Edit;
    let replan = turn.state.waiting.replan().filter(|_| !by_person);
    let trigger = replan.map_or_else(|| Trigger::Edit.as_str().to_owned(), |replan| replan.trigger.clone());
    let (step, reason) = replan.map(|replan| (replan.step.clone(), replan.reason.clone())).unwrap_or_default();
    let (before, after) = confidences(turn, &proposal);
    turn.remember_timers();
    withdraw_attempts(turn, &delta);
    skip_steps(turn, &delta);
    emit_changes(turn, &delta, &proposal.summary);
    let id = |i: &StepIndex| turn.id_of(*i);
    let revised = PlanRevised {
        revision: turn.state.revision + 1,
        trigger,
        changes: bounded_lines(delta.lines),
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
        progress::unlock_steps(turn);
    }
}

/// Withdraws attempts whose work is no longer needed.
fn withdraw_attempts(turn: &mut Turn<'_>, delta: &Delta) {
    let gone = delta.removed.iter().chain(delta.skipped.keys()).chain(&delta.restarted);
    // A step that is changed while a call of it waits must not continue with what the call gives.
    let waits = |i: &StepIndex| turn.status_of(*i) == StepStatus::Retrying && resume::waiting_call(turn, *i).is_some();
    let changed = delta.modified.keys().copied().filter(&waits);
    let is_there = |i: &StepIndex| turn.status_of(*i).is_in_flight() || waits(i);
    let withdrawn: BTreeSet<StepIndex> = gone.copied().filter(is_there).chain(changed).collect();
    for i in withdrawn {
        cancel::cancel_attempt(turn, i);
        turn.emit_step(i, StepEvent::Recalled(Reason::boxed("the plan is revised")));
    }
}

/// Skips steps before the revision, which names them.
fn skip_steps(turn: &mut Turn<'_>, delta: &Delta) {
    for (i, why) in &delta.skipped {
        let reason = if why.is_empty() { "skipped by a revision".into() } else { why.clone() };
        turn.skip_step(*i, SkipCause::Revision, reason);
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

/// Ends the replan without a revision: a plan that needed one fails, any other continues.
pub(crate) fn continue_without_revision(turn: &mut Turn<'_>, reason: String) {
    let is_needed = |replan: &&ReplanTriggered| {
        !open_failures::is_replan_optional(replan)
            || revising::needs_next_part(turn.state)
            || fork::is_for_one_planner(turn.state, replan)
    };
    let Some(replan) = turn.state.waiting.replan().filter(is_needed).cloned() else {
        turn.emit_plan(PlanEvent::Resumed(Reason::boxed(reason)));
        return progress::skip_blocked(turn);
    };
    let Some(step) = replan.step else {
        let message = format!("{}: {reason}", replan.reason);
        let failure = match Trigger::parse(&replan.trigger) {
            Some(Trigger::ConstraintViolation) => {
                Failure::new(FailureClass::ConstraintViolation, CONSTRAINT_BROKEN, message)
            }
            Some(_) | None => Failure::new(FailureClass::Permanent, "PLANNING_FAILED", message),
        };
        return plan_end::fail_plan(turn, failure);
    };
    let i = turn.state.graph.find(step.as_str());
    let failure = i.and_then(|i| turn.state.steps[i].failure().cloned());
    let failure = failure.unwrap_or_else(|| Failure::new(FailureClass::Permanent, "REPLAN_FAILED", reason.as_str()));
    let failure = open_failures::plan_failure(&step, failure);
    let reason = format!("{}; {reason}", failure.message);
    plan_end::fail_plan_because(turn, failure, reason);
}

pub(crate) fn confidences(turn: &Turn<'_>, proposal: &Proposal) -> (f64, f64) {
    let before = turn.state.origin.confidence;
    // The next part of an iterative plan costs no confidence.
    let is_free = proposal.strategy == RevisionStrategy::Edit || revising::needs_next_part(turn.state);
    let after = match proposal.confidence {
        Some(own) if revising::has_better_plan(turn.state) => own,
        Some(_) | None if is_free => before,
        Some(_) | None => revising::confidence_after(turn.state, proposal.strategy),
    };
    (before, after)
}

pub(crate) fn bounded_lines(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(format!("and {more} more"));
    }
    lines
}
