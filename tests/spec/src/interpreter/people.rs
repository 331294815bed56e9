//! What people do with a plan and its steps.

use goalmill_common::failure::FailureClass;
use goalmill_common::status::StepStatus;

use super::plan_run::{End, PlanRun, Stage, failure};
use super::step_run::{Part, Work};
use super::world::World;
use crate::script::Wish;

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
            Wish::Resume => self.pause(false),
            Wish::Approve(step) | Wish::Reject(step) => {
                if let Some(i) = self.find(step).filter(|i| matches!(self.steps[*i].work, Work::Asked { .. })) {
                    self.decide(i, matches!(wish, Wish::Approve(_)), world);
                }
            }
            Wish::Skip(step) => {
                let is_due = |i: &usize| may_skip && self.steps[*i].part == part;
                self.find(step).filter(is_due).into_iter().for_each(|i| self.leave_out(i, world));
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

    /// Each item of a map is approved by itself.
    fn asks_person(&self, i: usize) -> bool {
        let spec = &self.steps[i].spec;
        spec.approve.is_some() && spec.for_each.is_none()
    }

    /// The step may begin once a person has approved it, if one must.
    pub(super) fn open(&mut self, i: usize, world: &World<'_>) {
        let limit_ms = self.steps[i].spec.approve.unwrap_or_default().limit_ms;
        let until_ms = world.now_ms + limit_ms;
        self.steps[i].work = if self.asks_person(i) { Work::Asked { until_ms } } else { Work::Ready };
    }

    /// The decision about a step that waits for one.
    pub(super) fn decide(&mut self, i: usize, is_approved: bool, world: &mut World<'_>) {
        if is_approved {
            self.steps[i].work = Work::Ready;
        } else {
            self.give_up(i, failure(FailureClass::Permanent, "REJECTED"), world);
        }
    }

    /// Passes over a step. What it has done so far may be undone later. A plan inside it is stopped, and ends before this
    /// one does.
    fn leave_out(&mut self, i: usize, world: &mut World<'_>) {
        let step = &mut self.steps[i];
        match &step.work {
            Work::Ended(_) => return,
            Work::Inside => {
                let mut inner = step.plans.pop();
                inner.iter_mut().for_each(|inner| inner.begin_end(End::cancelled(), world));
                self.left.extend(inner);
            }
            Work::Out { .. } => step.piece().unknown = true,
            Work::Pending | Work::Asked { .. } | Work::Ready | Work::Backoff { .. } | Work::Waiting { .. } => {}
        }
        let step = &mut self.steps[i];
        step.satisfies = true;
        step.end(StepStatus::Skipped);
    }
}
