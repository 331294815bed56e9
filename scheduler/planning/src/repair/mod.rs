//! Repairs what is logically wrong with a draft without asking a model.
//!
//! Every change is an [`Edit`] that says what was, what became and why. Nothing is invented: names become names of the
//! catalogue, references become references to steps that the draft itself connects, and a value is never made up. What
//! could mean several things is left as it is, for the critique. The draft keeps its layout, so that the places of what
//! is still wrong are places in what the model wrote.

mod context;
mod dependencies;
mod dependency_status;
mod edit;
mod field_names;
mod fields;
mod ids;
mod names;
mod notation;
mod order;
mod placeholders;
mod references;
mod sequence;

use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_plan::states::ValidPlan;
use goalmill_plan::validate::{self, Rules};
use serde_json::Value;

pub use edit::Edit;
pub(crate) use sequence::names_dependencies;

use context::RepairContext;

/// A draft after repairing.
#[derive(Clone, Debug)]
pub struct RepairedDraft {
    pub draft: Value,
    /// What was changed, in the order in which it was.
    pub edits: Vec<Edit>,
    /// The plan, or what is still wrong with the draft.
    pub outcome: Result<ValidPlan, Vec<Issue>>,
}

/// Repairs a draft as far as it can be done with certainty, and validates the result.
///
/// A draft that is valid comes back as it is, except that placeholders (`<Room ID>`) become references or questions. Plans
/// inside steps stay as they are. Pure: the same draft always gives the same edits.
pub fn repair(draft: Value, limits: &Limits, rules: &Rules<'_>) -> RepairedDraft {
    repair_by(draft, limits, rules, false)
}

/// The same for what a model wrote as a whole plan: without any dependency, its steps run in the order in which they are
/// listed.
pub fn repair_list(draft: Value, limits: &Limits, rules: &Rules<'_>) -> RepairedDraft {
    repair_by(draft, limits, rules, true)
}

fn repair_by(mut draft: Value, limits: &Limits, rules: &Rules<'_>, is_list: bool) -> RepairedDraft {
    let mut renamed = Vec::new();
    field_names::repair(&mut draft, &mut renamed);
    let mut work = match RepairContext::from_draft(draft, rules) {
        Ok(work) => work,
        Err(draft) => {
            let outcome = validate::validate_plan_by(&draft, limits, rules);
            return RepairedDraft { draft, edits: renamed, outcome };
        }
    };
    work.edits = renamed;
    ids::complete(&mut work);
    references::rename_outputs(&mut work);
    if is_list {
        sequence::complete(&mut work);
    }
    placeholders::resolve(&mut work);
    let outcome = validate::validate_plan_by(&work.draft, limits, rules);
    if outcome.is_ok() {
        return finish(work, outcome);
    }
    dependency_status::repair(&mut work);
    ids::unique(&mut work);
    dependencies::index(&mut work);
    names::agents(&mut work);
    names::actions(&mut work);
    dependencies::rename(&mut work);
    order::find(&mut work);
    references::resolve(&mut work);
    dependencies::resolve(&mut work);
    fields::align(&mut work);
    order::write(&mut work);
    let outcome = validate::validate_plan_by(&work.draft, limits, rules);
    finish(work, outcome)
}

/// What is still open counts as an issue, also when the draft is valid.
fn finish(mut work: RepairContext<'_>, outcome: Result<ValidPlan, Vec<Issue>>) -> RepairedDraft {
    work.sweep();
    let mut unresolved = notation::issues(&work);
    unresolved.extend(placeholders::unresolved(&work));
    let outcome = match (outcome, unresolved) {
        (Ok(valid), unresolved) if unresolved.is_empty() => Ok(valid),
        (Ok(_), unresolved) => Err(unresolved),
        (Err(issues), unresolved) => Err(issues.into_iter().chain(unresolved).collect()),
    };
    RepairedDraft { draft: work.draft, edits: work.edits, outcome }
}

#[cfg(test)]
mod tests;
