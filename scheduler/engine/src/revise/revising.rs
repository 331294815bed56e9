//! What is known of the revisions of a plan.

use std::collections::BTreeSet;

use goalmill_common::event::{HookDecided, QuestionAsked, RevisionProposed};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::plan::RevisionPolicy;
use goalmill_common::replan_situation::{Answered, Refusal};
use goalmill_common::revision::{RevisionRecord, RevisionStrategy, Trigger};

use crate::PlanState;
use crate::graph::StepIndex;
use crate::revise::delta::Delta;

/// The revision state of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Revising {
    /// Recorded changes that the next `plan_revised` or `plan_extended` applies.
    pub(crate) staged: Option<Box<Delta>>,
    pub(crate) records: Vec<RevisionRecord>,
    /// Revisions by planners; those by people are not limited.
    pub(crate) by_planners: u32,
    /// Steps that planners left out: skipped, or removed without another one in their place.
    pub(crate) left_out: BTreeSet<StepIndex>,
    /// Failed steps whose failure policy is not applied yet.
    pub(crate) deferred_failures: BTreeSet<StepIndex>,
    pub(crate) questions: u32,
    /// Refused proposals of the current replan.
    pub(crate) refused: Vec<Refusal>,
    pub(crate) answers: Vec<Answered>,
    /// Number of failed steps at the last replan: only more of them trigger again.
    pub(crate) failures_seen: u32,
    pub(crate) budget_seen: bool,
    /// A person agreed to a revision with all that it is estimated to spend.
    pub(crate) estimates_agreed: bool,
    /// The number of the event that began the current replan.
    pub(crate) replan_seq: u64,
    /// What the hooks decided about the current replan.
    pub(crate) hook: Option<Box<HookDecided>>,
}

impl Revising {
    /// Forgets the refusals and answers of the replan that ends.
    pub(crate) fn end_replan(&mut self) {
        self.refused.clear();
        self.answers.clear();
        self.hook = None;
    }
}

/// The trigger of a failure.
pub(crate) fn trigger_of(failure: &Failure) -> Trigger {
    if failure.code == "UNEXPECTED_RESULT" {
        Trigger::UnexpectedResult
    } else if failure.class == FailureClass::ConstraintViolation {
        Trigger::ConstraintViolation
    } else {
        Trigger::StepFailure
    }
}

/// The plan's revision policy, or the default one.
pub(crate) fn policy(state: &PlanState) -> RevisionPolicy {
    state.plan.definition().revision.clone().unwrap_or_default()
}

/// How many revisions planners may still make.
pub(crate) fn revisions_left(state: &PlanState, revisions_max: u32) -> u32 {
    let most = policy(state).max.unwrap_or(revisions_max).min(revisions_max);
    most.saturating_sub(state.revising.by_planners)
}

/// The plan's confidence after a revision: minus the cost of the strategy, and a tenth for each revision
/// before it. Rounded to four digits, so that sums of tenths compare exactly.
pub(crate) fn confidence_after(state: &PlanState, strategy: RevisionStrategy) -> f64 {
    let earlier = f64::from(state.revising.by_planners) * goalmill_common::revision::CONFIDENCE_PER_REVISION;
    let after = state.origin.confidence + strategy.confidence_delta() - earlier;
    (after.clamp(0.0, 1.0) * 10_000.0).round() / 10_000.0
}

/// The confidence of a streamed plan when it is complete, minus what revisions have cost so far.
pub(crate) fn confidence_of_whole(state: &PlanState, said: f64) -> f64 {
    let said = if said.is_finite() { said.clamp(0.0, 1.0) } else { 0.0 };
    let first = state.revising.records.first().map_or(state.origin.confidence, |record| record.confidence_before);
    let after = said - (first - state.origin.confidence);
    (after.clamp(0.0, 1.0) * 10_000.0).round() / 10_000.0
}

/// Every revision so far, with all it changed.
pub fn revisions(state: &PlanState) -> &[RevisionRecord] {
    &state.revising.records
}

/// The revision that awaits a person's approval.
pub fn proposed(state: &PlanState) -> Option<&RevisionProposed> {
    state.waiting.proposed()
}

/// A planner's question that awaits a person's answer.
pub fn open_question(state: &PlanState) -> Option<&QuestionAsked> {
    state.waiting.asked()
}

/// Whether the plan is still being written.
pub fn is_plan_open(state: &PlanState) -> bool {
    state.origin.open_until_ms > 0
}

/// Whether every step of an iterative plan is final and its last phase ends in a checkpoint.
pub(crate) fn is_part_due(state: &PlanState) -> bool {
    let last = state.plan.definition().phases.last().is_some_and(|phase| phase.checkpoint);
    last && state.phases.current() == state.plan.definition().phases.len()
        && state.is_done()
        && state.plan.definition().is_iterative()
}

/// Whether an iterative plan is replanned at a checkpoint.
pub(crate) fn is_at_part(state: &PlanState) -> bool {
    state.waiting.is_for(Trigger::PhaseCheckpoint) && state.plan.definition().is_iterative()
}

/// Whether an iterative plan has run all its steps and waits for its next part.
pub(crate) fn needs_next_part(state: &PlanState) -> bool {
    is_at_part(state) && state.is_done()
}

/// Whether the current replan is about a better plan: no planner is asked, and it is optional.
pub(crate) fn has_better_plan(state: &PlanState) -> bool {
    state.waiting.is_for(Trigger::BetterPlan)
}
