//! Handles the planners' answer to a replan: refused, proposed to a person, or applied.

use goalmill_common::event::{PlanEvent, PlanningFailed, QuestionAsked, RevisionProposed, RevisionRefused};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::StepId;
use goalmill_common::plan::{Approval, Question, Widen};
use goalmill_common::problem::Issue;
use goalmill_common::revision::{Proposal, RevisionStrategy, Trigger};
use goalmill_plan::document::issue;

use super::changes_towards::towards;
use super::widen::widens;
use crate::attempt::{failure, open_failures};
use crate::cleanup::plan_end;
use crate::constraints::CONSTRAINT_BROKEN;
use crate::people::questions;
use crate::people::waiting::PLANNER_MS;
use crate::revise::resolve::{ignored_failure, resolve};
use crate::revise::{record, revising, trigger};
use crate::turn::Turn;
use crate::{PlanAnswer, Rejection, progress};

/// Invalid proposals of planners to one replan, at most.
const REFUSALS_MAX: usize = 2;
/// Questions of planners for one replan, at most.
const QUESTIONS_MAX: usize = 3;

/// The planners' answer to a replan.
pub(crate) fn revised(turn: &mut Turn<'_>, answer: PlanAnswer) -> Result<(), Rejection> {
    if turn.state.waiting.is_for_person() {
        return Err(Rejection::not_allowed("the plan waits for a person, not for a planner"));
    }
    match answer {
        PlanAnswer::Failed { reason, issues, provenance } => {
            let failed = PlanningFailed { reason: reason.clone(), aborted: false, issues, provenance };
            turn.emit_plan(PlanEvent::PlanningFailed(Box::new(failed)));
            record::continue_without_revision(turn, reason);
        }
        PlanAnswer::Plan(planned) | PlanAnswer::Open(planned) => {
            let changes = towards(turn.state, &planned.plan);
            let strategy = RevisionStrategy::ReplanRemaining;
            propose(
                turn,
                Proposal {
                    summary: "replan of the remaining steps".into(),
                    planner: planned.planner,
                    confidence: Some(planned.confidence),
                    provenance: planned.provenance,
                    routes: planned.routes,
                    ..Proposal::new(strategy, changes)
                },
            );
        }
        PlanAnswer::Revision(proposal) => {
            let mut proposal = bounded_proposal(*proposal);
            // Only people edit.
            if proposal.strategy == RevisionStrategy::Edit {
                proposal.strategy = RevisionStrategy::Workaround;
            }
            if proposal.strategy == RevisionStrategy::Abort {
                abort(turn, proposal);
            } else if proposal.strategy == RevisionStrategy::AskUser {
                ask(turn, proposal);
            } else {
                propose(turn, proposal);
            }
        }
    }
    Ok(())
}

/// Ends the plan on a planner's advice. Results are kept; the log has the planner's reason.
fn abort(turn: &mut Turn<'_>, proposal: Proposal) {
    let summary = proposal.summary;
    let reason = if summary.is_empty() { "a planner advised to abort".into() } else { summary };
    let provenance = proposal.provenance;
    let advised = PlanningFailed { reason: reason.clone(), aborted: true, issues: Vec::new(), provenance };
    turn.emit_plan(PlanEvent::PlanningFailed(Box::new(advised)));
    let step = turn.state.waiting.replan().and_then(|replan| replan.step.clone());
    let failure = step.as_ref().and_then(|step| failure_of(turn, step));
    match (step, failure) {
        (Some(step), Some(failure)) => {
            plan_end::fail_plan_because(turn, open_failures::plan_failure(&step, failure), reason);
        }
        (None, _) if turn.state.waiting.is_for(Trigger::ConstraintViolation) => {
            let broken = turn.state.waiting.replan().map(|replan| replan.reason.clone()).unwrap_or_default();
            let message = format!("{broken}: {reason}");
            plan_end::fail_plan(turn, Failure::new(FailureClass::ConstraintViolation, CONSTRAINT_BROKEN, message));
        }
        (Some(_) | None, _) => {
            plan_end::fail_plan(turn, Failure::new(FailureClass::Permanent, "REVISION_ABORTED", reason));
        }
    }
}

fn failure_of(turn: &Turn<'_>, step: &StepId) -> Option<Failure> {
    let i = turn.state.graph.find(step.as_str())?;
    turn.state.steps[i].failure().cloned()
}

