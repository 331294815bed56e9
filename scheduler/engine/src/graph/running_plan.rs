//! A plan as it is defined, and as it runs: the run puts plans in the place of maps and of decomposed steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use goalmill_common::plan::{Plan, Step, StepKind};

use crate::budget::plan_size::count_step;
use crate::graph::StepIndex;
use crate::revise::inner_plan::{into_items, into_plan};

/// The plan of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunningPlan {
    /// Only revisions and edits change it.
    definition: Arc<Plan>,
    /// Steps in whose place the run has put a plan, as they run.
    expanded: BTreeMap<StepIndex, Box<Step>>,
}

impl RunningPlan {
    /// A plan of which nothing has run.
    pub(crate) fn new(definition: Arc<Plan>) -> Self {
        Self { definition, expanded: BTreeMap::new() }
    }

    /// The plan as it was defined, and as people and planners have changed it.
    pub(crate) fn definition(&self) -> &Arc<Plan> {
        &self.definition
    }

    /// A step as it is defined.
    pub(crate) fn defined(&self, i: StepIndex) -> &Step {
        &self.definition.steps[i]
    }

    /// A step as it runs.
    pub(crate) fn step(&self, i: StepIndex) -> &Step {
        self.as_expanded(i).unwrap_or_else(|| self.defined(i))
    }

    /// A step as it runs; `None` if the plan has no such step.
    pub(crate) fn get(&self, i: StepIndex) -> Option<&Step> {
        self.as_expanded(i).or_else(|| self.definition.steps.get(i.as_usize()))
    }

    fn as_expanded(&self, i: StepIndex) -> Option<&Step> {
        // Most plans have none.
        if self.expanded.is_empty() { None } else { self.expanded.get(&i).map(AsRef::as_ref) }
    }

    /// The steps as they run, also those that revisions removed.
    pub(crate) fn steps(&self) -> impl DoubleEndedIterator<Item = &Step> + ExactSizeIterator {
        (0..self.definition.steps.len()).map(|i| self.step(StepIndex::new(i)))
    }

    /// Whether the run has put a plan in the place of the step.
    pub(crate) fn is_expanded(&self, i: StepIndex) -> bool {
        self.expanded.contains_key(&i)
    }

    /// Steps as they run, with the plans inside them: see [`crate::budget::plan_size::count_steps`].
    pub(crate) fn count_steps(&self) -> u64 {
        self.steps().map(count_step).sum()
    }

    /// Puts a plan in the place of a step.
    pub(crate) fn begin_plan(&mut self, i: StepIndex, plan: Option<Plan>) {
        into_plan(self.expand(i), plan);
    }

    /// Puts the plan of its items in the place of a map.
    pub(crate) fn begin_items(&mut self, i: StepIndex, plan: &Plan) {
        into_items(self.expand(i), plan);
    }

    fn expand(&mut self, i: StepIndex) -> &mut Step {
        self.expanded.entry(i).or_insert_with(|| Box::new(self.definition.steps[i].clone()))
    }

    /// The plan after a revision.
    ///
    /// - `definition`: the changed one. The place of each step is as before.
    /// - `changed`: the steps that it defines otherwise, and whether each begins again.
    pub(crate) fn revised(&self, definition: Plan, changed: impl Iterator<Item = (StepIndex, bool)>) -> Self {
        let mut expanded = self.expanded.clone();
        for (i, restarts) in changed {
            let Some(plan) = expanded.remove(&i).and_then(|step| step.plan).filter(|_| !restarts) else { continue };
            // A step that continues keeps the plan that the run has put in its place.
            let (before, mut step) = (self.defined(i), definition.steps[i].clone());
            // Logs of earlier builds have the step as it runs.
            if before.for_each.is_some() && step.for_each.is_some() {
                into_items(&mut step, &plan);
            } else if before.kind != StepKind::Plan && step.kind != StepKind::Plan {
                into_plan(&mut step, Some(*plan));
            } else {
                continue;
            }
            expanded.insert(i, Box::new(step));
        }
        Self { definition: Arc::new(definition), expanded }
    }
}
