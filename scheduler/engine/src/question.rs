//! Questions to people: asked by a step before it goes on, or by a planner before it revises the plan.

use goalmill_common::event::{PlanEvent, QuestionAnswered, StepAnswered, StepCompleted, StepEvent, StepQuestion};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::json_limits;
use goalmill_common::plan::Question;
use goalmill_common::status::StepStatus;
use goalmill_plan::draft::issue;

use crate::decide::{Turn, not_allowed};
use crate::fail::PLANNER_MS;
use crate::graph::to_usize;
use crate::{Rejection, check, render};

impl Turn<'_> {
    /// Asks what the step wants to know; says whether it has to wait for the answer.
    pub(crate) fn ask_step(&mut self, i: u32) -> bool {
        let Some(ask) = self.state.plan.steps[to_usize(i)].ask.clone() else { return false };
        if self.state.answer(i).is_some() {
            return false;
        }
        match render::text(self.state, i, &ask.question, &self.context.limits) {
            Ok(question) => {
                let due_ms = self.after(ask.limit_ms.min(self.context.limits.approval_ms_max));
                self.emit_step(i, StepEvent::QuestionAsked(Box::new(StepQuestion { question, due_ms })));
            }
            Err(failure) => self.give_up(i, failure, 0.0, 0),
        }
        true
    }

    /// Whether the step waits for an answer, and not for a yes or no.
    pub(crate) fn awaits_answer(&self, i: u32) -> bool {
        let step = &self.state.steps[to_usize(i)];
        let asked = step.rare.as_ref().is_some_and(|rare| rare.question.is_some());
        step.status == StepStatus::AwaitingApproval && asked
    }

    pub(crate) fn answer_question(&mut self, name: &str, answer: Json, reason: String) -> Result<(), Rejection> {
        let of_plan = self.state.revising.question.as_deref().filter(|asked| asked.id == name).cloned();
        if let Some(asked) = of_plan {
            self.check_answer(&asked.question, &answer)?;
            self.answer_plan_question(asked.id, answer, false, reason);
            return Ok(());
        }
        let i = self.state.graph.find(name).filter(|i| self.awaits_answer(*i));
        let Some(i) = i else {
            return Err(not_allowed(format!("nothing asks the question `{name}`")));
        };
        let ask = self.state.plan.steps[to_usize(i)].ask.clone().expect("only a step with a question asks one");
        self.check_answer(&ask, &answer)?;
        self.answer_step(i, answer, false, reason);
        self.settle();
        Ok(())
    }

    fn check_answer(&mut self, question: &Question, answer: &Json) -> Result<(), Rejection> {
        let Some(detail) = self.answer_issue(question, answer) else { return Ok(()) };
        let issues = vec![issue("INVALID_ANSWER", "/answer", detail, "answer as the question's `schema` says")];
        Err(Rejection::Invalid { reason: "the answer does not fit the question".into(), issues })
    }

    /// Why an answer is none to the question.
    pub(crate) fn answer_issue(&mut self, question: &Question, answer: &Json) -> Option<String> {
        let (bytes, most) = (answer.text().len(), self.context.limits.payload_bytes_max);
        if bytes > most {
            return Some(format!("it has {bytes} bytes, more than `payload_bytes_max` ({most})"));
        }
        if let Err(wrong) = json_limits::check_json(answer, self.context.limits.nesting_max) {
            return Some(wrong.to_string());
        }
        check::mismatch(&mut self.state.schemas, question.schema.as_ref()?, answer).map(|why| why.to_string())
    }

    /// The step goes on with the answer: as its outputs, or among its inputs.
    fn answer_step(&mut self, i: u32, answer: Json, by_default: bool, reason: String) {
        let ask = self.state.plan.steps[to_usize(i)].ask.as_ref();
        let is_result = ask.is_none_or(|ask| ask.into.is_none());
        let answered = StepAnswered { answer: answer.clone(), by_default, reason };
        self.emit_step(i, StepEvent::Answered(Box::new(answered)));
        if !is_result {
            return self.consider(i);
        }
        match self.unfit(i, &answer) {
            Some(failure) => self.give_up(i, failure, 0.0, 0),
            None => {
                let completed = StepCompleted { outputs: answer, ..StepCompleted::default() };
                self.emit_step(i, StepEvent::Completed(Box::new(completed)));
            }
        }
    }

    fn answer_plan_question(&mut self, id: String, answer: Json, by_default: bool, reason: String) {
        let due_ms = self.after(PLANNER_MS);
        let answered = QuestionAnswered { id, answer, by_default, reason, due_ms };
        self.emit_plan(PlanEvent::QuestionAnswered(Box::new(answered)));
    }

    /// Nobody answered a step in time.
    pub(crate) fn answer_step_by_default(&mut self, i: u32) {
        let default = self.state.plan.steps[to_usize(i)].ask.as_ref().and_then(|ask| ask.default.clone());
        match default {
            Some(answer) => self.answer_step(i, answer, true, "nobody answered in time".into()),
            None => {
                let failure = Failure::new(FailureClass::Timeout, "NO_ANSWER", "nobody answered in time");
                self.give_up(i, failure, 0.0, 0);
            }
        }
    }

    /// Nobody answered a planner in time.
    pub(crate) fn answer_plan_by_default(&mut self) {
        let Some(asked) = self.state.revising.question.as_deref().cloned() else { return };
        match asked.question.default {
            Some(answer) => self.answer_plan_question(asked.id, answer, true, "nobody answered in time".into()),
            None => self.go_on_unrevised("nobody answered in time".into()),
        }
    }
}
