//! Requests of people and programs to a running plan, and the plan's timer.

use goalmill_common::command::Verb;
use goalmill_common::event::{PlanEvent, Reason, ReplanTriggered, SkipCause, StepEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::plan::ApprovalDefault;
use goalmill_common::planning::ReplanOptions;
use goalmill_common::revision::Trigger;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::attempt::{cancel, completion, report};
use crate::budget::BUDGET_EXCEEDED;
use crate::cleanup::plan_end;
use crate::criteria::judged;
use crate::people::waiting::{Reviser, Waiting};
use crate::revise::revising::trigger_of;
use crate::revise::{by_person, record, revising, streaming, trigger};
use crate::sub_plan::orders;
use crate::turn::Turn;
use crate::wait::received;
use crate::{Rejection, budget, constraints, delayed_start, people, planned, progress, refusals};

/// A plan ends with this code when its deadline has passed.
pub(crate) const PLAN_TIMEOUT: &str = "PLAN_TIMEOUT";

pub(crate) fn handle_verb(turn: &mut Turn<'_>, verb: Verb) -> Result<(), Rejection> {
    check_cleanup(turn, &verb)?;
    match verb {
        Verb::Submit(_) => Err(Rejection::Exists),
        Verb::Pause { reason } => pause(turn, reason),
        Verb::Resume { reason } => resume(turn, reason),
        Verb::Cancel { reason } => {
            plan_end::cancel_plan(turn, reason);
            Ok(())
        }
        Verb::Approve { reason } => people::answer_plan(turn, true, reason),
        Verb::Reject { reason } => people::answer_plan(turn, false, reason),
        Verb::Replan { reason, hint, options } => replan_on_request(turn, reason, hint, options),
        Verb::Edit { changes, revision, reason } => by_person::edit(turn, changes, revision, reason),
        Verb::CorrectGoal { correction, reason } => people::correct_goal(turn, *correction, reason),
        Verb::AnswerQuestion { question, answer, reason } => people::answer_question(turn, &question, answer, reason),
        Verb::RetryStep { step, reason: _ } => retry_step(turn, &step),
        Verb::CompleteStep { step, outputs, reason: _ } => complete_manually(turn, &step, outputs),
        Verb::ReportCallback { step, attempt, report } => report::receive_callback(turn, &step, attempt, *report),
        Verb::SendEvent { event, waiting_only } => received::receive_event(turn, *event, waiting_only),
        Verb::SkipStep { step, reason } => {
            let i = refusals::open_step(turn, &step)?;
            cancel::cancel_attempt(turn, i);
            turn.skip_step(i, SkipCause::Person, reason);
            progress::propagate(turn);
            Ok(())
        }
        Verb::ApproveStep { step, reason } => {
            let i = refusals::awaiting_step(turn, &step)?;
            people::approve_step(turn, i, reason);
            progress::propagate(turn);
            Ok(())
        }
        Verb::RejectStep { step, reason } => {
            let i = refusals::awaiting_step(turn, &step)?;
            people::reject_step(turn, i, &reason);
            progress::propagate(turn);
            Ok(())
        }
    }
}

/// Refuses what would change a plan whose outcome is known.
fn check_cleanup(turn: &Turn<'_>, verb: &Verb) -> Result<(), Rejection> {
    let Some(cleanup) = turn.state.cleanup.run() else { return Ok(()) };
    let is_of_step = matches!(
        verb,
        Verb::RetryStep { .. }
            | Verb::SkipStep { .. }
            | Verb::CompleteStep { .. }
            | Verb::ApproveStep { .. }
            | Verb::RejectStep { .. }
            | Verb::SendEvent { .. }
            | Verb::ReportCallback { .. }
            | Verb::AnswerQuestion { .. }
    );
    if is_of_step {
        return Ok(());
    }
    let status = cleanup.outcome.status;
    Err(Rejection::not_allowed(format!("the plan ends as {status}: its clean-up steps run, and can be skipped")))
}

fn pause(turn: &mut Turn<'_>, reason: String) -> Result<(), Rejection> {
    if turn.state.status != PlanStatus::Running {
        return Err(refusals::refuse_plan(turn, "only a running plan can be paused"));
    }
    orders::ask_sub_plans(turn, &Verb::Pause { reason: "the parent plan is paused".into() });
    turn.emit_plan(PlanEvent::Paused(Reason::boxed(reason)));
    Ok(())
}

fn resume(turn: &mut Turn<'_>, reason: String) -> Result<(), Rejection> {
    if turn.state.status != PlanStatus::Paused {
        return Err(refusals::refuse_plan(turn, "only a paused plan can be resumed"));
    }
    orders::ask_sub_plans(turn, &Verb::Resume { reason: "the parent plan is resumed".into() });
    let starts = delayed_start::start_due_ms(turn.state).is_some();
    turn.emit_plan(PlanEvent::Resumed(Reason::boxed(reason)));
    if starts {
        planned::start_steps(turn);
    } else {
        progress::propagate(turn);
    }
    Ok(())
}

fn replan_on_request(
    turn: &mut Turn<'_>,
    reason: String,
    hint: String,
    options: ReplanOptions,
) -> Result<(), Rejection> {
    let decision = turn.state.open_decision().and_then(|replan| replan.step.as_ref());
    let failed = decision.and_then(|step| turn.find(step).ok());
    if turn.state.status != PlanStatus::Running && failed.is_none() {
        return Err(refusals::refuse_plan(turn, "only a running plan can be replanned"));
    }
    if revising::is_plan_open(turn.state) {
        return Err(refusals::refuse_plan(turn, "its planner has not finished writing it"));
    }
    if revising::revisions_left(turn.state, turn.context.limits.revisions_max) == 0 {
        return Err(Rejection::not_allowed("no revisions left (`revision.max`, `revisions_max`)"));
    }
    // A replan about a failed step is required: without a revision the plan fails.
    let failure = failed.and_then(|i| turn.state.steps[i].failure());
    let trigger = failure.map_or(Trigger::UserRequest, trigger_of);
    let wish = ReplanTriggered { reason, hint, options, ..ReplanTriggered::default() };
    trigger::replan(turn, trigger, failed, wish);
    Ok(())
}

fn retry_step(turn: &mut Turn<'_>, step: &StepId) -> Result<(), Rejection> {
    let i = refusals::open_step(turn, step)?;
    if turn.status_of(i) != StepStatus::Retrying {
        return Err(refusals::refuse_step(turn, i, "only a step that waits for its next attempt can be retried"));
    }
    if turn.state.steps[i].run().awaits_plan() {
        return Err(refusals::refuse_step(turn, i, "one of its calls waits for a plan to end"));
    }
    turn.emit_step(i, StepEvent::Ready);
    progress::propagate(turn);
    Ok(())
}

fn complete_manually(turn: &mut Turn<'_>, step: &StepId, outputs: Json) -> Result<(), Rejection> {
    let i = refusals::open_step(turn, step)?;
    if let Some(failure) = completion::output_mismatch(turn, i, &outputs) {
        return Err(Rejection::not_allowed(failure.message));
    }
    cancel::cancel_attempt(turn, i);
    turn.emit_completed(i, outputs);
    progress::propagate(turn);
    Ok(())
}

/// Handles the plan's due timer: deadline, budgeted time, approval limit or planner's limit.
pub(crate) fn handle_plan_timer(turn: &mut Turn<'_>) -> Result<(), Rejection> {
    if let Some(cleanup) = turn.state.cleanup.run() {
        if turn.now_ms < cleanup.due_ms {
            return Err(Rejection::NotDue);
        }
        plan_end::finish_cleanup(turn, "its time is over (`cleanup_ms`)");
        return Ok(());
    }
    let deadline = turn.state.accepted.deadline_ms;
    if turn.now_ms >= budget::budget_due_ms(turn.state) {
        let message = "the budgeted time is used up";
        plan_end::fail_plan(turn, Failure::new(FailureClass::ConstraintViolation, BUDGET_EXCEEDED, message));
    } else if turn.now_ms >= deadline {
        plan_end::fail_plan(turn, Failure::new(FailureClass::Timeout, PLAN_TIMEOUT, "the plan's deadline has passed"));
    } else if constraints::constraint_due_ms(turn.state).is_some_and(|due_ms| turn.now_ms >= due_ms) {
        progress::propagate(turn);
    } else if turn.state.waiting.due_ms().is_some_and(|due_ms| turn.now_ms >= due_ms) {
        handle_wait_timeout(turn);
    } else if delayed_start::start_due_ms(turn.state).is_some_and(|due_ms| turn.now_ms >= due_ms) {
        return resume(turn, "its start has come".into());
    } else if revising::is_plan_open(turn.state) && turn.now_ms >= turn.state.origin.open_until_ms {
        streaming::replan_unfinished(
            turn,
            "the rest of the streamed plan did not arrive in time".into(),
            Vec::new(),
            None,
        );
    } else {
        return Err(Rejection::NotDue);
    }
    Ok(())
}

fn handle_wait_timeout(turn: &mut Turn<'_>) {
    match turn.state.waiting {
        Waiting::Plan | Waiting::Nothing | Waiting::Hook { .. } => {}
        Waiting::Approval { .. } => match turn.state.plan.definition().approve.unwrap_or_default().default {
            ApprovalDefault::Approve => people::approve(turn, "approval timed out".into()),
            ApprovalDefault::Reject => people::reject(turn, "approval timed out".into()),
        },
        Waiting::Replan { by: Reviser::Planner | Reviser::Decision, .. } => {
            record::continue_without_revision(turn, "no revision came in time".into());
        }
        Waiting::Replan { by: Reviser::Approval(_), .. } => by_person::decide_revision_by_default(turn),
        Waiting::Replan { by: Reviser::Answer(_), .. } => people::answer_plan_by_default(turn),
        Waiting::Judgement { .. } => judged::end_judgement(turn),
    }
}
