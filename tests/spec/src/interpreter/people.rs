//! What people do with a plan and its steps.

use goalmill_common::failure::FailureClass;
use goalmill_common::json::Json;
use goalmill_common::plan::{ApprovalDefault, StepKind};
use goalmill_common::status::StepStatus;

use super::plan_run::{End, PlanRun, Stage, failure};
use super::step_run::{Part, StepRun, Work};
use super::world::World;
use crate::script::{Wish, by_hand, other_inputs};

impl PlanRun {
    /// Does what a person wants of the outermost plan; nothing if it makes no sense now.
    pub(super) fn heed(&mut self, wish: &Wish, world: &mut World<'_>) {
        let part = match self.stage {
            Stage::Always => Part::Always,
            Stage::Running | Stage::Stopping | Stage::Undoing | Stage::Ended => Part::Main,
        };
        let may_skip = matches!(self.stage, Stage::Running | Stage::Always);
        match wish {
            Wish::Cancel => self.begin_end(End::cancelled(), world),
            Wish::Pause => self.pause(true),
            Wish::Resume => {
                self.has_begun = true;
                self.pause(false);
            }
            Wish::Approve(step) | Wish::Reject(step) => {
                if let Some(i) = self.find_asked(step, false) {
                    self.decide(i, matches!(wish, Wish::Approve(_)), world);
                }
            }
            Wish::Answer(step) => {
                if let Some(i) = self.find_asked(step, true) {
                    self.take_answer(i, Json::from(by_hand()));
                }
            }
            Wish::Remove(step) => {
                let i = self.find(step).filter(|i| self.stage == Stage::Running && self.may_remove(*i, world));
                i.into_iter().for_each(|i| self.remove(i, world));
            }
            Wish::Change(step) | Wish::Retry(step) => {
                let inputs = matches!(wish, Wish::Change(_)).then(|| Json::from(other_inputs()));
                let may_change = |i: &usize| {
                    self.stage == Stage::Running && matches!(self.steps[*i].part, Part::Main | Part::Always)
                };
                let i = self.find(step).filter(may_change);
                i.into_iter().for_each(|i| self.change(i, inputs.clone(), world));
            }
            Wish::Skip(step) | Wish::Complete(step) => {
                let is_due = |i: &usize| may_skip && self.steps[*i].part == part;
                let i = self.find(step).filter(is_due);
                let is_skipped = matches!(wish, Wish::Skip(_));
                i.into_iter().for_each(|i| self.leave_out(i, is_skipped, world));
            }
        }
    }

