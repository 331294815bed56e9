//! What a person decides about revisions: approves or rejects a proposal, or edits the plan.

use goalmill_common::event::{PlanEvent, RevisionRefused};
use goalmill_common::plan::{ApprovalDefault, Widen};
use goalmill_common::problem::Issue;
use goalmill_common::revision::{Change, Proposal, RevisionStrategy};
use goalmill_common::status::PlanStatus;

use super::propose::TEXT_CHARS_MAX;
use super::widen::widens;
use super::{Delta, resolve};
use crate::Rejection;
use crate::decide::Turn;

impl Turn<'_> {
    /// Applies an approved revision. It is resolved again, because the plan may have changed.
    pub(crate) fn approve_revision(&mut self, reason: &str) {
        let Some(proposed) = self.state.waiting.proposed().cloned() else { return };
        let proposal = proposed.proposal;
        match resolve(self.state, &proposal.changes, &self.context.limits, None) {
            Ok(delta) => {
                let wider = self.undisclosed_widening(&delta, &proposed.widens);
                if wider.is_empty() {
                    self.apply_revision(proposal, delta, reason);
                } else {
                    self.refuse_proposal(&proposal, "it widens more than was shown", wider);
                }
            }
            Err(issues) => self.refuse_proposal(&proposal, "the plan has changed since the proposal", issues),
        }
    }

    /// Returns what a revision widens beyond what the person saw, unless the policy allows it.
    fn undisclosed_widening(&self, delta: &Delta, shown: &[Issue]) -> Vec<Issue> {
        match self.state.policy().widen {
            Widen::Allow => Vec::new(),
            Widen::Refuse | Widen::Approve => {
                let is_shown = |issue: &Issue| shown.iter().any(|s| s.code == issue.code && s.pointer == issue.pointer);
                widens(self.state, delta).into_iter().filter(|issue| !is_shown(issue)).collect()
            }
        }
    }

    pub(crate) fn reject_revision(&mut self, reason: &str) {
        let Some(proposed) = self.state.waiting.proposed().cloned() else { return };
        let reason =
            if reason.is_empty() { "it was rejected".to_owned() } else { format!("it was rejected: {reason}") };
        self.emit_plan(PlanEvent::RevisionRefused(Box::new(RevisionRefused {
            revision: proposed.revision,
            strategy: proposed.proposal.strategy,
            reason: reason.clone(),
            issues: Vec::new(),
            due_ms: 0,
            usage: proposed.proposal.usage,
        })));
        self.continue_without_revision(reason);
    }

    /// Applies the default decision about a proposed revision.
    pub(crate) fn decide_revision_by_default(&mut self) {
        match self.state.policy().approve.unwrap_or_default().default {
            ApprovalDefault::Approve => self.approve_revision("approval timed out"),
            ApprovalDefault::Reject => self.reject_revision("approval timed out"),
        }
    }

    /// Applies a person's changes. If they contain a planner's proposal, it may widen no more
    /// than was shown.
    pub(crate) fn edit(
        &mut self,
        changes: Vec<Change>,
        revision: Option<u32>,
        reason: String,
    ) -> Result<(), Rejection> {
        if revision.is_some_and(|revision| revision != self.state.revision) {
            return Err(Rejection::StaleRevision { revision: self.state.revision });
        }
        if !self.is_active() && self.state.status != PlanStatus::AwaitingApproval {
            return Err(self.refuse_plan("there is no plan to edit yet"));
        }
        let delta = resolve(self.state, &changes, &self.context.limits, None)
            .map_err(|issues| Rejection::Invalid { reason: "the edited plan would not be valid".into(), issues })?;
        let proposed = self.state.waiting.proposed();
        if let Some(proposed) = proposed.filter(|proposed| changes.starts_with(&proposed.proposal.changes)) {
            let issues = self.undisclosed_widening(&delta, &proposed.widens);
            if !issues.is_empty() {
                let reason = "with these changes the proposed revision widens more than was shown".into();
                return Err(Rejection::Invalid { reason, issues });
            }
        }
        let summary = reason.chars().take(TEXT_CHARS_MAX).collect();
        self.apply_revision(Proposal { summary, ..Proposal::new(RevisionStrategy::Edit, changes) }, delta, "");
        Ok(())
    }
}
