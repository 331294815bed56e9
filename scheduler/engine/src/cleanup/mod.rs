//! Clean-up: the steps that run once the outcome of a plan is known. First the undo steps of what was done, the last one
//! that began first, one at a time; then the `always` steps. The outcome stays, whatever becomes of them.

pub(crate) mod cleanup_state;
pub(crate) mod done_work;
pub(crate) mod outcome;

use std::collections::BTreeSet;

use goalmill_common::event::{
    CleanupStarted, PlanEnded, PlanEvent, SkipCause, StepCancelled, StepCompleted, StepEvent, StepUndone,
};
use goalmill_common::failure::Failure;
use goalmill_common::goal::Usage;
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::UndoOn;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::attempt::report::Spent;
use crate::cleanup::cleanup_state::CleanupRun;
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::sub_plan::inner_plans::NOT_UNDONE_MAX;
use crate::{PlanState, ReplayError, SubPlanEnd};

impl Turn<'_> {
    /// Ends the plan, once its clean-up steps have run.
    pub(crate) fn end_plan(&mut self, outcome: PlanEnded) {
        if !self.state.runs_cleanup() {
            return self.emit_end(outcome);
        }
        let undo = self.state.to_undo(outcome.status);
        if !self.state.keeps_work(outcome.status) {
            self.skip_needless_undos(&undo, outcome.status);
        }
        let holds = self.state.inner.unended() > 0;
        if undo.is_empty() && !self.state.has_always() && !holds {
            return self.emit_end(outcome);
        }
        let limit_ms = self.context.limits.cleanup_ms;
        // Each plan inside may take the time of its own clean-up, once those inside it have.
        let levels = 1 + u64::from(self.depth_max().saturating_sub(self.state.depth()));
        let due_ms = self.after(if holds { limit_ms.saturating_mul(levels) } else { limit_ms });
        let undo = undo.into_iter().map(|i| self.id_of(i)).collect();
        let started = CleanupStarted { outcome, undo, due_ms, after_inside_ms: holds.then_some(limit_ms) };
        self.emit_plan(PlanEvent::CleanupStarted(Box::new(started)));
        self.finished.clear();
        self.unlock_cleanup();
        self.advance_cleanup();
    }

    /// Ends the plan, or keeps it until the plan around it ends.
    pub(crate) fn emit_end(&mut self, outcome: PlanEnded) {
        if self.state.keeps_work(outcome.status) {
            return self.emit_plan(PlanEvent::Kept(Box::new(outcome)));
        }
        self.release_kept();
        let (status, outcome) = (outcome.status, Box::new(outcome));
        self.emit_plan(if status == PlanStatus::Cancelled {
            PlanEvent::Cancelled(outcome)
        } else if matches!(status, PlanStatus::Completed | PlanStatus::Partial) {
            PlanEvent::Completed(outcome)
        } else {
            PlanEvent::Failed(outcome)
        });
    }

    fn skip_needless_undos(&mut self, undo: &[StepIndex], status: PlanStatus) {
        let undo: BTreeSet<StepIndex> = undo.iter().copied().collect();
        let needless: Vec<(StepIndex, String)> = self
            .state
            .open_cleanup()
            .filter(|i| !undo.contains(i))
            .filter_map(|i| {
                let target = self.state.plan.step(i).undoes.as_ref()?;
                let was_done = self.state.graph.find(target.as_str()).is_some_and(|t| self.state.is_undone_by(t, i));
                let reason = if was_done {
                    format!("the plan ends as {status}: `{target}` stays done")
                } else {
                    format!("`{target}` was not done")
                };
                Some((i, reason))
            })
            .collect();
        for (i, reason) in needless {
            self.skip(i, SkipCause::Condition, reason);
        }
    }

    /// Lets an undo step continue with the next piece of work that it undoes. Returns whether there is one.
    ///
    /// - `undone`: how it went with the last one.
    fn undo_next(&mut self, i: StepIndex, undone: StepUndone) -> bool {
        if !self.state.undoes_more(i) {
            return false;
        }
        self.emit_step(i, StepEvent::Undone(Box::new(undone)));
        self.forget_payloads(i);
        self.finished.push_back(i);
        true
    }

    /// Takes the outputs of a step. Returns them if it is done: an undo step is not before it has undone all that is done.
    pub(crate) fn finish_undo(&mut self, i: StepIndex, completed: StepCompleted) -> Option<StepCompleted> {
        if self.state.plan.step(i).undoes.is_none() {
            return Some(completed);
        }
        let StepCompleted { cost, tokens, usage, duration_ms, .. } = completed;
        let outputs = Some(completed.outputs.clone());
        if self.undo_next(i, StepUndone { outputs, failure: None, cost, tokens, usage, duration_ms }) {
            return None;
        }
        let spent = Spent::from_completed(&completed);
        match self.state.failed_undos(i, 0) {
            None => Some(completed),
            Some(failure) => {
                self.fail_step(i, failure, spent);
                None
            }
        }
    }

    /// Takes the failure of an undo step that has more to undo. Returns whether it has.
    pub(crate) fn fail_undo(&mut self, i: StepIndex, failure: &Failure, spent: Spent) -> bool {
        let Spent { cost, tokens, split: usage, duration_ms } = spent;
        self.state.undoes_more(i)
            && self.undo_next(
                i,
                StepUndone { outputs: None, failure: Some(failure.clone()), cost, tokens, usage, duration_ms },
            )
    }

    /// Skips a step whose condition is false. An undo step passes over one piece of work alone.
    pub(crate) fn skip_by_condition(&mut self, i: StepIndex, reason: String) {
        if self.undo_next(i, StepUndone::default()) {
            return;
        }
        if let Some(failure) = self.state.failed_undos(i, 0) {
            self.fail_step(i, failure, Spent::default());
        } else if self.state.undone(i) == 0 || self.state.steps[i].attempt() == 0 {
            self.skip(i, SkipCause::Condition, reason);
        } else {
            self.emit_completed(i, Json::empty_object());
        }
    }

    /// Goes on with the clean-up, and ends the plan after it.
    pub(crate) fn advance_cleanup(&mut self) {
        loop {
            if self.state.is_final() {
                return self.finished.clear();
            }
            if let Some(i) = self.finished.pop_front() {
                self.unlock_dependents(i);
                if self.state.plan.step(i).undoes.is_some() {
                    self.unlock_cleanup();
                }
            } else if !self.run_next_engine_step() {
                break;
            }
        }
        if self.state.is_done() {
            self.finish_cleanup("");
        }
    }

    /// A plan inside has ended while this one waits for it. The clean-up begins after the last one.
    pub(crate) fn inside_ended(&mut self, i: StepIndex, end: SubPlanEnd) {
        if end.is_kept {
            self.keep_inside(i);
        }
        let Usage { cost, tokens } = end.usage.bounded();
        let (reason, not_undone) = ("the plan around it ends".to_owned(), self.state.named_inside(i, end.not_undone));
        let cancelled = StepCancelled { reason, cost, tokens, not_undone };
        self.emit_step(i, StepEvent::Cancelled(Box::new(cancelled)));
        self.unlock_cleanup();
        self.advance_cleanup();
    }

    /// Lets the next undo step begin, or after the last one all `always` steps.
    pub(crate) fn unlock_cleanup(&mut self) {
        if self.state.cleanup.is_stopping() {
            return;
        }
        match self.state.cleanup.run().and_then(CleanupRun::next_undo) {
            Some(next) if self.state.plan.step(next).is_cleanup() => self.try_unlock(next),
            Some(holder) => self.undo_kept(holder),
            None => {
                let open: Vec<StepIndex> = self.state.open_cleanup().collect();
                open.into_iter().for_each(|i| self.try_unlock(i));
            }
        }
    }

    /// Ends the plan with its outcome; clean-up steps that are open are cancelled.
    ///
    /// - `why`: why they are; empty when none is open.
    pub(crate) fn finish_cleanup(&mut self, why: &str) {
        let Some(cleanup) = self.state.cleanup.run().cloned() else { return };
        let cancelled = self.cancel_steps("the clean-up has ended", why);
        let failed = self.state.cleanup_not_done();
        let mut outcome = PlanEnded { cancelled, ..cleanup.outcome };
        if !failed.is_empty() {
            let separator = if outcome.reason.is_empty() { "" } else { "; " };
            let failed = in_quotes(&failed);
            outcome.reason.push_str(&format!("{separator}clean-up steps that did not succeed: {failed}"));
        }
        self.emit_end(outcome);
    }
}

