//! The ready steps that the engine runs itself, and the steps of a sequential plan among which one has its turn.

use std::collections::BTreeSet;

use goalmill_common::plan::{Step, StepKind};

use crate::graph::StepIndex;

/// Ready steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReadySteps {
    inline: BTreeSet<StepIndex>,
    /// They need no capacity.
    waits: BTreeSet<StepIndex>,
    /// They need capacity like dispatched ones.
    sub_plans: BTreeSet<StepIndex>,
    /// Of a sequential plan: steps that may begin or have begun, and have not ended. The first one has its turn.
    listed: BTreeSet<StepIndex>,
}

impl ReadySteps {
    /// Notes whether a step is ready. Steps with a queue are not tracked.
    pub(crate) fn set_ready(&mut self, i: StepIndex, step: &Step, is_ready: bool) {
        let set = if step.starts_plan() {
            &mut self.sub_plans
        } else if step.kind == StepKind::Wait {
            &mut self.waits
        } else if step.kind.is_inline() {
            &mut self.inline
        } else {
            return;
        };
        set_member(set, i, is_ready);
    }

    /// Notes whether a step of a sequential plan may begin or has begun, and has not ended.
    pub(crate) fn set_listed(&mut self, i: StepIndex, is_listed: bool) {
        set_member(&mut self.listed, i, is_listed);
    }

    /// The first step of a sequential plan that may begin or has begun.
    pub(crate) fn first_listed(&self) -> Option<StepIndex> {
        self.listed.first().copied()
    }

    pub(crate) fn inline(&self) -> impl Iterator<Item = StepIndex> + '_ {
        self.inline.iter().copied()
    }

    pub(crate) fn waits(&self) -> impl Iterator<Item = StepIndex> + '_ {
        self.waits.iter().copied()
    }

    pub(crate) fn sub_plans(&self) -> impl Iterator<Item = StepIndex> + '_ {
        self.sub_plans.iter().copied()
    }

    /// Whether a step is ready that the engine runs itself.
    pub(crate) fn has_engine_step(&self) -> bool {
        !(self.waits.is_empty() && self.inline.is_empty() && self.sub_plans.is_empty())
    }
}

fn set_member(set: &mut BTreeSet<StepIndex>, i: StepIndex, is_member: bool) {
    if is_member {
        set.insert(i);
    } else {
        set.remove(&i);
    }
}
