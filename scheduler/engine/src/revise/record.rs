//! Records a revision as events, and lets the plan continue.

use std::collections::BTreeSet;

use goalmill_common::event::{PlanEvent, PlanRevised, Reason, SkipCause, StepAdded, StepEvent, StepModified};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::revision::{Proposal, RevisionStrategy, Trigger};
use goalmill_common::status::StepStatus;

use super::Delta;
use super::propose::{TEXT_CHARS_MAX, bounded};
use crate::Effect;
use crate::decide::Turn;
use crate::graph::StepIndex;

impl Turn<'_> {
    /// Records a revision and continues the plan.
    ///
    /// - `approved_because`: the reason of the person who approved; empty without approval.
    pub(crate) fn apply_revision(&mut self, proposal: Proposal, delta: Delta, approved_because: &str) {
        let by_person = proposal.strategy == RevisionStrategy::Edit;
        let replan = self.state.waiting.replan().filter(|_| !by_person);
        let trigger = replan.map_or_else(|| Trigger::Edit.as_str().to_owned(), |replan| replan.trigger.clone());
        let (step, reason) = replan.map(|replan| (replan.step.clone(), replan.reason.clone())).unwrap_or_default();
        let (before, after) = self.confidences(&proposal);
        self.remember_timers();
        self.withdraw_attempts(&delta);
        self.skip_steps(&delta);
        self.emit_changes(&delta, &proposal.summary);
        let id = |i: &StepIndex| self.id_of(*i);
        let revised = PlanRevised {
            revision: self.state.revision + 1,
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
        self.emit_plan(PlanEvent::Revised(Box::new(revised)));
        // They may have another priority.
        let ready = delta.modified.keys().filter(|i| self.status_of(**i) == StepStatus::Ready);
        let offered: Vec<StepIndex> = ready.copied().filter(|i| self.state.is_offered(*i)).collect();
        self.effects.extend(offered.into_iter().map(Effect::Ready));
        if self.is_active() {
            self.handle_deferred_failure();
            self.unlock_steps();
        }
    }

    /// Withdraws attempts whose work is no longer needed.
    fn withdraw_attempts(&mut self, delta: &Delta) {
        let gone = delta.removed.iter().chain(delta.skipped.keys()).chain(&delta.restarted);
        // A step that is changed while a call of it waits must not continue with what the call gives.
        let waits = |i: &StepIndex| self.status_of(*i) == StepStatus::Retrying && self.waiting_call(*i).is_some();
        let changed = delta.modified.keys().copied().filter(&waits);
        let is_there = |i: &StepIndex| self.status_of(*i).is_in_flight() || waits(i);
        let withdrawn: BTreeSet<StepIndex> = gone.copied().filter(is_there).chain(changed).collect();
        for i in withdrawn {
            self.cancel_attempt(i);
            self.emit_step(i, StepEvent::Recalled(Reason::boxed("the plan is revised")));
        }
    }

    /// Skips steps before the revision, which names them.
    fn skip_steps(&mut self, delta: &Delta) {
        for (i, why) in &delta.skipped {
            let reason = if why.is_empty() { "skipped by a revision".into() } else { why.clone() };
            self.skip(*i, SkipCause::Revision, reason);
        }
    }

    fn emit_changes(&mut self, delta: &Delta, summary: &str) {
        for phase in &delta.phases {
            self.emit_plan(PlanEvent::PhaseAdded(Box::new(phase.clone())));
        }
        for step in &delta.added {
            self.emit_added(StepAdded { step: step.clone() });
        }
        for (i, step) in &delta.modified {
            let before = Some(Box::new(self.state.plan.defined(*i).clone()));
            self.emit_step(*i, StepEvent::Modified(Box::new(StepModified { step: step.clone(), before })));
        }
        let why = if summary.is_empty() { String::new() } else { format!(": {summary}") };
        for i in &delta.removed {
            let why = format!("removed by revision {}{why}", self.state.revision + 1);
            self.emit_step(*i, StepEvent::Removed(Reason::boxed(why)));
        }
    }

    /// Handles the failure of a step that failed during another replan.
    pub(crate) fn handle_deferred_failure(&mut self) {
        let Some(&i) = self.state.revising.deferred_failures.first() else { return };
        let failure = self.state.steps[i].failure().cloned();
        let failure = failure.unwrap_or_else(|| Failure::new(FailureClass::Permanent, "UNKNOWN", "it failed"));
        self.apply_failure_policy(i, failure);
    }
}
