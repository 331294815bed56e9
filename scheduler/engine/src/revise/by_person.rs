//! What a person decides about revisions: approves or rejects a proposal, or edits the plan.

use goalmill_common::event::{PlanEvent, RevisionRefused};
use goalmill_common::plan::{ApprovalDefault, Widen};
use goalmill_common::problem::Issue;
use goalmill_common::revision::{Change, Proposal, RevisionStrategy};
use goalmill_common::status::PlanStatus;

use super::widen::widens;
use crate::revise::delta::Delta;
use crate::revise::record::TEXT_CHARS_MAX;
use crate::revise::resolve::resolve;
use crate::revise::{propose, record, revising};
use crate::turn::Turn;
use crate::{Rejection, refusals};

/// Applies an approved revision. It is resolved again, because the plan may have changed.
pub(crate) fn approve_revision(turn: &mut Turn<'_>, reason: &str) {
    let Some(proposed) = turn.state.waiting.proposed().cloned() else { return };
    let proposal = proposed.proposal;
    match resolve(turn.state, &proposal.changes, &turn.context.limits, None) {
        Ok(delta) => {
            let wider = undisclosed_widening(turn, &delta, &proposed.widens);
            if wider.is_empty() {
                record::apply_revision(turn, proposal, delta, reason);
            } else {
                propose::refuse_proposal(turn, &proposal, "it widens more than was shown", wider);
            }
        }
        Err(issues) => propose::refuse_proposal(turn, &proposal, "the plan has changed since the proposal", issues),
    }
}

/// Returns what a revision widens beyond what the person saw, unless the policy allows it.
fn undisclosed_widening(turn: &Turn<'_>, delta: &Delta, shown: &[Issue]) -> Vec<Issue> {
    match revising::policy(turn.state).widen {
        Widen::Allow => Vec::new(),
        Widen::Refuse | Widen::Approve => {
            let is_shown = |issue: &Issue| shown.iter().any(|s| s.code == issue.code && s.pointer == issue.pointer);
            widens(turn.state, delta).into_iter().filter(|issue| !is_shown(issue)).collect()
        }
    }
}

pub(crate) fn reject_revision(turn: &mut Turn<'_>, reason: &str) {
    let Some(proposed) = turn.state.waiting.proposed().cloned() else { return };
    let reason = if reason.is_empty() { "it was rejected".to_owned() } else { format!("it was rejected: {reason}") };
    turn.emit_plan(PlanEvent::RevisionRefused(Box::new(RevisionRefused {
        revision: proposed.revision,
        strategy: proposed.proposal.strategy,
        reason: reason.clone(),
        issues: Vec::new(),
        due_ms: 0,
        usage: proposed.proposal.usage,
    })));
    record::continue_without_revision(turn, reason);
}

/// Applies the default decision about a proposed revision.
pub(crate) fn decide_revision_by_default(turn: &mut Turn<'_>) {
    match revising::policy(turn.state).approve.unwrap_or_default().default {
        ApprovalDefault::Approve => approve_revision(turn, "approval timed out"),
        ApprovalDefault::Reject => reject_revision(turn, "approval timed out"),
    }
}

/// Applies a person's changes. If they contain a planner's proposal, it may widen no more
/// than was shown.
pub(crate) fn edit(
    turn: &mut Turn<'_>,
    changes: Vec<Change>,
    revision: Option<u32>,
    reason: String,
) -> Result<(), Rejection> {
    if revision.is_some_and(|revision| revision != turn.state.revision) {
        return Err(Rejection::StaleRevision { revision: turn.state.revision });
    }
    if !turn.is_active() && turn.state.status != PlanStatus::AwaitingApproval {
        return Err(refusals::refuse_plan(turn, "there is no plan to edit yet"));
    }
    let delta = resolve(turn.state, &changes, &turn.context.limits, None)
        .map_err(|issues| Rejection::Invalid { reason: "the edited plan would not be valid".into(), issues })?;
    let proposed = turn.state.waiting.proposed();
    if let Some(proposed) = proposed.filter(|proposed| changes.starts_with(&proposed.proposal.changes)) {
        let issues = undisclosed_widening(turn, &delta, &proposed.widens);
        if !issues.is_empty() {
            let reason = "with these changes the proposed revision widens more than was shown".into();
            return Err(Rejection::Invalid { reason, issues });
        }
    }
    let summary = reason.chars().take(TEXT_CHARS_MAX).collect();
    record::apply_revision(turn, Proposal { summary, ..Proposal::new(RevisionStrategy::Edit, changes) }, delta, "");
    Ok(())
}
