//! Handles the planners' answer to a replan: refused, proposed to a person, or applied.

use std::collections::BTreeSet;

use goalmill_common::event::{
    PlanEvent, PlanRevised, PlanningFailed, QuestionAsked, Reason, RevisionProposed, RevisionRefused, SkipCause,
    StepAdded, StepEvent, StepModified,
};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::StepId;
use goalmill_common::plan::{Approval, ApprovalDefault, Question, Widen};
use goalmill_common::problem::Issue;
use goalmill_common::revision::{Change, Proposal, RevisionStrategy, Trigger};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_plan::document::issue;

use super::delta::ignored_failure;
use super::draft::towards;
use super::widen::widens;
use super::{Delta, resolve};
use crate::constraints::CONSTRAINT_BROKEN;
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::waiting::PLANNER_MS;
use crate::{Effect, PlanAnswer, Rejection};

/// Invalid proposals of planners to one replan, at most.
const REFUSALS_MAX: usize = 2;
/// Questions of planners for one replan, at most.
const QUESTIONS_MAX: usize = 3;
/// Longest summary or reason kept, in characters.
const TEXT_CHARS_MAX: usize = 1_000;
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
                match proposal.strategy {
                    RevisionStrategy::Abort => self.abort(proposal),
                    RevisionStrategy::AskUser => self.ask(proposal),
                    RevisionStrategy::Edit => {
                        // Only people edit.
                        proposal.strategy = RevisionStrategy::Workaround;
                        self.propose(proposal);
                    }
                    RevisionStrategy::RetryWithAgent
                    | RevisionStrategy::Decompose
                    | RevisionStrategy::Workaround
                    | RevisionStrategy::Adjust
                    | RevisionStrategy::ReplanRemaining
                    | RevisionStrategy::InsertRecovery
                    | RevisionStrategy::SkipAndContinue => self.propose(proposal),
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
                self.fail_plan_because(crate::failure::plan_failure(&step, failure), reason);
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

    fn confidences(&self, proposal: &Proposal) -> (f64, f64) {
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

    fn refuse_proposal(&mut self, proposal: &Proposal, reason: &str, issues: Vec<Issue>) {
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

    /// Records a revision and continues the plan.
    ///
    /// - `approved_because`: the reason of the person who approved; empty without approval.
    pub(crate) fn apply_revision(&mut self, proposal: Proposal, delta: Delta, approved_because: &str) {
        let by_person = proposal.strategy == RevisionStrategy::Edit;
        let replan = self.state.waiting.replan().filter(|_| !by_person);
        let trigger = replan.map_or_else(|| Trigger::Edit.as_str().to_owned(), |replan| replan.trigger.clone());
        let (step, reason) = replan.map(|replan| (replan.step.clone(), replan.reason.clone())).unwrap_or_default();
        let (before, after) = self.confidences(&proposal);
        self.remember_timers();
        self.withdraw_attempts(&delta);
        self.skip_steps(&delta);
        self.emit_changes(&delta, &proposal.summary);
        let id = |i: &StepIndex| self.id_of(*i);
        let revised = PlanRevised {
            revision: self.state.revision + 1,
            trigger,
            changes: bounded(delta.lines),
            added: delta.added.iter().map(|step| step.id.clone()).collect(),
            removed: delta.removed.iter().map(id).collect(),
            modified: delta.modified.keys().map(id).collect(),
            skipped: delta.skipped.keys().map(id).collect(),
            restarted: delta.restarted.iter().map(id).collect(),
            confidence_delta: ((after - before) * 10_000.0).round() / 10_000.0,
            confidence_before: before,
            confidence_after: after,
            strategy: Some(proposal.strategy),
            step,
            reason,
            summary: proposal.summary,
            planner: proposal.planner,
            provenance: proposal.provenance,
            routes: proposal.routes,
            usage: proposal.usage,
            approved_because: approved_because.chars().take(TEXT_CHARS_MAX).collect(),
        };
        self.emit_plan(PlanEvent::Revised(Box::new(revised)));
        // They may have another priority.
        let ready = delta.modified.keys().filter(|i| self.status_of(**i) == StepStatus::Ready);
        let offered: Vec<StepIndex> = ready.copied().filter(|i| self.state.is_offered(*i)).collect();
        self.effects.extend(offered.into_iter().map(Effect::Ready));
        if self.is_active() {
            self.handle_deferred_failure();
            self.unlock_steps();
        }
    }

    /// Withdraws attempts whose work is no longer needed.
    fn withdraw_attempts(&mut self, delta: &Delta) {
        let gone = delta.removed.iter().chain(delta.skipped.keys()).chain(&delta.restarted);
        // A step that is changed while a call of it waits must not go on with what the call gives.
        let waits = |i: &StepIndex| self.status_of(*i) == StepStatus::Retrying && self.waiting_call(*i).is_some();
        let changed = delta.modified.keys().copied().filter(&waits);
        let is_there = |i: &StepIndex| self.status_of(*i).is_in_flight() || waits(i);
        let withdrawn: BTreeSet<StepIndex> = gone.copied().filter(is_there).chain(changed).collect();
        for i in withdrawn {
            self.cancel_attempt(i);
            self.emit_step(i, StepEvent::Recalled(Reason::boxed("the plan is revised")));
        }
    }

    /// Skips steps before the revision, which names them.
    fn skip_steps(&mut self, delta: &Delta) {
        for (i, why) in &delta.skipped {
            let reason = if why.is_empty() { "skipped by a revision".into() } else { why.clone() };
            self.skip(*i, SkipCause::Revision, reason);
        }
    }

    fn emit_changes(&mut self, delta: &Delta, summary: &str) {
        for phase in &delta.phases {
            self.emit_plan(PlanEvent::PhaseAdded(Box::new(phase.clone())));
        }
        for step in &delta.added {
            self.emit_added(StepAdded { step: step.clone() });
        }
        for (i, step) in &delta.modified {
            let before = Some(Box::new(self.state.plan.steps[*i].clone()));
            self.emit_step(*i, StepEvent::Modified(Box::new(StepModified { step: step.clone(), before })));
        }
        let why = if summary.is_empty() { String::new() } else { format!(": {summary}") };
        for i in &delta.removed {
            let why = format!("removed by revision {}{why}", self.state.revision + 1);
            self.emit_step(*i, StepEvent::Removed(Reason::boxed(why)));
        }
    }

    /// Handles the failure of a step that failed during another replan.
    pub(crate) fn handle_deferred_failure(&mut self) {
        let Some(&i) = self.state.revising.deferred_failures.first() else { return };
        let failure = self.state.steps[i].failure().cloned();
        let failure = failure.unwrap_or_else(|| Failure::new(FailureClass::Permanent, "UNKNOWN", "it failed"));
        self.apply_failure_policy(i, failure);
    }

    /// Returns why a question cannot be asked.
    fn question_issue(&mut self, question: &Question) -> Option<Issue> {
        let answer = question.default.clone()?;
        let detail = self.answer_issue(question, &answer)?;
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

fn bounded(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(format!("and {more} more"));
    }
    lines
}
