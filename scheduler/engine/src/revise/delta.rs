//! What a revision does to each step.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::event::PhaseAdded;
use goalmill_common::id::StepId;
use goalmill_common::plan::{Phase, Plan, Step};
use goalmill_common::problem::Issue;
use goalmill_common::status::StepStatus;

use crate::PlanState;
use crate::graph::StepIndex;

/// The effect of a revision on each step: as it is resolved, and again as the log's events tell it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Delta {
    pub(crate) added: Vec<Step>,
    pub(crate) modified: BTreeMap<StepIndex, Step>,
    pub(crate) removed: BTreeSet<StepIndex>,
    pub(crate) skipped: BTreeMap<StepIndex, String>,
    /// Steps that restart, changed or not.
    pub(crate) restarted: BTreeSet<StepIndex>,
    pub(crate) phases: Vec<PhaseAdded>,
    /// For people.
    pub(crate) lines: Vec<String>,
    /// Warnings about the resulting plan.
    pub(crate) warnings: Vec<Issue>,
}

impl Delta {
    pub(super) fn is_empty(&self) -> bool {
        let Self { added, modified, removed, skipped, restarted, phases, lines: _, warnings: _ } = self;
        let steps = added.is_empty() && modified.is_empty() && removed.is_empty() && skipped.is_empty();
        steps && restarted.is_empty() && phases.is_empty()
    }

    /// The step after the revision; `None` for a removed one.
    pub(crate) fn spec<'a>(&'a self, state: &'a PlanState, i: StepIndex) -> Option<&'a Step> {
        let live = state.steps[i].status() != StepStatus::Revised && !self.removed.contains(&i);
        live.then(|| self.modified.get(&i).unwrap_or_else(|| state.plan.defined(i)))
    }

    /// Takes the dependencies that validation has inferred.
    pub(super) fn take_dependencies(&mut self, valid: &Plan) {
        let inferred: BTreeMap<&StepId, &Step> = valid.steps.iter().map(|step| (&step.id, step)).collect();
        for step in self.added.iter_mut().chain(self.modified.values_mut()) {
            if let Some(valid) =
                inferred.get(&step.id).filter(|valid| valid.dependencies.len() > step.dependencies.len())
            {
                step.dependencies.clone_from(&valid.dependencies);
            }
        }
    }

    /// What begins again has the form in which it was defined: its items may be others.
    pub(super) fn restore_definitions(&mut self, state: &PlanState) {
        for i in self.restarted.iter().filter(|i| state.plan.is_expanded(**i)) {
            self.modified.entry(*i).or_insert_with(|| state.plan.defined(*i).clone());
        }
    }
}

pub(super) fn phase_of(added: &PhaseAdded) -> Phase {
    Phase { id: added.phase.clone(), description: added.description.clone(), checkpoint: added.checkpoint }
}