/// Names in quotes.
pub(crate) fn in_quotes(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

impl PlanState {
    /// Clean-up steps that did not succeed, of this plan and of those inside it, as far as these have reported.
    pub(crate) fn cleanup_not_done(&self) -> Vec<String> {
        let is_open = |i: &&StepIndex| matches!(self.steps[**i].status(), StepStatus::Failed | StepStatus::Cancelled);
        let own = self.graph.cleanup_steps().iter().filter(is_open).map(|i| self.plan.step(*i).id.to_string());
        let left = self.cleanup.run().map(CleanupRun::left).unwrap_or_default();
        let kept = left.iter().filter(|i| self.inner.has_kept_of(**i)).map(|i| self.plan.step(*i).id.to_string());
        own.chain(kept).chain(self.inner.not_undone().iter().cloned()).take(NOT_UNDONE_MAX).collect()
    }

    /// Names of clean-up steps of a plan inside a step, as the plan around it shows them.
    pub(crate) fn named_inside(&self, i: StepIndex, names: Vec<String>) -> Vec<String> {
        let step = &self.plan.step(i).id;
        names.into_iter().take(NOT_UNDONE_MAX).map(|name| format!("{step}/{name}")).collect()
    }

    /// Goes past what the clean-up has undone: an undo step that has ended, a step without a kept plan.
    pub(crate) fn pass_cleanup(&mut self) {
        let (plan, steps, inner) = (&self.plan, &self.steps, &self.inner);
        self.cleanup.pass_ended(|i| match plan.step(i).is_cleanup() {
            true => steps[i].status().is_final(),
            false => !inner.has_kept_of(i) && !inner.is_holder(i),
        });
    }

    /// Whether the end of the plan waits for clean-up steps, or for plans inside it.
    pub(crate) fn runs_cleanup(&self) -> bool {
        let begun = matches!(self.status, PlanStatus::Running | PlanStatus::Replanning | PlanStatus::Paused);
        begun
            && self.start_due_ms().is_none()
            && !self.cleanup.is_running()
            && !(self.graph.cleanup_steps().is_empty() && self.inner.is_empty())
    }

    /// Whether the clean-up waits for the plan of a step.
    pub(crate) fn is_stopping(&self, i: StepIndex) -> bool {
        self.cleanup.is_stopping() && self.inner.is_holder(i)
    }

    /// Clean-up steps that are not final.
    fn open_cleanup(&self) -> impl Iterator<Item = StepIndex> {
        self.graph.cleanup_steps().iter().copied().filter(|i| !self.steps[*i].status().is_final())
    }

    pub(crate) fn has_always(&self) -> bool {
        self.open_cleanup().any(|i| self.plan.step(i).always)
    }

    /// The undo steps of what was done, for a plan that ends like that: what revisions removed, then the last one that
    /// began first.
    fn to_undo(&self, status: PlanStatus) -> Vec<StepIndex> {
        let mut undo = self.cleanup.undoing().to_vec();
        undo.extend(self.undos_after(status));
        undo
    }

    fn undos_after(&self, status: PlanStatus) -> Vec<StepIndex> {
        let wanted = if status == PlanStatus::Failed {
            UndoOn::Failed
        } else if status == PlanStatus::Cancelled {
            UndoOn::Cancelled
        } else {
            return Vec::new();
        };
        // The plan around a kept one says whether it is undone.
        if !self.is_kept() && self.plan.definition().undo_on.as_ref().is_some_and(|on| !on.contains(&wanted)) {
            return Vec::new();
        }
        let own = self.open_cleanup().filter_map(|i| {
            let target = self.undone_step(i)?;
            self.is_undone_by(target, i).then(|| (self.steps[target].sent(), false, i))
        });
        // What the plan of a step did is undone before what the undo step of the step itself undoes. A plan that has not
        // ended may be done with its work.
        let holders: BTreeSet<StepIndex> = self.inner.keepers().chain(self.inner.holders()).collect();
        let kept = holders.into_iter().map(|holder| (self.steps[holder].sent(), true, holder));
        let mut done: Vec<(u64, bool, StepIndex)> = own.chain(kept).collect();
        done.sort_by(|a, b| b.cmp(a));
        done.into_iter().map(|(_, _, i)| i).collect()
    }

    /// Whether a step has done something that its undo step takes back. A map that did not complete undid its items
    /// itself, when its own plan ended; one that is kept undoes them itself.
    pub(crate) fn is_undone_by(&self, i: StepIndex, undo: StepIndex) -> bool {
        let is_map = self.plan.step(undo).undoes_map();
        let by_map = || self.steps[i].status() != StepStatus::Completed || self.inner.has_kept_of(i);
        self.may_be_done(i) && !(is_map && by_map())
    }

    /// Whether a step has done something that one of its undo steps takes back.
    pub(crate) fn is_undone(&self, i: StepIndex) -> bool {
        self.graph.undos_of(i).iter().any(|undo| self.is_undone_by(i, *undo))
    }

    /// The open undo step of a step.
    pub(crate) fn undo_of(&self, i: StepIndex) -> Option<StepIndex> {
        self.graph.undos_of(i).iter().copied().find(|undo| !self.steps[*undo].status().is_final())
    }

    /// Whether a step that a revision removes must be undone.
    pub(crate) fn needs_undo(&self, i: StepIndex) -> bool {
        self.undo_of(i).map_or_else(|| self.may_be_done(i), |undo| self.is_undone_by(i, undo) && !self.is_idle_map(i))
    }

    /// Whether it is the undo step of a step that a revision removed.
    pub(crate) fn undoes_removed(&self, i: StepIndex) -> bool {
        self.undone_step(i).is_some_and(|undone| self.steps[undone].status() == StepStatus::Revised)
    }

    /// The undo steps of steps that a revision removes: the last one that began first.
    pub(crate) fn undos_of(&self, removed: &BTreeSet<StepIndex>) -> Vec<StepIndex> {
        let needed = removed.iter().filter(|i| self.needs_undo(**i));
        let undos = needed.filter_map(|i| Some((self.steps[*i].sent(), self.undo_of(*i)?)));
        let mut undos: Vec<(u64, StepIndex)> = undos.filter(|(_, undo)| !removed.contains(undo)).collect();
        undos.sort_by(|a, b| b.cmp(a));
        undos.into_iter().map(|(_, undo)| undo).collect()
    }

    /// Whether a step belongs to a part of the plan that has not begun, or to one that is over.
    pub(crate) fn runs_later(&self, i: StepIndex) -> bool {
        // What a revision took out is undone before other steps begin, and these are open meanwhile.
        let is_open = !self.cleanup.is_running() && !self.plan.step(i).is_cleanup();
        !is_open && !self.is_its_turn(i)
    }

    /// Whether a step may begin as far as the part of the plan goes to which it belongs.
    pub(crate) fn is_its_turn(&self, i: StepIndex) -> bool {
        let spec = self.plan.step(i);
        let Some(cleanup) = self.cleanup.run() else {
            return match self.cleanup.undoing().first() {
                Some(next) => *next == i,
                None => !spec.is_cleanup(),
            };
        };
        if cleanup.is_stopping() {
            return false;
        }
        match &spec.undoes {
            Some(_) => cleanup.next_undo() == Some(i),
            None => spec.always && cleanup.next_undo().is_none(),
        }
    }

    /// When the plan must end, Unix milliseconds.
    pub(crate) fn end_due_ms(&self) -> u64 {
        self.cleanup.run().map_or(self.accepted.deadline_ms, |run| run.due_ms)
    }

    /// The plan ends when its log has so many events: at first by way of its clean-up, which has as many of its own.
    pub(crate) fn events_end(&self, limits: &Limits) -> u64 {
        let before = self.cleanup.run().map_or(0, |run| run.began);
        before.saturating_add(limits.events_max)
    }

    /// Folds the begin of the clean-up; what is open of the rest was cancelled.
    ///
    /// - `seq`: the number of its event.
    pub(crate) fn begin_cleanup(&mut self, seq: u64, started: &CleanupStarted) -> Result<(), ReplayError> {
        let undo = started.undo.iter().map(|id| self.step_of(seq, id)).collect::<Result<_, _>>()?;
        let outcome = PlanEnded { cancelled: Vec::new(), ..started.outcome.clone() };
        let run = CleanupRun {
            keeps_undos: self.may_keep_work(outcome.status),
            outcome,
            undo,
            due_ms: started.due_ms,
            began: seq,
            passed: 0,
            stopping: self.inner.unended(),
            after_inside_ms: started.after_inside_ms,
        };
        self.cleanup.begin(run);
        self.outcome.begin_undo();
        // By hand, or by a revision.
        self.pass_cleanup();
        Ok(())
    }
}
