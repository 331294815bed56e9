//! The life of an attempt: dispatch to a worker, reports, timers.

pub(crate) mod cards;
pub(crate) mod failure;
pub(crate) mod fallback;
pub(crate) mod lost;
pub(crate) mod output_check;
pub(crate) mod recording;
pub(crate) mod report;
pub(crate) mod result_cache;
pub(crate) mod retry;
pub(crate) mod step_result;
pub(crate) mod step_run;
pub(crate) mod step_state;

use goalmill_common::event::{StepCompleted, StepEvent, StepQueued};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::plan::OnPartial;
use goalmill_common::report::URGENT_PRIORITY;
use goalmill_common::revision::Trigger;
use goalmill_common::status::PlanStatus;
use goalmill_common::task::Task;

use crate::attempt::report::{Spent, information_of};
use crate::attempt::step_run::StepRun;
use crate::calls::callback::missing_address;
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::people::decider::Decider;
use crate::render::Unrendered;
use crate::{Effect, EngineContext, PlanState, Rejection};

impl PlanState {
    /// Returns the task of a step's last attempt, or why its inputs cannot be rendered.
    pub fn task(&self, i: StepIndex, context: &EngineContext) -> Option<Result<Task, Failure>> {
        let agent_type = self.queue(i)?.clone();
        let inputs = self.inputs_of_attempt(i, &context.limits);
        Some(inputs.map(|inputs| self.task_of(i, agent_type, inputs, context)).map_err(Unrendered::into_failure))
    }

    fn task_of(&self, i: StepIndex, agent_type: AgentType, inputs: Json, context: &EngineContext) -> Task {
        let (spec, step) = (self.plan.step(i), &self.steps[i]);
        let accepted = &self.accepted;
        Task {
            plan: accepted.plan_id.clone(),
            family: self.parent().map(|parent| parent.family().clone()),
            step: spec.id.clone(),
            attempt: step.attempt(),
            token: self.token(i, context.token_key).expect("the step exists"),
            agent_type,
            action: self.action(i).unwrap_or_default().to_owned(),
            description: spec.description.clone(),
            inputs,
            expected_outputs: spec.expected_outputs.clone(),
            expected_output: spec.expected_output.clone(),
            output_schema: spec.output_schema.clone(),
            timeout_ms: spec.run_limit_ms(&context.limits),
            lease_ms: context.task_lease_ms,
            reply: context.reply.clone(),
            idempotency_key: self.idempotency_key(i),
            calls: step.calls().recorded().to_vec(),
            callback: self.task_callback(i, context),
            budget: self.steps[i].grant().map(|grant| grant.left),
            traceparent: accepted.traceparent.clone(),
        }
    }

    /// The same for all attempts at the same work: one for each iteration, one for each other work that a revision made of the
    /// step, and in an undo step one for all that it undoes.
    fn idempotency_key(&self, i: StepIndex) -> String {
        let mut key = format!("{}:{}", self.accepted.plan_id, self.plan.step(i).id);
        if let n @ 1.. = self.steps[i].edition() {
            key.push_str(&format!("^{}", n + 1));
        }
        if let n @ 1.. = self.undone(i) {
            key.push_str(&format!("@{}", n + 1));
        }
        if let n @ 2.. = self.steps[i].iterations().current() {
            key.push_str(&format!("~{n}"));
        }
        key
    }
}