    fn find(&self, id: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.spec.id.as_str() == id)
    }

    /// Nothing starts in a paused plan, or inside it. A plan that cleans up goes on.
    fn pause(&mut self, is_paused: bool) {
        if self.stage != Stage::Running {
            return;
        }
        self.is_paused = is_paused;
        for step in &mut self.steps {
            step.inside_mut().into_iter().for_each(|inner| inner.pause(is_paused));
        }
    }

    fn find_asked(&self, id: &str, question: bool) -> Option<usize> {
        let is_asked =
            |i: &usize| matches!(self.steps[*i].work, Work::Asked { is_question, .. } if is_question == question);
        self.find(id).filter(is_asked)
    }

    /// The plan waits for its start.
    pub(super) fn delay(&mut self, is_delayed: bool) {
        (self.has_begun, self.is_paused) = (!is_delayed, is_delayed);
    }

    /// The step may begin once a person has answered its question and approved it. Each item of a map is asked about by
    /// itself.
    pub(super) fn open(&mut self, i: usize, world: &World<'_>) {
        let step = &mut self.steps[i];
        let is_map = step.spec.for_each.is_some();
        let ask = step.spec.ask.as_ref().filter(|_| step.answer.is_none());
        let limit_ms = match (ask, step.spec.approve) {
            (Some(ask), _) => Some(ask.limit_ms),
            (None, approve) => approve.map(|approve| approve.limit_ms),
        };
        let is_question = ask.is_some();
        step.work = match limit_ms.filter(|_| !is_map) {
            Some(limit_ms) => Work::Asked { until_ms: world.now_ms + limit_ms, is_question },
            None => Work::Ready,
        };
    }

    /// Nobody decided in time.
    pub(super) fn decide_by_default(&mut self, i: usize, is_question: bool, world: &mut World<'_>) {
        let spec = &self.steps[i].spec;
        if !is_question {
            let default = spec.approve.unwrap_or_default().default;
            return self.decide(i, default == ApprovalDefault::Approve, world);
        }
        match spec.ask.as_ref().and_then(|ask| ask.default.clone()) {
            Some(answer) => self.take_answer(i, answer),
            None => self.give_up(i, failure(FailureClass::Timeout, "NO_ANSWER"), world),
        }
    }

    fn take_answer(&mut self, i: usize, answer: Json) {
        self.steps[i].answer = Some(answer.clone());
        if self.steps[i].spec.ask.as_ref().is_some_and(|ask| ask.into.is_none()) {
            // What a person gives is not undone.
            self.steps[i].outputs = Some(answer);
            return self.steps[i].end(StepStatus::Completed);
        }
        // It may begin as if nobody had been asked: not while something is undone.
        self.steps[i].work = Work::Pending;
    }

    /// The decision about a step that waits for one.
    pub(super) fn decide(&mut self, i: usize, is_approved: bool, world: &mut World<'_>) {
        if is_approved {
            self.steps[i].work = Work::Ready;
        } else {
            self.give_up(i, failure(FailureClass::Permanent, "REJECTED"), world);
        }
    }

    /// A step of which one speaks that has not ended stays, and so does a completed one without `undo`. A plan has steps, be
    /// it undo steps of what was taken out before.
    fn may_remove(&self, i: usize, world: &mut World<'_>) -> bool {
        let step = &self.steps[i];
        let id = &step.spec.id;
        let is_there = |step: &StepRun| matches!(step.part, Part::Main | Part::Always);
        let others = || self.steps.iter().filter(|other| other.spec.id != *id);
        let has_undo = self.undo.iter().any(|undo| undo.undoes.as_ref() == Some(id));
        // What the plans of its iterations have done is undone at the end of this plan.
        if step.spec.kind == StepKind::Plan && !self.undo_of(i, &Json::default(), world).is_empty() {
            return false;
        }
        is_there(step)
            && (has_undo || step.status() != Some(StepStatus::Completed))
            && !others().any(|other| !other.is_ended() && other.speaks_of(id))
            && (others().any(|other| other.part != Part::Removed) || has_undo && self.may_be_done(i, world))
    }

    fn may_be_done(&self, i: usize, world: &mut World<'_>) -> bool {
        self.steps[i].is_out() || !self.undo_of(i, &Json::default(), world).is_empty()
    }

    /// Takes a step out. What it may have done is undone before anything else begins.
    fn remove(&mut self, i: usize, world: &mut World<'_>) {
        self.leave_out(i, true, world);
        let undo = self.undo_of(i, &Json::default(), world);
        self.steps[i].part = Part::Removed;
        self.steps[i].end(StepStatus::Revised);
        let is_map = self.steps[i].spec.for_each.is_some();
        self.steps.extend(undo.into_iter().map(|step| StepRun { goes_on: is_map, ..step }));
    }

    /// Passes over a step. What it has done so far may be undone later. A plan inside it is stopped, and ends before this
    /// one does.
    fn leave_out(&mut self, i: usize, is_skipped: bool, world: &mut World<'_>) {
        if self.steps[i].is_ended() {
            return;
        }
        let is_out = self.stop(i, world);
        let step = &mut self.steps[i];
        step.satisfies = true;
        if is_skipped {
            return step.end(StepStatus::Skipped);
        }
        // What is out, or was tried last and may be done, has these outputs.
        let outputs = Json::from(by_hand());
        if is_out {
            step.piece().outputs = Some(outputs.clone());
        } else if let Some(tried) = step.pieces.last_mut().filter(|piece| piece.unknown && piece.outputs.is_none()) {
            tried.outputs = Some(outputs.clone());
        }
        step.outputs = Some(outputs);
        step.end(StepStatus::Completed);
    }
}
