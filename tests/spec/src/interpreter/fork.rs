//! Forks: a plan that continues from what another one has done.

use std::collections::BTreeSet;

use goalmill_common::id::StepId;
use goalmill_common::limits::Limits;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::status::StepStatus;

use super::plan_run::PlanRun;
use super::step_run::{Part, StepRun, Work};
use super::world::World;

impl PlanRun {
    /// Law 3.2: a plan by the definition of this one that keeps its results: of completed steps whose work was not undone.
    /// `None` if there is no such step.
    ///
    /// - `step`: runs again, with all that follows from it.
    pub(super) fn fork(&self, step: Option<&str>, world: &mut World<'_>) -> Option<Self> {
        let plan = self.definition();
        let mut again: BTreeSet<StepId> = self.undone().collect();
        if let Some(step) = step {
            again.insert(plan.steps.iter().find(|spec| spec.id.as_str() == step)?.id.clone());
        }
        let follows = |spec: &&Step, again: &BTreeSet<StepId>| {
            !again.contains(&spec.id) && spec.dependencies.iter().any(|id| again.contains(id))
        };
        while let Some(next) = plan.steps.iter().find(|spec| follows(spec, &again)) {
            again.insert(next.id.clone());
        }
        // Another plan may take all events once more, and has as much time as any.
        world.forget_taken();
        let deadline_ms = world.now_ms + Limits::default().plan_ms_max;
        let mut fork = Self::new(plan, self.goal.clone(), deadline_ms);
        let is_kept = |step: &&StepRun| step.status() == Some(StepStatus::Completed) && !again.contains(&step.spec.id);
        for done in self.steps.iter().filter(|step| step.part == Part::Main).filter(is_kept) {
            let own = fork.steps.iter_mut().find(|step| step.spec.id == done.spec.id)?;
            (own.outputs, own.partial, own.satisfies) = (done.outputs.clone(), done.partial, true);
            own.work = Work::Ended(StepStatus::Completed);
        }
        Some(fork)
    }

    /// The plan as it was written, and as people and planners have changed it.
    fn definition(&self) -> Plan {
        let live = || self.steps.iter().filter(|step| matches!(step.part, Part::Main | Part::Always));
        let is_live = |id: &StepId| live().any(|step| step.spec.id == *id);
        let mut steps: Vec<Step> = live().map(|step| step.spec.clone()).collect();
        steps.iter_mut().for_each(|step| step.dependencies.retain(is_live));
        steps.extend(self.undo.iter().filter(|undo| undo.undoes.as_ref().is_some_and(is_live)).cloned());
        Plan { steps, ..self.plan.clone() }
    }

    /// Steps whose work was undone when the plan ended.
    fn undone(&self) -> impl Iterator<Item = StepId> {
        let undone = self.steps.iter().filter(|step| step.part == Part::Undo && step.begun.is_some());
        undone.filter_map(|step| step.undoes.clone())
    }
}