/// Checks a proposal against the plan and its policies, then applies or proposes it.
fn propose(turn: &mut Turn<'_>, proposal: Proposal) {
    if proposal.changes.is_empty() && revising::is_at_part(turn.state) {
        return progress::finish_iterative_plan(turn, &proposal.summary);
    }
    if revising::needs_next_part(turn.state)
        && revising::revisions_left(turn.state, turn.context.limits.revisions_max) == 0
    {
        let reason = turn.state.waiting.replan().map(|replan| replan.reason.clone()).unwrap_or_default();
        return trigger::fail_without_revisions(turn, &reason);
    }
    let delta = match resolve(turn.state, &proposal.changes, &turn.context.limits, None) {
        Ok(delta) => delta,
        Err(issues) => return refuse_proposal(turn, &proposal, "the revised plan would not be valid", issues),
    };
    // A whole plan may leave the failed step out.
    let is_partial = proposal.strategy != RevisionStrategy::ReplanRemaining;
    if let Some(issue) = ignored_failure(turn.state, &delta).filter(|_| is_partial) {
        return refuse_proposal(turn, &proposal, "it does not change the failed step", vec![issue]);
    }
    let (before, after) = record::confidences(turn, &proposal);
    let policy = revising::policy(turn.state);
    if after < policy.confidence_floor {
        return reject_low_confidence(turn, after);
    }
    let mut wider = proposal.widens.clone();
    wider.extend(widens(turn.state, &delta));
    let approval = match (policy.approve, policy.widen) {
        (Some(approval), _) if wider.is_empty() || policy.widen != Widen::Refuse => Some(approval),
        (_, Widen::Refuse) if !wider.is_empty() => {
            return refuse_proposal(turn, &proposal, "it widens what the plan may do", wider);
        }
        (None, Widen::Approve) if !wider.is_empty() => Some(Approval::default()),
        // A plan cannot allow itself what the installation's policy wants approved.
        (None, Widen::Allow) if !proposal.widens.is_empty() => Some(Approval::default()),
        (_, Widen::Refuse | Widen::Approve | Widen::Allow) => None,
    };
    let Some(approval) = approval else { return record::apply_revision(turn, proposal, delta, "") };
    let limit_ms = approval.limit_ms.min(turn.context.limits.approval_ms_max);
    let event = RevisionProposed {
        revision: turn.state.revision + 1,
        changes: record::bounded_lines(delta.lines),
        widens: wider,
        confidence_before: before,
        confidence_after: after,
        due_ms: turn.after(limit_ms),
        proposal,
    };
    turn.emit_plan(PlanEvent::RevisionProposed(Box::new(event)));
}

fn reject_low_confidence(turn: &mut Turn<'_>, after: f64) {
    let floor = revising::policy(turn.state).confidence_floor;
    let message = format!("low_confidence: {after:.2} after the revision is below the floor {floor:.2}");
    if !failure::is_replan_required(turn) && !revising::needs_next_part(turn.state) {
        return record::continue_without_revision(turn, message);
    }
    plan_end::fail_plan(turn, Failure::new(FailureClass::Permanent, "LOW_CONFIDENCE", message));
}

pub(super) fn refuse_proposal(turn: &mut Turn<'_>, proposal: &Proposal, reason: &str, issues: Vec<Issue>) {
    let again = !revising::has_better_plan(turn.state) && turn.state.revising.refused.len() + 1 < REFUSALS_MAX;
    turn.emit_plan(PlanEvent::RevisionRefused(Box::new(RevisionRefused {
        revision: turn.state.revision + 1,
        strategy: proposal.strategy,
        reason: reason.into(),
        issues,
        due_ms: if again { turn.after(PLANNER_MS) } else { 0 },
        usage: proposal.usage,
    })));
    if !again {
        record::continue_without_revision(turn, format!("no valid revision: {reason}"));
    }
}

fn ask(turn: &mut Turn<'_>, proposal: Proposal) {
    let asked = turn.state.revising.answers.len();
    let Some(question) = proposal.question.clone().filter(|_| asked < QUESTIONS_MAX) else {
        let (code, hint) = ("MISSING_FIELD", "give `question`, or another strategy");
        let detail =
            if asked < QUESTIONS_MAX { "`ask_user` asks nothing" } else { "too many questions for one replan" };
        let issues = vec![issue(code, "/question", detail, hint)];
        return refuse_proposal(turn, &proposal, "there is no question", issues);
    };
    if let Some(problem) = question_issue(turn, &question) {
        return refuse_proposal(turn, &proposal, "the question cannot be asked", vec![problem]);
    }
    let limit_ms = question.limit_ms.min(turn.context.limits.approval_ms_max);
    let event = QuestionAsked {
        id: format!("q{}", turn.state.revising.questions + 1),
        due_ms: turn.after(limit_ms),
        question: Question { into: None, ..question },
        usage: proposal.usage,
    };
    turn.emit_plan(PlanEvent::QuestionAsked(Box::new(event)));
}

/// Returns why a question cannot be asked.
fn question_issue(turn: &mut Turn<'_>, question: &Question) -> Option<Issue> {
    let answer = question.default.clone()?;
    let detail = questions::answer_issue(turn, question.schema.as_ref(), &answer)?;
    let hint = "give a `default` that fits the `schema`";
    Some(issue("INVALID_VALUE", "/question/default", detail, hint))
}

fn bounded_proposal(proposal: Proposal) -> Proposal {
    Proposal {
        summary: proposal.summary.chars().take(record::TEXT_CHARS_MAX).collect(),
        usage: proposal.usage.bounded(),
        confidence: proposal.confidence.filter(|confidence| confidence.is_finite()),
        ..proposal
    }
}
