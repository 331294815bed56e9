//! Kept plans: a plan inside another one whose work is done, and may be undone for as long as the plan around it runs.
//!
//! The step that holds it continues immediately with the outputs. The plan itself ends with the plan around it: completed when
//! that one releases it, or through its own clean-up, at the place of its step among what the plan around it undoes.

use goalmill_common::event::{KeptPlan, PlanEnded, PlanEvent, UndonePlan};
use goalmill_common::id::{PlanId, StepId};
use goalmill_common::plan::Collect;
use goalmill_common::status::PlanStatus;

use crate::decide::{Turn, not_allowed};
use crate::graph::StepIndex;
use crate::sub_plan::family::FamilyRequest;
use crate::sub_plan::inner_plans::InnerPlans;
use crate::token::TokenKey;
use crate::{PlanState, Rejection, SubPlanEnd};

/// What becomes of a kept plan.
#[derive(Clone, Debug, PartialEq)]
pub enum KeptFate {
    /// It ends as it is.
    Released,
    /// What it did is undone, because the plan around it ends like this.
    Undone(PlanEnded),
}

impl Turn<'_> {
    /// Takes what becomes of this plan.
    pub(crate) fn end_kept(&mut self, fate: KeptFate) -> Result<(), Rejection> {
        let Some(outcome) = self.state.outcome.kept().cloned() else {
            return Err(not_allowed("the plan is not kept"));
        };
        match fate {
            KeptFate::Released => self.emit_end(outcome),
            KeptFate::Undone(outcome) => self.end_plan(outcome),
        }
        Ok(())
    }

    /// Notes that the plan of a step is kept.
    pub(crate) fn keep_inside(&mut self, i: StepIndex) {
        let (step, attempt) = (self.id_of(i), self.state.steps[i].attempt());
        self.emit_plan(PlanEvent::InnerPlanKept(Box::new(KeptPlan { step, attempt })));
    }

    /// Asks the next kept plan of a step to undo what it did, the last one first.
    pub(crate) fn undo_kept(&mut self, i: StepIndex) {
        let Some(attempt) = self.state.inner.last_kept(i) else { return };
        let Some(cleanup) = self.state.cleanup.run() else { return };
        let (reason, cancelled) = ("what it did is undone with the plan around it".into(), Vec::new());
        let outcome = PlanEnded { reason, cancelled, ..cleanup.outcome.clone() };
        self.decide_kept(i, attempt, KeptFate::Undone(outcome));
    }

    /// Releases the kept plans of all steps: they stay done.
    pub(crate) fn release_kept(&mut self) {
        let kept: Vec<(StepIndex, u32)> = self.state.inner.kept().collect();
        for (i, attempt) in kept {
            self.decide_kept(i, attempt, KeptFate::Released);
        }
    }

    /// Stops the plan of a step that continues without it.
    pub(crate) fn leave_sub_plan(&mut self, i: StepIndex) {
        let (step, attempt) = (self.id_of(i), self.state.steps[i].attempt());
        self.stop_sub_plan(i);
        self.emit_plan(PlanEvent::InnerPlanStopped(Box::new(KeptPlan { step, attempt })));
    }

    fn decide_kept(&mut self, i: StepIndex, attempt: u32, fate: KeptFate) {
        let mut parent = Box::new(self.state.as_parent(i));
        parent.attempt = attempt;
        let plan = self.state.kept_plan_id(&parent.step, attempt);
        self.requests.push(FamilyRequest::EndKept { plan, parent, fate });
    }

    /// A kept or stopped plan has undone what it did. The clean-up continues.
    pub(crate) fn kept_plan_ended(&mut self, i: StepIndex, attempt: u32, end: SubPlanEnd) {
        let usage = end.usage.bounded();
        let undone = UndonePlan {
            step: self.id_of(i),
            attempt,
            cost: usage.cost,
            tokens: usage.tokens,
            not_undone: self.state.named_inside(i, end.not_undone),
        };
        self.emit_plan(PlanEvent::InnerPlanUndone(Box::new(undone)));
        if self.state.cleanup.is_running() {
            self.unlock_cleanup();
            self.advance_cleanup();
        }
    }
}

impl PlanState {
    /// Whether it is done, and kept until the plan around it ends.
    pub fn is_kept(&self) -> bool {
        self.outcome.kept().is_some()
    }

    /// Why a kept plan takes no other command.
    pub(crate) fn refuse_kept(&self) -> Rejection {
        let around = self.parent().map_or("", |parent| parent.plan.as_str());
        not_allowed(format!("the work of the plan is done; it ends with the plan around it, `{around}`"))
    }

    /// Whether it waits for plans inside it that end, or undo what they did.
    pub fn awaits_inside(&self) -> bool {
        self.inner.unended() > 0 || self.cleanup.is_running() && self.inner.has_kept()
    }

    /// Whether a plan that ends like that is kept: it has done what can be undone. The plan around a map undoes what its
    /// items did, but for what plans inside them did.
    pub(crate) fn keeps_work(&self, status: PlanStatus) -> bool {
        let has_work = || self.graph.undone_steps().any(|i| self.is_undone(i) && !self.is_idle_map(i));
        self.may_keep_work(status) && (self.inner.has_kept() || has_work())
    }

    /// The same in logs of earlier builds, in which a map has work whose items have done nothing.
    pub(crate) fn may_keep_work(&self, status: PlanStatus) -> bool {
        let is_done = matches!(status, PlanStatus::Completed | PlanStatus::Partial);
        if !is_done || self.parent().is_none() || self.outcome.kept().is_some() {
            return false;
        }
        let has_work = || self.graph.undone_steps().any(|i| self.is_undone(i));
        self.inner.has_kept() || self.plan.definition().collect != Collect::List && has_work()
    }

    /// The id of the plan that ran for an attempt of a step.
    pub(crate) fn kept_plan_id(&self, step: &StepId, attempt: u32) -> PlanId {
        TokenKey::sub_plan(&self.accepted.plan_id, step, attempt)
    }

    /// - `fold`: what the event does to the plan of an attempt.
    pub(crate) fn fold_inner(&mut self, inside: &KeptPlan, fold: fn(&mut InnerPlans, StepIndex, u32)) {
        if let Some(i) = self.graph.find(inside.step.as_str()) {
            fold(&mut self.inner, i, inside.attempt);
        }
    }

    pub(crate) fn fold_undone(&mut self, time_ms: u64, undone: &UndonePlan) {
        self.usage.add(undone.cost, undone.tokens);
        self.inner.note_not_undone(&undone.not_undone);
        let Some(i) = self.graph.find(undone.step.as_str()) else { return };
        if self.inner.end_undone(i, undone.attempt) {
            self.cleanup.inside_ended(time_ms);
        }
        self.pass_cleanup();
    }
}

/// The request that a plan decides about one that it does not keep.
pub(crate) fn release(plan: PlanId, parent: Box<goalmill_common::event::Parent>) -> FamilyRequest {
    FamilyRequest::EndKept { plan, parent, fate: KeptFate::Released }
}
