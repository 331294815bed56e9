//! Changes of a running plan: triggers, proposals, what a person says to them, and how they are taken.
//!
//! A trigger makes the plan `replanning`; the planners are asked, outside. Their proposal is resolved into the steps it
//! touches ([`delta`]), validated like a plan, held against the policies ([`answer`]), and taken: recorded step by step
//! and folded at once by the `plan_revised` that follows ([`fold`]).

mod answer;
mod better;
mod change;
mod delta;
mod fold;
mod rewrite;
mod trigger;
mod widen;

use std::collections::BTreeSet;

use goalmill_common::event::{PhaseAdded, QuestionAsked, RevisionProposed};
use goalmill_common::limits::Limits;
use goalmill_common::plan::{RevisionPolicy, Step};
use goalmill_common::problem::Issue;
use goalmill_common::revision::{Answered, Change, Refusal, RevisionRecord, RevisionStrategy};
use goalmill_plan::validate::Rules;

use crate::PlanState;
use crate::graph::StepIndex;

pub(crate) use change::into_plan;
pub(crate) use delta::{Delta, resolve};
pub(crate) use fold::{extend, restage, revise, stage};
pub(crate) use trigger::trigger_of;

/// What revisions add to a plan's state.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Revising {
    /// Recorded, and not in the plan yet: the event that takes it follows.
    pub(crate) staged: Option<Box<Staged>>,
    pub(crate) records: Vec<RevisionRecord>,
    /// Revisions by planners; those by people are not limited.
    pub(crate) by_planners: u32,
    /// Steps that failed, and of which it is not decided yet how to go on without them.
    pub(crate) owed: BTreeSet<StepIndex>,
    pub(crate) questions: u32,
    /// What was said for the revision that is being made.
    pub(crate) refused: Vec<Refusal>,
    pub(crate) answers: Vec<Answered>,
    /// Failed steps at the last trigger: only more of them are another one.
    pub(crate) failures_seen: u32,
    pub(crate) budget_seen: bool,
}

/// Changes between their events and the one that takes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Staged {
    pub(crate) added: Vec<Step>,
    pub(crate) modified: Vec<(StepIndex, Step)>,
    pub(crate) removed: Vec<StepIndex>,
    pub(crate) phases: Vec<PhaseAdded>,
}

/// Says what is wrong with the changes, as the engine will when they are proposed, and whatever `rules` want besides:
/// of agents, actions, inputs and policy. Returns what is odd about the plan that they make.
pub fn consider(
    state: &PlanState,
    changes: &[Change],
    limits: &Limits,
    rules: &Rules<'_>,
) -> Result<Vec<Issue>, Vec<Issue>> {
    let delta = resolve(state, changes, limits)?;
    if let Some(issue) = delta::untouched(state, &delta) {
        return Err(vec![issue]);
    }
    delta::hold_against(state, &delta, limits, rules)
}

impl PlanState {
    /// The plan's policy, or the default one.
    pub(crate) fn policy(&self) -> RevisionPolicy {
        self.plan.revision.unwrap_or_default()
    }

    /// How many revisions planners may still make.
    pub(crate) fn revisions_left(&self, revisions_max: u32) -> u32 {
        let most = self.policy().max.unwrap_or(revisions_max).min(revisions_max);
        most.saturating_sub(self.revising.by_planners)
    }

    /// The plan's confidence after a revision of that kind: what the strategy costs, and a tenth for each revision
    /// before it. Kept to four digits, so that sums of tenths compare as people expect.
    pub(crate) fn confidence_after(&self, strategy: RevisionStrategy) -> f64 {
        let earlier = f64::from(self.revising.by_planners) * goalmill_common::revision::CONFIDENCE_PER_REVISION;
        let after = self.origin.confidence + strategy.confidence_delta() - earlier;
        (after.clamp(0.0, 1.0) * 10_000.0).round() / 10_000.0
    }

    /// How sure a planner that has written all of a plan leaves it: what revisions have cost meanwhile stays paid.
    pub(crate) fn confidence_of_whole(&self, said: f64) -> f64 {
        let said = if said.is_finite() { said.clamp(0.0, 1.0) } else { 0.0 };
        let first = self.revising.records.first().map_or(self.origin.confidence, |record| record.confidence_before);
        let after = said - (first - self.origin.confidence);
        (after.clamp(0.0, 1.0) * 10_000.0).round() / 10_000.0
    }

    /// Every revision so far, with all it changed.
    pub fn revisions(&self) -> &[RevisionRecord] {
        &self.revising.records
    }

    /// The revision that a person must agree to, if there is one.
    pub fn proposed(&self) -> Option<&RevisionProposed> {
        self.waiting.proposed()
    }

    /// What a person is asked for a revision, if anything; what steps ask is in their views.
    pub fn question(&self) -> Option<&QuestionAsked> {
        self.waiting.asked()
    }

    /// Whether the plan is still being written.
    pub fn is_open(&self) -> bool {
        self.origin.open_until_ms > 0
    }
}
