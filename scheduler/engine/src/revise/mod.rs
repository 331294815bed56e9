//! Revisions of a running plan: triggers, proposals, approval, and how they are applied.
//!
//! A trigger makes the plan `replanning`, and the shell asks the planners. Their proposal is resolved into the steps it
//! changes (`delta`), validated like a plan, checked against the policies (`propose`), and recorded step by step.
//! The `plan_revised` that follows applies all of it (`apply`).

pub(crate) mod fork;
pub(crate) mod replan_context;
pub(crate) mod streaming;

pub(crate) mod apply;
pub(crate) mod better_plan;
pub(crate) mod by_person;
mod changes_towards;
mod delta;
mod draft;
mod inner_plan;
pub(crate) mod propose;
pub(crate) mod record;
mod rewrite;
pub(crate) mod trigger;
mod widen;

use std::collections::BTreeSet;

use goalmill_common::event::{HookDecided, QuestionAsked, RevisionProposed};
use goalmill_common::limits::Limits;
use goalmill_common::plan::RevisionPolicy;
use goalmill_common::problem::Issue;
use goalmill_common::replan_situation::{Answered, Refusal};
use goalmill_common::revision::{Change, RevisionRecord, RevisionStrategy};
use goalmill_plan::validate::Rules;

use crate::PlanState;
use crate::graph::StepIndex;
pub(crate) use apply::{extend, fold_revision, restage, stage};
pub(crate) use changes_towards::towards;
pub(crate) use delta::{Delta, resolve};
pub use fork::was_step_undone;
pub(crate) use inner_plan::{into_items, into_plan};
pub use replan_context::live_plan;
pub(crate) use trigger::trigger_of;

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

/// Validates changes as the engine does when they are proposed, and by `rules` (agents, actions, inputs, policy).
/// Returns the warnings of the resulting plan.
pub fn validate_revision(
    state: &PlanState,
    changes: &[Change],
    limits: &Limits,
    rules: &Rules<'_>,
) -> Result<Vec<Issue>, Vec<Issue>> {
    let delta = resolve(state, changes, limits, Some(rules))?;
    match delta::ignored_failure(state, &delta) {
        Some(issue) => Err(vec![issue]),
        None => Ok(delta.warnings),
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
