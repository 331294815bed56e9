//! Revisions of a running plan: triggers, proposals, approval, and how they are applied.
//!
//! A trigger makes the plan `replanning`, and the shell asks the planners. Their proposal is resolved into the steps it
//! changes (`resolve`), validated like a plan, checked against the policies (`propose`), and recorded step by step.
//! The `plan_revised` that follows applies all of it (`fold`).

pub(crate) mod fork;
pub(crate) mod replan_context;
pub(crate) mod revising;
pub(crate) mod routing;
pub(crate) mod streaming;

pub(crate) mod better_plan;
pub(crate) mod by_person;
pub(crate) mod changes_towards;
pub(crate) mod delta;
pub(crate) mod fold;
pub(crate) mod inner_plan;
pub(crate) mod propose;
pub(crate) mod record;
pub(crate) mod resolve;
mod revision_draft;
mod rewrite;
pub(crate) mod trigger;
mod widen;

use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_common::revision::Change;
use goalmill_plan::validate::Rules;

use crate::PlanState;
pub use fork::was_step_undone;
pub use replan_context::live_plan;
pub use revising::{is_plan_open, open_question, proposed, revisions};

/// Validates changes as the engine does when they are proposed, and by `rules` (agents, actions, inputs, policy).
/// Returns the warnings of the resulting plan.
pub fn validate_revision(
    state: &PlanState,
    changes: &[Change],
    limits: &Limits,
    rules: &Rules<'_>,
) -> Result<Vec<Issue>, Vec<Issue>> {
    let delta = resolve::resolve(state, changes, limits, Some(rules))?;
    match resolve::ignored_failure(state, &delta) {
        Some(issue) => Err(vec![issue]),
        None => Ok(delta.warnings),
    }
}
