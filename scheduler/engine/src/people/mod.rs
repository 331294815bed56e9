//! Human review: approvals of plans, steps and revisions, and questions that steps or planners ask.

pub(crate) mod awaited;
pub(crate) mod decider;
pub(crate) mod hook;
pub(crate) mod hook_question;
pub(crate) mod step_decisions;
pub(crate) mod waiting;

use goalmill_common::command::GoalCorrection;
use goalmill_common::event::{
    GoalChanged, PlanEvent, PlanRejected, QuestionAnswered, Reason, StepAnswered, StepEvent, StepQuestion,
};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Usage;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::json_limits;
use goalmill_common::plan::ApprovalDefault;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_plan::document::issue;
use serde_json::json;

use crate::Rejection;
use crate::attempt::output_check;
use crate::attempt::report::Spent;
use crate::decide::{Turn, not_allowed};
use crate::graph::StepIndex;
use crate::people::waiting::{PLANNER_MS, Waiting};

impl Turn<'_> {
    /// Approves or rejects the plan, a revision, or continuing without a failed step.
    pub(crate) fn answer_plan(&mut self, agrees: bool, reason: String) -> Result<(), Rejection> {
        if let Waiting::Approval { .. } = self.state.waiting {
            if agrees { self.approve(reason) } else { self.reject(reason) }
        } else if self.state.proposed().is_some() {
            if agrees { self.approve_revision(&reason) } else { self.reject_revision(&reason) }
        } else if self.state.open_decision().is_some() {
            if !agrees {
                self.continue_without_revision(reason);
                return Ok(());
            }
            self.emit_plan(PlanEvent::Resumed(Reason::boxed(reason)));
            self.handle_deferred_failure();
            if self.state.status == PlanStatus::Running {
                self.skip_blocked();
            }
        } else {
            return Err(self.refuse_plan("there is nothing to approve or reject"));
        }
        Ok(())
    }

    /// Corrects the goal of a plan that waits for approval.
    pub(crate) fn correct_goal(&mut self, correction: GoalCorrection, reason: String) -> Result<(), Rejection> {
        if !matches!(self.state.waiting, Waiting::Approval { .. }) {
            return Err(self.refuse_plan("its goal can be corrected only while the plan waits for approval"));
        }
        let mut changed = GoalChanged::from_goal(&self.state.accepted.goal);
        changed.read.clone_from(&self.state.goal_read);
        changed.correct(correction);
        self.change_goal(GoalChanged { reason, ..changed });
        Ok(())
    }

    pub(crate) fn approve_step(&mut self, i: StepIndex, reason: String) {
        if let Some(call) = self.waiting_call(i) {
            return self.resume_call(i, call, &json!({"approved": true, "reason": reason}), false, Usage::default());
        }
        self.emit_step(i, StepEvent::Approved(Reason::boxed(reason)));
    }

    /// Rejects the step, or the call that waits for approval: its agent continues without it.
    pub(crate) fn reject_step(&mut self, i: StepIndex, reason: &str) {
        if let Some(call) = self.waiting_call(i) {
            return self.resume_call(i, call, &json!({"approved": false, "reason": reason}), false, Usage::default());
        }
        let message = if reason.is_empty() { "it was rejected".into() } else { format!("it was rejected: {reason}") };
        self.give_up(i, Failure::new(FailureClass::Permanent, "REJECTED", message), Spent::default());
    }

    pub(crate) fn awaiting_step(&self, step: &StepId) -> Result<StepIndex, Rejection> {
        let i = self.open_step(step)?;
        if self.status_of(i) != StepStatus::AwaitingApproval {
            return Err(self.refuse_step(i, "it does not await approval"));
        }
        let hook = self.state.steps[i].run().hooks();
        if hook.is_some_and(|asked| asked.completed.is_some()) {
            return Err(self.refuse_step(i, "a hook decides about its outputs"));
        }
        if self.state.steps[i].run().question().is_some() {
            return Err(self.refuse_step(i, "it waits for an answer, not for an approval"));
        }
        Ok(i)
    }

    pub(crate) fn decide_by_default(&mut self, i: StepIndex) {
        let default = self.state.plan.step(i).approve.unwrap_or_default().default;
        match default {
            ApprovalDefault::Approve => self.approve_step(i, "approval timed out".into()),
            ApprovalDefault::Reject => self.reject_step(i, "approval timed out"),
        }
    }

    pub(crate) fn approve(&mut self, reason: String) {
        self.emit_plan(PlanEvent::Approved(Reason::boxed(reason)));
        self.start_steps();
    }

    pub(crate) fn reject(&mut self, reason: String) {
        let cancelled = self.cancel_steps("the plan was rejected", &reason);
        self.emit_plan(PlanEvent::Rejected(Box::new(PlanRejected { reason, cancelled })));
    }

    /// Asks the step's question. Returns whether the step waits for the answer.
    pub(crate) fn ask_step(&mut self, i: StepIndex) -> bool {
        let Some(ask) = self.state.plan.step(i).ask.clone() else { return false };
        if self.state.steps[i].decisions().answer().is_some() {
            return false;
        }
        match self.expressions(i).text(&ask.question) {
            Ok(question) => {
                let due_ms = self.after(ask.limit_ms.min(self.context.limits.approval_ms_max));
                self.emit_step(i, StepEvent::QuestionAsked(Box::new(StepQuestion { question, due_ms })));
            }
            Err(why) => self.put_off(i, why),
        }
        true
    }

    pub(crate) fn answer_question(&mut self, name: &str, answer: Json, reason: String) -> Result<(), Rejection> {
        let of_plan = self.state.waiting.asked().filter(|asked| asked.id == name).cloned();
        if let Some(asked) = of_plan {
            self.check_answer(asked.question.schema.as_ref(), &answer)?;
            self.answer_plan_question(asked.id, answer, false, reason);
            return Ok(());
        }
        if self.judge_by_person(name, &answer, &reason)? {
            return Ok(());
        }
        let i = self.state.graph.find(name).filter(|i| self.state.steps[*i].run().question().is_some());
        let Some(i) = i else {
            return Err(not_allowed(format!("there is no open question `{name}`")));
        };
        if let Some(call) = self.waiting_call(i) {
            self.check_answer(call.wait.schema.as_ref(), &answer)?;
            self.resume_call(i, call, &json!({"answer": answer}), false, Usage::default());
            self.propagate();
            return Ok(());
        }
        let ask = self.state.plan.step(i).ask.clone().expect("only a step with a question asks one");
        self.check_answer(ask.schema.as_ref(), &answer)?;
        self.answer_step(i, answer, false, reason);
        self.propagate();
        Ok(())
    }

    pub(crate) fn check_answer(&self, schema: Option<&Json>, answer: &Json) -> Result<(), Rejection> {
        let Some(detail) = self.answer_issue(schema, answer) else { return Ok(()) };
        let issues = vec![issue("INVALID_ANSWER", "/answer", detail, "answer as the question's `schema` says")];
        Err(Rejection::Invalid { reason: "the answer does not fit the question".into(), issues })
    }

    /// Returns why an answer does not fit the question with this schema.
    pub(crate) fn answer_issue(&self, schema: Option<&Json>, answer: &Json) -> Option<String> {
        let (bytes, most) = (answer.text().len(), self.context.limits.payload_bytes_max);
        if bytes > most {
            return Some(format!("it has {bytes} bytes, more than `payload_bytes_max` ({most})"));
        }
        if let Err(wrong) = json_limits::check_json(answer, self.context.limits.nesting_max) {
            return Some(wrong.to_string());
        }
        output_check::schema_mismatch(schema?, answer).map(|why| why.to_string())
    }

    /// Continues the step with the answer, as its outputs or as one of its inputs.
    fn answer_step(&mut self, i: StepIndex, answer: Json, by_default: bool, reason: String) {
        let ask = self.state.plan.step(i).ask.as_ref();
        let is_result = ask.is_none_or(|ask| ask.into.is_none());
        let answered = StepAnswered { answer: answer.clone(), by_default, reason };
        self.emit_step(i, StepEvent::Answered(Box::new(answered)));
        if !is_result {
            return self.try_unlock(i);
        }
        self.complete_with(i, answer);
    }

    fn answer_plan_question(&mut self, id: String, answer: Json, by_default: bool, reason: String) {
        let due_ms = self.after(PLANNER_MS);
        let answered = QuestionAnswered { id, answer, by_default, reason, due_ms };
        self.emit_plan(PlanEvent::QuestionAnswered(Box::new(answered)));
    }

    /// Applies the default of a step's question that was not answered in time.
    pub(crate) fn answer_step_by_default(&mut self, i: StepIndex) {
        let default = self.state.plan.step(i).ask.as_ref().and_then(|ask| ask.default.clone());
        match default {
            Some(answer) => self.answer_step(i, answer, true, "nobody answered in time".into()),
            None => {
                let failure = Failure::new(FailureClass::Timeout, "NO_ANSWER", "nobody answered in time");
                self.give_up(i, failure, Spent::default());
            }
        }
    }

    /// Applies the default of a planner's question that was not answered in time.
    pub(crate) fn answer_plan_by_default(&mut self) {
        let Some(asked) = self.state.waiting.asked().cloned() else { return };
        match asked.question.default {
            Some(answer) => self.answer_plan_question(asked.id, answer, true, "nobody answered in time".into()),
            None => self.continue_without_revision("nobody answered in time".into()),
        }
    }
}
