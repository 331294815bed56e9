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

use crate::Rejection;
use crate::budget::BUDGET_EXCEEDED;
use crate::decide::{Turn, not_allowed};
use crate::graph::StepIndex;
use crate::people::waiting::{Reviser, Waiting};
use crate::revise::trigger_of;

/// A plan ends with this code when its deadline has passed.
pub(crate) const PLAN_TIMEOUT: &str = "PLAN_TIMEOUT";

impl Turn<'_> {
    pub(crate) fn handle_verb(&mut self, verb: Verb) -> Result<(), Rejection> {
        self.check_cleanup(&verb)?;
        match verb {
            Verb::Submit(_) => Err(Rejection::Exists),
            Verb::Pause { reason } => self.pause(reason),
            Verb::Resume { reason } => self.resume(reason),
            Verb::Cancel { reason } => {
                self.cancel_plan(reason);
                Ok(())
            }
            Verb::Approve { reason } => self.answer_plan(true, reason),
            Verb::Reject { reason } => self.answer_plan(false, reason),
            Verb::Replan { reason, hint, options } => self.replan_on_request(reason, hint, options),
            Verb::Edit { changes, revision, reason } => self.edit(changes, revision, reason),
            Verb::CorrectGoal { correction, reason } => self.correct_goal(*correction, reason),
            Verb::AnswerQuestion { question, answer, reason } => self.answer_question(&question, answer, reason),
            Verb::RetryStep { step, reason: _ } => self.retry_step(&step),
            Verb::CompleteStep { step, outputs, reason: _ } => self.complete_manually(&step, outputs),
            Verb::ReportCallback { step, attempt, report } => self.receive_callback(&step, attempt, *report),
            Verb::SendEvent { event, waiting_only } => self.receive_event(*event, waiting_only),
            Verb::SkipStep { step, reason } => {
                let i = self.open_step(&step)?;
                self.cancel_attempt(i);
                self.skip(i, SkipCause::Person, reason);
                self.propagate();
                Ok(())
            }
            Verb::ApproveStep { step, reason } => {
                let i = self.awaiting_step(&step)?;
                self.approve_step(i, reason);
                self.propagate();
                Ok(())
            }
            Verb::RejectStep { step, reason } => {
                let i = self.awaiting_step(&step)?;
                self.reject_step(i, &reason);
                self.propagate();
                Ok(())
            }
        }
    }

    /// Refuses what would change a plan whose outcome is known.
    fn check_cleanup(&self, verb: &Verb) -> Result<(), Rejection> {
        let Some(cleanup) = self.state.cleanup.run() else { return Ok(()) };
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
        Err(not_allowed(format!("the plan ends as {status}: its clean-up steps run, and can be skipped")))
    }

    fn pause(&mut self, reason: String) -> Result<(), Rejection> {
        if self.state.status != PlanStatus::Running {
            return Err(self.refuse_plan("only a running plan can be paused"));
        }
        self.ask_sub_plans(&Verb::Pause { reason: "the parent plan is paused".into() });
        self.emit_plan(PlanEvent::Paused(Reason::boxed(reason)));
        Ok(())
    }

    fn resume(&mut self, reason: String) -> Result<(), Rejection> {
        if self.state.status != PlanStatus::Paused {
            return Err(self.refuse_plan("only a paused plan can be resumed"));
        }
        self.ask_sub_plans(&Verb::Resume { reason: "the parent plan is resumed".into() });
        let starts = self.state.start_due_ms().is_some();
        self.emit_plan(PlanEvent::Resumed(Reason::boxed(reason)));
        if starts {
            self.start_steps();
        } else {
            self.propagate();
        }
        Ok(())
    }

    fn replan_on_request(&mut self, reason: String, hint: String, options: ReplanOptions) -> Result<(), Rejection> {
        let decision = self.state.open_decision().and_then(|replan| replan.step.as_ref());
        let failed = decision.and_then(|step| self.find(step).ok());
        if self.state.status != PlanStatus::Running && failed.is_none() {
            return Err(self.refuse_plan("only a running plan can be replanned"));
        }
        if self.state.is_open() {
            return Err(self.refuse_plan("its planner has not finished writing it"));
        }
        if self.state.revisions_left(self.context.limits.revisions_max) == 0 {
            return Err(not_allowed("no revisions left (`revision.max`, `revisions_max`)"));
        }
        // A replan about a failed step is required: without a revision the plan fails.
        let failure = failed.and_then(|i| self.state.steps[i].failure());
        let trigger = failure.map_or(Trigger::UserRequest, trigger_of);
        let wish = ReplanTriggered { reason, hint, options, ..ReplanTriggered::default() };
        self.replan(trigger, failed, wish);
        Ok(())
    }

    fn retry_step(&mut self, step: &StepId) -> Result<(), Rejection> {
        let i = self.open_step(step)?;
        if self.status_of(i) != StepStatus::Retrying {
            return Err(self.refuse_step(i, "only a step that waits for its next attempt can be retried"));
        }
        if self.state.steps[i].run().awaits_plan() {
            return Err(self.refuse_step(i, "one of its calls waits for a plan to end"));
        }
        self.emit_step(i, StepEvent::Ready);
        self.propagate();
        Ok(())
    }

    fn complete_manually(&mut self, step: &StepId, outputs: Json) -> Result<(), Rejection> {
        let i = self.open_step(step)?;
        if let Some(failure) = self.output_mismatch(i, &outputs) {
            return Err(not_allowed(failure.message));
        }
        self.cancel_attempt(i);
        self.emit_completed(i, outputs);
        self.propagate();
        Ok(())
    }

    /// Handles the plan's due timer: deadline, budgeted time, approval limit or planner's limit.
    pub(crate) fn handle_plan_timer(&mut self) -> Result<(), Rejection> {
        if let Some(cleanup) = self.state.cleanup.run() {
            if self.now_ms < cleanup.due_ms {
                return Err(Rejection::NotDue);
            }
            self.finish_cleanup("its time is over (`cleanup_ms`)");
            return Ok(());
        }
        let deadline = self.state.accepted.deadline_ms;
        if self.now_ms >= self.state.budget_due_ms() {
            let message = "the budgeted time is used up";
            self.fail_plan(Failure::new(FailureClass::ConstraintViolation, BUDGET_EXCEEDED, message));
        } else if self.now_ms >= deadline {
            self.fail_plan(Failure::new(FailureClass::Timeout, PLAN_TIMEOUT, "the plan's deadline has passed"));
        } else if self.state.constraint_due_ms().is_some_and(|due_ms| self.now_ms >= due_ms) {
            self.propagate();
        } else if self.state.waiting.due_ms().is_some_and(|due_ms| self.now_ms >= due_ms) {
            self.handle_wait_timeout();
        } else if self.state.start_due_ms().is_some_and(|due_ms| self.now_ms >= due_ms) {
            return self.resume("its start has come".into());
        } else if self.state.is_open() && self.now_ms >= self.state.origin.open_until_ms {
            self.replan_unfinished("the rest of the streamed plan did not arrive in time".into(), Vec::new(), None);
        } else {
            return Err(Rejection::NotDue);
        }
        Ok(())
    }

    fn handle_wait_timeout(&mut self) {
        match self.state.waiting {
            Waiting::Plan | Waiting::Nothing | Waiting::Hook { .. } => {}
            Waiting::Approval { .. } => match self.state.plan.definition().approve.unwrap_or_default().default {
                ApprovalDefault::Approve => self.approve("approval timed out".into()),
                ApprovalDefault::Reject => self.reject("approval timed out".into()),
            },
            Waiting::Replan { by: Reviser::Planner | Reviser::Decision, .. } => {
                self.continue_without_revision("no revision came in time".into());
            }
            Waiting::Replan { by: Reviser::Approval(_), .. } => self.decide_revision_by_default(),
            Waiting::Replan { by: Reviser::Answer(_), .. } => self.answer_plan_by_default(),
            Waiting::Judgement { .. } => self.end_judgement(),
        }
    }

    /// Finds a step that is not final, of a plan whose steps may change.
    pub(crate) fn open_step(&self, step: &StepId) -> Result<StepIndex, Rejection> {
        let i = self.find(step)?;
        if !self.is_active() {
            return Err(self.refuse_plan("its steps cannot be changed before it runs"));
        }
        if self.status_of(i).is_final() {
            return Err(self.refuse_step(i, "a final step cannot be changed"));
        }
        if self.state.runs_later(i) {
            return Err(self.refuse_step(i, "it runs once the outcome of the plan is known"));
        }
        Ok(i)
    }

    pub(crate) fn refuse_plan(&self, why: &str) -> Rejection {
        not_allowed(format!("the plan is {}: {why}", self.state.status))
    }

    pub(crate) fn refuse_step(&self, i: StepIndex, why: &str) -> Rejection {
        not_allowed(format!("step `{}` is {}: {why}", self.id_of(i), self.status_of(i)))
    }
}