impl Turn<'_> {
    /// Dispatches a ready step's next attempt, or fails the step when its inputs cannot be rendered. Runs the step if it needs
    /// no worker.
    pub(crate) fn dispatch(&mut self, i: StepIndex) -> Result<(), Rejection> {
        if i.as_usize() >= self.state.steps.len() || !self.state.can_dispatch(i) {
            return Err(Rejection::NotDue);
        }
        if self.state.loads.is_asked(Some(i)) {
            return Ok(());
        }
        if self.state.runs_in_engine(i) {
            self.run_engine_step(i);
            self.propagate();
            return Ok(());
        }
        if let Some(reason) = missing_address(self.context, self.state.plan.step(i)) {
            let failure = Failure::new(FailureClass::Permanent, "CALLBACK_ADDRESS_MISSING", reason);
            self.fail_dispatch(i, failure);
            return Ok(());
        }
        // Cards change after a plan is routed, and some agent types get theirs later.
        let refused = self
            .state
            .queue(i)
            .zip(self.state.action(i))
            .and_then(|(queue, action)| self.context.cards.refusal(queue, action));
        if let Some(failure) = refused.or_else(|| self.cannot_afford(i)) {
            self.fail_dispatch(i, failure);
            return Ok(());
        }
        match self.cache_key(i) {
            Ok(Some(key)) if !self.state.steps[i].decisions().has_refused_cache() => {
                self.effects.push(Effect::CacheLookup { step: i, key });
            }
            Ok(_) => self.send_to_worker(i),
            Err(why) => self.put_off_dispatch(i, why),
        }
        Ok(())
    }

    /// Sends a step to a worker after a cache miss.
    pub(crate) fn send_to_worker(&mut self, i: StepIndex) {
        let made = self.expressions(i).inputs();
        let (inputs, cache_key) = match made.and_then(|inputs| Ok((inputs, self.cache_key(i)?))) {
            Ok(made) => made,
            Err(why) => return self.put_off_dispatch(i, why),
        };
        self.forget_payloads(i);
        let agent_type = self.state.queue(i).expect("the step exists").clone();
        let due_ms = self.after(self.context.limits.queue_ms_max);
        let budget = self.state.next_grant(i);
        let queued = StepQueued { cache_key, budget, ..StepQueued::new(agent_type.clone(), due_ms) };
        self.emit_queued(i, queued, &inputs);
        let task = self.state.task_of(i, agent_type, inputs, self.context);
        self.effects.push(Effect::Send(Box::new(task)));
    }

    fn put_off_dispatch(&mut self, i: StepIndex, why: Unrendered) {
        self.put_off(i, why);
        self.propagate();
    }

    fn fail_dispatch(&mut self, i: StepIndex, failure: Failure) {
        self.give_up(i, failure, Spent::default());
        self.propagate();
    }

    /// Completes an attempt whose outputs were checked.
    pub(crate) fn complete_checked(&mut self, i: StepIndex, completed: StepCompleted) {
        if !completed.partial {
            self.cache_outputs(i, &completed.outputs);
        }
        let suggested = &completed.suggested_adjustments;
        let is_urgent = suggested.first().is_some_and(|first| first.priority >= URGENT_PRIORITY);
        let is_news = is_urgent || completed.adjustments.is_some();
        let needs_replan = completed.partial && self.state.plan.step(i).on_partial == OnPartial::Replan;
        self.information = information_of(completed.adjustments.as_ref(), suggested);
        let Some(completed) = self.iterate(i, completed) else { return };
        self.emit_step(i, StepEvent::Completed(Box::new(completed)));
        if self.state.status != PlanStatus::Running || self.state.is_done() || self.state.cleanup.is_running() {
            return;
        }
        if needs_replan {
            let reason = format!("step `{}` succeeded in part", self.id_of(i));
            self.replan(Trigger::PartialSuccess, Some(i), reason);
        } else if is_news {
            let reason = format!("step `{}` brought new information", self.id_of(i));
            self.replan(Trigger::NewInformation, Some(i), reason);
        }
    }

    /// Returns why outputs do not match what the step declares.
    pub(crate) fn output_mismatch(&mut self, i: StepIndex, outputs: &Json) -> Option<Failure> {
        let outputs = self.with_loaded(i, outputs);
        let spec = self.state.plan.step(i);
        output_check::check_outputs(spec, &outputs, &self.context.limits)
    }

    /// Completes a step without an attempt, if the outputs are what it declares.
    pub(crate) fn complete_with(&mut self, i: StepIndex, outputs: Json) {
        match self.output_mismatch(i, &outputs) {
            Some(failure) => self.give_up(i, failure, Spent::default()),
            None => self.emit_completed(i, outputs),
        }
    }

    pub(crate) fn emit_completed(&mut self, i: StepIndex, outputs: Json) {
        let completed = StepCompleted { outputs, ..StepCompleted::default() };
        self.emit_step(i, StepEvent::Completed(Box::new(completed)));
    }

    /// Completes an inline step: its inputs are its outputs.
    pub(crate) fn complete_inline(&mut self, i: StepIndex) {
        let inputs = self.expressions(i).inputs();
        let checked = inputs.and_then(|outputs| {
            let needed = self.unloaded_outputs(i, &outputs);
            if !needed.is_empty() {
                return Err(Unrendered::Needs(needed));
            }
            match self.output_mismatch(i, &outputs) {
                Some(failure) => Err(Unrendered::Failed(failure)),
                None => Ok(outputs),
            }
        });
        match checked {
            Ok(outputs) => {
                self.count_work(outputs.text().len());
                self.forget_payloads(i);
                let completed = StepCompleted { outputs, ..StepCompleted::default() };
                if let Some(completed) = self.ask_hooks_after(i, completed) {
                    self.emit_next(i, StepEvent::Completed(Box::new(completed)));
                }
            }
            Err(why) => {
                self.count_work(0);
                self.put_off(i, why);
            }
        }
    }

    /// Handles a due timer of a step.
    pub(crate) fn handle_step_timer(&mut self, i: StepIndex) -> Result<(), Rejection> {
        let Some(step) = self.state.steps.get(i.as_usize()) else { return Err(Rejection::NotDue) };
        if step.due_ms().is_none_or(|due_ms| self.now_ms < due_ms) {
            return Err(Rejection::NotDue);
        }
        match step.run() {
            StepRun::Queued { .. } => {
                let message = "no worker took the task in time";
                self.time_out(i, Failure::new(FailureClass::Timeout, "QUEUE_TIMEOUT", message));
            }
            StepRun::Running { .. } => self.time_out(i, step_timeout()),
            StepRun::Waiting { .. } => self.end_wait(i),
            StepRun::Retrying { .. } => self.emit_step(i, StepEvent::Ready),
            StepRun::Suspended(suspended) => self.resume_call_by_default(i, suspended.call.clone()),
            StepRun::AwaitingApproval(Decider::Held { .. }) => self.ask_hooks_again(i),
            StepRun::AwaitingApproval(Decider::Answer { .. }) => self.answer_step_by_default(i),
            StepRun::AwaitingApproval(Decider::Approval { .. }) => self.decide_by_default(i),
            StepRun::AwaitingApproval(Decider::Hooks(_) | Decider::Decided)
            | StepRun::Pending
            | StepRun::Blocked { .. }
            | StepRun::Ready { .. }
            | StepRun::Ended { .. } => return Err(Rejection::NotDue),
        }
        self.propagate();
        Ok(())
    }

    fn time_out(&mut self, i: StepIndex, failure: Failure) {
        if self.state.has_sub_plan(i) {
            // The step ends with its plan.
            return self.stop_sub_plan(i);
        }
        self.cancel_attempt(i);
        if self.state.runs_in_engine(i) {
            self.give_up(i, failure, Spent::default());
        } else {
            self.fail_attempt(i, failure, Spent::default());
        }
    }
}

/// The failure of an attempt that exceeded its time limit.
pub(crate) fn step_timeout() -> Failure {
    Failure::new(FailureClass::Timeout, "STEP_TIMEOUT", "the attempt exceeded its time limit")
}
