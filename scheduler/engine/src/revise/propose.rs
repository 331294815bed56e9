//! Handles the planners' answer to a replan: refused, proposed to a person, or applied.

use goalmill_common::event::{PlanEvent, PlanningFailed, QuestionAsked, RevisionProposed, RevisionRefused};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::StepId;
use goalmill_common::plan::{Approval, Question, Widen};
use goalmill_common::problem::Issue;
use goalmill_common::revision::{Proposal, RevisionStrategy, Trigger};
use goalmill_plan::document::issue;

use super::changes_towards::towards;
use super::delta::ignored_failure;
use super::resolve;
use super::widen::widens;
use crate::constraints::CONSTRAINT_BROKEN;
use crate::decide::Turn;
use crate::people::waiting::PLANNER_MS;
use crate::{PlanAnswer, Rejection};

/// Invalid proposals of planners to one replan, at most.
const REFUSALS_MAX: usize = 2;
/// Questions of planners for one replan, at most.
const QUESTIONS_MAX: usize = 3;
/// Longest summary or reason kept, in characters.
pub(super) const TEXT_CHARS_MAX: usize = 1_000;
/// Most lines about a revision's changes kept.
const LINES_MAX: usize = 100;

impl Turn<'_> {
    /// The planners' answer to a replan.
    pub(crate) fn revised(&mut self, answer: PlanAnswer) -> Result<(), Rejection> {
        if self.state.waiting.is_for_person() {
            return Err(crate::decide::not_allowed("the plan waits for a person, not for a planner"));
        }
        match answer {
            PlanAnswer::Failed { reason, issues, provenance } => {
                let failed = PlanningFailed { reason: reason.clone(), aborted: false, issues, provenance };
                self.emit_plan(PlanEvent::PlanningFailed(Box::new(failed)));
                self.continue_without_revision(reason);
            }
            PlanAnswer::Plan(planned) | PlanAnswer::Open(planned) => {
                let changes = towards(self.state, &planned.plan);
                let strategy = RevisionStrategy::ReplanRemaining;
                self.propose(Proposal {
                    summary: "replan of the remaining steps".into(),
                    planner: planned.planner,
                    confidence: Some(planned.confidence),
                    provenance: planned.provenance,
                    routes: planned.routes,
                    ..Proposal::new(strategy, changes)
                });
            }
            PlanAnswer::Revision(proposal) => {
                let mut proposal = bounded_proposal(*proposal);
                // Only people edit.
                if proposal.strategy == RevisionStrategy::Edit {
                    proposal.strategy = RevisionStrategy::Workaround;
                }
                if proposal.strategy == RevisionStrategy::Abort {
                    self.abort(proposal);
                } else if proposal.strategy == RevisionStrategy::AskUser {
                    self.ask(proposal);
                } else {
                    self.propose(proposal);
                }
            }
        }
        Ok(())
    }

    /// Ends the plan on a planner's advice. Results are kept; the log has the planner's reason.
    fn abort(&mut self, proposal: Proposal) {
        let summary = proposal.summary;
        let reason = if summary.is_empty() { "a planner advised to abort".into() } else { summary };
        let provenance = proposal.provenance;
        let advised = PlanningFailed { reason: reason.clone(), aborted: true, issues: Vec::new(), provenance };
        self.emit_plan(PlanEvent::PlanningFailed(Box::new(advised)));
        let step = self.state.waiting.replan().and_then(|replan| replan.step.clone());
        let failure = step.as_ref().and_then(|step| self.failure_of(step));
        match (step, failure) {
            (Some(step), Some(failure)) => {
                self.fail_plan_because(crate::attempt::failure::plan_failure(&step, failure), reason);
            }
            (None, _) if self.state.waiting.is_for(Trigger::ConstraintViolation) => {
                let broken = self.state.waiting.replan().map(|replan| replan.reason.clone()).unwrap_or_default();
                let message = format!("{broken}: {reason}");
                self.fail_plan(Failure::new(FailureClass::ConstraintViolation, CONSTRAINT_BROKEN, message));
            }
            (Some(_) | None, _) => {
                self.fail_plan(Failure::new(FailureClass::Permanent, "REVISION_ABORTED", reason));
            }
        }
    }

    fn failure_of(&self, step: &StepId) -> Option<Failure> {
        let i = self.state.graph.find(step.as_str())?;
        self.state.steps[i].failure().cloned()
    }

    /// Checks a proposal against the plan and its policies, then applies or proposes it.
    fn propose(&mut self, proposal: Proposal) {
        if proposal.changes.is_empty() && self.state.is_at_part() {
            return self.finish_iterative_plan(&proposal.summary);
        }
        if self.state.needs_next_part() && self.state.revisions_left(self.context.limits.revisions_max) == 0 {
            let reason = self.state.waiting.replan().map(|replan| replan.reason.clone()).unwrap_or_default();
            return self.end_revisions(&reason);
        }
        let delta = match resolve(self.state, &proposal.changes, &self.context.limits, None) {
            Ok(delta) => delta,
            Err(issues) => return self.refuse_proposal(&proposal, "the revised plan would not be valid", issues),
        };
        // A whole plan may leave the failed step out.
        let is_partial = proposal.strategy != RevisionStrategy::ReplanRemaining;
        if let Some(issue) = ignored_failure(self.state, &delta).filter(|_| is_partial) {
            return self.refuse_proposal(&proposal, "it does not change the failed step", vec![issue]);
        }
        let (before, after) = self.confidences(&proposal);
        let policy = self.state.policy();
        if after < policy.confidence_floor {
            return self.reject_low_confidence(after);
        }
        let mut wider = proposal.widens.clone();
        wider.extend(widens(self.state, &delta));
        let approval = match (policy.approve, policy.widen) {
            (Some(approval), _) if wider.is_empty() || policy.widen != Widen::Refuse => Some(approval),
            (_, Widen::Refuse) if !wider.is_empty() => {
                return self.refuse_proposal(&proposal, "it widens what the plan may do", wider);
            }
            (None, Widen::Approve) if !wider.is_empty() => Some(Approval::default()),
            // A plan cannot allow itself what the installation's policy wants approved.
            (None, Widen::Allow) if !proposal.widens.is_empty() => Some(Approval::default()),
            (_, Widen::Refuse | Widen::Approve | Widen::Allow) => None,
        };
        let Some(approval) = approval else { return self.apply_revision(proposal, delta, "") };
        let limit_ms = approval.limit_ms.min(self.context.limits.approval_ms_max);
        let event = RevisionProposed {
            revision: self.state.revision + 1,
            changes: bounded(delta.lines),
            widens: wider,
            confidence_before: before,
            confidence_after: after,
            due_ms: self.after(limit_ms),
            proposal,
        };
        self.emit_plan(PlanEvent::RevisionProposed(Box::new(event)));
    }

    pub(super) fn confidences(&self, proposal: &Proposal) -> (f64, f64) {
        let before = self.state.origin.confidence;
        // The next part of an iterative plan costs no confidence.
        let is_free = proposal.strategy == RevisionStrategy::Edit || self.state.needs_next_part();
        let after = match proposal.confidence {
            Some(own) if self.state.has_better_plan() => own,
            Some(_) | None if is_free => before,
            Some(_) | None => self.state.confidence_after(proposal.strategy),
        };
        (before, after)
    }

    fn reject_low_confidence(&mut self, after: f64) {
        let floor = self.state.policy().confidence_floor;
        let message = format!("low_confidence: {after:.2} after the revision is below the floor {floor:.2}");
        if !self.is_replan_required() && !self.state.needs_next_part() {
            return self.continue_without_revision(message);
        }
        self.fail_plan(Failure::new(FailureClass::Permanent, "LOW_CONFIDENCE", message));
    }

    pub(super) fn refuse_proposal(&mut self, proposal: &Proposal, reason: &str, issues: Vec<Issue>) {
        let again = !self.state.has_better_plan() && self.state.revising.refused.len() + 1 < REFUSALS_MAX;
        self.emit_plan(PlanEvent::RevisionRefused(Box::new(RevisionRefused {
            revision: self.state.revision + 1,
            strategy: proposal.strategy,
            reason: reason.into(),
            issues,
            due_ms: if again { self.after(PLANNER_MS) } else { 0 },
            usage: proposal.usage,
        })));
        if !again {
            self.continue_without_revision(format!("no valid revision: {reason}"));
        }
    }

    fn ask(&mut self, proposal: Proposal) {
        let asked = self.state.revising.answers.len();
        let Some(question) = proposal.question.clone().filter(|_| asked < QUESTIONS_MAX) else {
            let (code, hint) = ("MISSING_FIELD", "give `question`, or another strategy");
            let detail =
                if asked < QUESTIONS_MAX { "`ask_user` asks nothing" } else { "too many questions for one replan" };
            let issues = vec![issue(code, "/question", detail, hint)];
            return self.refuse_proposal(&proposal, "there is no question", issues);
        };
        if let Some(problem) = self.question_issue(&question) {
            return self.refuse_proposal(&proposal, "the question cannot be asked", vec![problem]);
        }
        let limit_ms = question.limit_ms.min(self.context.limits.approval_ms_max);
        let event = QuestionAsked {
            id: format!("q{}", self.state.revising.questions + 1),
            due_ms: self.after(limit_ms),
            question: Question { into: None, ..question },
            usage: proposal.usage,
        };
        self.emit_plan(PlanEvent::QuestionAsked(Box::new(event)));
    }

    /// Returns why a question cannot be asked.
    fn question_issue(&mut self, question: &Question) -> Option<Issue> {
        let answer = question.default.clone()?;
        let detail = self.answer_issue(question.schema.as_ref(), &answer)?;
        let hint = "give a `default` that fits the `schema`";
        Some(issue("INVALID_VALUE", "/question/default", detail, hint))
    }
}

fn bounded_proposal(proposal: Proposal) -> Proposal {
    Proposal {
        summary: proposal.summary.chars().take(TEXT_CHARS_MAX).collect(),
        usage: proposal.usage.bounded(),
        confidence: proposal.confidence.filter(|confidence| confidence.is_finite()),
        ..proposal
    }
}

pub(super) fn bounded(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(format!("and {more} more"));
    }
    lines
}
