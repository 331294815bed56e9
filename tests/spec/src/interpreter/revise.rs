//! Changes of a running plan: steps that begin again, as they were or otherwise.

use std::collections::BTreeSet;

use goalmill_common::json::Json;
use goalmill_common::status::StepStatus;

use super::plan_run::{End, PlanRun};
use super::step_run::{Part, StepRun, Work};
use super::world::World;

impl PlanRun {
    /// Lets a step begin again, with other inputs if there are some. A completed step stays, and so does a plan that would
    /// not change.
    pub(super) fn change(&mut self, i: usize, inputs: Option<Json>, world: &mut World<'_>) {
        let step = &self.steps[i];
        let is_same = inputs.as_ref().is_some_and(|inputs| *inputs == step.spec.inputs);
        let is_over = matches!(step.status(), Some(StepStatus::Failed | StepStatus::Skipped));
        if (step.is_ended() || is_same) && !is_over {
            return;
        }
        let mut again = BTreeSet::new();
        if inputs.is_none() || !matches!(step.work, Work::Pending) {
            again.insert(i);
        }
        let before = self.steps[i].spec.clone();
        self.steps[i].spec.inputs = inputs.clone().unwrap_or_else(|| before.inputs.clone());
        while let Some(next) = (0..self.steps.len()).find(|n| !again.contains(n) && self.is_reopened(*n, &again)) {
            again.insert(next);
        }
        // A step that speaks of one that was taken out cannot begin.
        let gone: Vec<&StepRun> = self.steps.iter().filter(|step| step.part == Part::Removed).collect();
        if again.iter().chain([&i]).any(|n| gone.iter().any(|gone| self.steps[*n].speaks_of(&gone.spec.id))) {
            self.steps[i].spec = before;
            return;
        }
        again.into_iter().for_each(|n| self.restart(n, world));
        self.steps[i].edition += u32::from(inputs.is_some() && !is_same);
    }

    /// Whether a step begins again because others do: it waits for them, or was passed over because of them.
    fn is_reopened(&self, i: usize, again: &BTreeSet<usize>) -> bool {
        let step = &self.steps[i];
        let reopened = |n: &usize| step.spec.dependencies.contains(&self.steps[*n].spec.id);
        if step.status() == Some(StepStatus::Skipped) {
            return !step.satisfies && again.iter().any(reopened);
        }
        let has_waited = !step.is_ended() && !matches!(step.work, Work::Pending) && step.part != Part::Undo;
        has_waited && again.iter().any(reopened) && !self.is_met(i, again)
    }

    fn restart(&mut self, i: usize, world: &mut World<'_>) {
        self.stop(i, world);
        let step = &mut self.steps[i];
        let (spec, edition) = (step.spec.clone(), step.edition);
        let (pieces, plans) = (std::mem::take(&mut step.pieces), std::mem::take(&mut step.plans));
        let fresh = StepRun::new(spec, step.part);
        *step = StepRun { edition, pieces, plans, begun: step.begun, last_ms: step.last_ms, ..fresh };
    }

    /// Stops what a step is at. Law 4.3: an attempt that is out may be done. A plan inside it ends before this one does.
    /// Returns whether an attempt is out.
    pub(super) fn stop(&mut self, i: usize, world: &mut World<'_>) -> bool {
        let step = &mut self.steps[i];
        let is_out = step.end_out();
        if matches!(step.work, Work::Inside) {
            let mut inner = step.plans.pop();
            inner.iter_mut().for_each(|inner| inner.begin_end(End::cancelled(), world));
            self.left.extend(inner);
        }
        is_out
    }
}
