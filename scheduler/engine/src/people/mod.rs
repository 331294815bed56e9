//! Human review: approvals of plans, steps and revisions, and questions that steps or planners ask.

pub(crate) mod awaited;
pub(crate) mod decider;
pub(crate) mod hook;
pub(crate) mod hook_answers;
pub(crate) mod hook_question;
pub(crate) mod questions;
pub(crate) mod step_decisions;
pub(crate) mod waiting;

use goalmill_common::command::GoalCorrection;
use goalmill_common::event::{GoalChanged, PlanEvent, PlanRejected, QuestionAnswered, Reason, StepAnswered, StepEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Usage;
use goalmill_common::json::Json;
use goalmill_common::plan::ApprovalDefault;
use goalmill_common::status::PlanStatus;
use serde_json::json;

use crate::attempt::spent::Spent;
use crate::attempt::{cancel, completion, failure};
use crate::calls::resume;
use crate::criteria::judged;
use crate::graph::{StepIndex, unlock};
use crate::people::waiting::{PLANNER_MS, Waiting};
use crate::revise::{by_person, record, revising};
use crate::turn::Turn;
use crate::{Rejection, planned, progress, refusals};
pub use hook::{replan_seq, revision_hook};
pub use hook_question::hook_question;

/// Approves or rejects the plan, a revision, or continuing without a failed step.
pub(crate) fn answer_plan(turn: &mut Turn<'_>, agrees: bool, reason: String) -> Result<(), Rejection> {
    if let Waiting::Approval { .. } = turn.state.waiting {
        if agrees { approve(turn, reason) } else { reject(turn, reason) }
    } else if revising::proposed(turn.state).is_some() {
        if agrees { by_person::approve_revision(turn, &reason) } else { by_person::reject_revision(turn, &reason) }
    } else if turn.state.open_decision().is_some() {
        if !agrees {
            record::continue_without_revision(turn, reason);
            return Ok(());
        }
        turn.emit_plan(PlanEvent::Resumed(Reason::boxed(reason)));
        record::handle_deferred_failure(turn);
        if turn.state.status == PlanStatus::Running {
            progress::skip_blocked(turn);
        }
    } else {
        return Err(refusals::refuse_plan(turn, "there is nothing to approve or reject"));
    }
    Ok(())
}

/// Corrects the goal of a plan that waits for approval.
pub(crate) fn correct_goal(turn: &mut Turn<'_>, correction: GoalCorrection, reason: String) -> Result<(), Rejection> {
    if !matches!(turn.state.waiting, Waiting::Approval { .. }) {
        return Err(refusals::refuse_plan(turn, "its goal can be corrected only while the plan waits for approval"));
    }
    let mut changed = GoalChanged::from_goal(&turn.state.accepted.goal);
    changed.read.clone_from(&turn.state.goal_read);
    changed.correct(correction);
    planned::change_goal(turn, GoalChanged { reason, ..changed });
    Ok(())
}

pub(crate) fn approve_step(turn: &mut Turn<'_>, i: StepIndex, reason: String) {
    if let Some(call) = resume::waiting_call(turn, i) {
        return resume::resume_call(
            turn,
            i,
            call,
            &json!({"approved": true, "reason": reason}),
            false,
            Usage::default(),
        );
    }
    turn.emit_step(i, StepEvent::Approved(Reason::boxed(reason)));
}

/// Rejects the step, or the call that waits for approval: its agent continues without it.
pub(crate) fn reject_step(turn: &mut Turn<'_>, i: StepIndex, reason: &str) {
    if let Some(call) = resume::waiting_call(turn, i) {
        return resume::resume_call(
            turn,
            i,
            call,
            &json!({"approved": false, "reason": reason}),
            false,
            Usage::default(),
        );
    }
    let message = if reason.is_empty() { "it was rejected".into() } else { format!("it was rejected: {reason}") };
    failure::give_up(turn, i, Failure::new(FailureClass::Permanent, "REJECTED", message), Spent::default());
}

pub(crate) fn decide_by_default(turn: &mut Turn<'_>, i: StepIndex) {
    let default = turn.state.plan.step(i).approve.unwrap_or_default().default;
    match default {
        ApprovalDefault::Approve => approve_step(turn, i, "approval timed out".into()),
        ApprovalDefault::Reject => reject_step(turn, i, "approval timed out"),
    }
}

pub(crate) fn approve(turn: &mut Turn<'_>, reason: String) {
    turn.emit_plan(PlanEvent::Approved(Reason::boxed(reason)));
    planned::start_steps(turn);
}

pub(crate) fn reject(turn: &mut Turn<'_>, reason: String) {
    let cancelled = cancel::cancel_steps(turn, "the plan was rejected", &reason);
    turn.emit_plan(PlanEvent::Rejected(Box::new(PlanRejected { reason, cancelled })));
}

pub(crate) fn answer_question(turn: &mut Turn<'_>, name: &str, answer: Json, reason: String) -> Result<(), Rejection> {
    let of_plan = turn.state.waiting.asked().filter(|asked| asked.id == name).cloned();
    if let Some(asked) = of_plan {
        questions::check_answer(turn, asked.question.schema.as_ref(), &answer)?;
        answer_plan_question(turn, asked.id, answer, false, reason);
        return Ok(());
    }
    if judged::judge_by_person(turn, name, &answer, &reason)? {
        return Ok(());
    }
    let i = turn.state.graph.find(name).filter(|i| turn.state.steps[*i].run().question().is_some());
    let Some(i) = i else {
        return Err(Rejection::not_allowed(format!("there is no open question `{name}`")));
    };
    if let Some(call) = resume::waiting_call(turn, i) {
        questions::check_answer(turn, call.wait.schema.as_ref(), &answer)?;
        resume::resume_call(turn, i, call, &json!({"answer": answer}), false, Usage::default());
        progress::propagate(turn);
        return Ok(());
    }
    let ask = turn.state.plan.step(i).ask.clone().expect("only a step with a question asks one");
    questions::check_answer(turn, ask.schema.as_ref(), &answer)?;
    answer_step(turn, i, answer, false, reason);
    progress::propagate(turn);
    Ok(())
}

/// Continues the step with the answer, as its outputs or as one of its inputs.
fn answer_step(turn: &mut Turn<'_>, i: StepIndex, answer: Json, by_default: bool, reason: String) {
    let ask = turn.state.plan.step(i).ask.as_ref();
    let is_result = ask.is_none_or(|ask| ask.into.is_none());
    let answered = StepAnswered { answer: answer.clone(), by_default, reason };
    turn.emit_step(i, StepEvent::Answered(Box::new(answered)));
    if !is_result {
        return unlock::try_unlock(turn, i);
    }
    completion::complete_with(turn, i, answer);
}

fn answer_plan_question(turn: &mut Turn<'_>, id: String, answer: Json, by_default: bool, reason: String) {
    let due_ms = turn.after(PLANNER_MS);
    let answered = QuestionAnswered { id, answer, by_default, reason, due_ms };
    turn.emit_plan(PlanEvent::QuestionAnswered(Box::new(answered)));
}

/// Applies the default of a step's question that was not answered in time.
pub(crate) fn answer_step_by_default(turn: &mut Turn<'_>, i: StepIndex) {
    let default = turn.state.plan.step(i).ask.as_ref().and_then(|ask| ask.default.clone());
    match default {
        Some(answer) => answer_step(turn, i, answer, true, "nobody answered in time".into()),
        None => {
            let failure = Failure::new(FailureClass::Timeout, "NO_ANSWER", "nobody answered in time");
            failure::give_up(turn, i, failure, Spent::default());
        }
    }
}

/// Applies the default of a planner's question that was not answered in time.
pub(crate) fn answer_plan_by_default(turn: &mut Turn<'_>) {
    let Some(asked) = turn.state.waiting.asked().cloned() else { return };
    match asked.question.default {
        Some(answer) => answer_plan_question(turn, asked.id, answer, true, "nobody answered in time".into()),
        None => record::continue_without_revision(turn, "nobody answered in time".into()),
    }
}
