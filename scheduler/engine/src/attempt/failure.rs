//! Failures of steps and plans: the failure policy, and how a plan ends.

use goalmill_common::command::Verb;
use goalmill_common::event::{
    PlanEnded, PlanEvent, Reason, ReplanTriggered, SkipCause, StepCancelled, StepEvent, StepFailed, StepSkipped,
};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::StepId;
use goalmill_common::plan::{Collect, OnFailure};
use goalmill_common::revision::Trigger;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::text::shorten;

use crate::Effect;
use crate::PlanState;
use crate::attempt::report::Spent;
use crate::constraints::CONSTRAINT_BROKEN;
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::revise::trigger_of;

/// Steps that the end of a plan cancels with an event each; of more, the end lists the ids, so that it stays smaller than
/// the plan.
const CANCEL_EVENTS_MAX: usize = 1_000;
/// Longest message about failures inside a plan, in characters: a plan inside a plan tells those inside it.
const FAILURES_CHARS: usize = 1_000;
/// Longest reason of a plan's end that its steps repeat, in characters.
const REASON_CHARS_MAX: usize = 200;

impl Turn<'_> {
    /// Fails or skips a step by its failure policy. The caller propagates.
    pub(crate) fn give_up(&mut self, i: StepIndex, failure: Failure, spent: Spent) {
        if self.fail_undo(i, &failure, spent) {
            return;
        }
        // An undo step fails for what it could not undo first.
        let failure = self.state.failed_undos(i, 1).unwrap_or(failure);
        self.fail_step(i, failure, spent);
    }

    /// The same for an undo step that is through with everything.
    pub(crate) fn fail_step(&mut self, i: StepIndex, failure: Failure, spent: Spent) {
        let on_failure = self.state.on_failure(i, failure.class);
        let Spent { cost, tokens, split: usage, duration_ms } = spent;
        if on_failure == OnFailure::Skip {
            let reason = format!("it failed: {}", failure.message);
            let cause = SkipCause::FailurePolicy;
            let skipped = StepSkipped { cause, reason, failure: Some(failure), cost, tokens, usage, duration_ms };
            return self.emit_step(i, StepEvent::Skipped(Box::new(skipped)));
        }
        let failed = StepFailed { failure: failure.clone(), cost, tokens, usage, duration_ms };
        self.emit_step(i, StepEvent::Failed(Box::new(failed)));
        // A failure supersedes an optional replan; a required one defers it.
        if on_failure == OnFailure::Abort || !self.is_replan_required() {
            self.apply_failure_policy(i, failure);
        }
    }

    /// Applies the failure policy of a failed step to the plan.
    pub(crate) fn apply_failure_policy(&mut self, i: StepIndex, failure: Failure) {
        match self.state.on_failure(i, failure.class) {
            OnFailure::Abort => self.fail_plan(plan_failure(&self.id_of(i), failure)),
            OnFailure::Skip | OnFailure::Continue => {}
            OnFailure::Replan => self.replan(trigger_of(&failure), Some(i), failure.message),
            OnFailure::AskUser => self.replan(Trigger::AskUser, Some(i), failure.message),
        }
    }

    /// Whether the plan is replanned and cannot continue without a revision.
    pub(crate) fn is_replan_required(&self) -> bool {
        self.state.waiting.replan().is_some_and(|replan| !is_optional(replan))
    }

    /// Ends the replan without a revision: a plan that needed one fails, any other continues.
    pub(crate) fn continue_without_revision(&mut self, reason: String) {
        let is_needed = |replan: &&ReplanTriggered| {
            !is_optional(replan) || self.state.needs_next_part() || self.state.is_for_one_planner(replan)
        };
        let Some(replan) = self.state.waiting.replan().filter(is_needed).cloned() else {
            self.emit_plan(PlanEvent::Resumed(Reason::boxed(reason)));
            return self.skip_blocked();
        };
        let Some(step) = replan.step else {
            let message = format!("{}: {reason}", replan.reason);
            let failure = match Trigger::parse(&replan.trigger) {
                Some(Trigger::ConstraintViolation) => {
                    Failure::new(FailureClass::ConstraintViolation, CONSTRAINT_BROKEN, message)
                }
                Some(_) | None => Failure::new(FailureClass::Permanent, "PLANNING_FAILED", message),
            };
            return self.fail_plan(failure);
        };
        let i = self.state.graph.find(step.as_str());
        let failure = i.and_then(|i| self.state.steps[i].failure().cloned());
        let failure =
            failure.unwrap_or_else(|| Failure::new(FailureClass::Permanent, "REPLAN_FAILED", reason.as_str()));
        let failure = plan_failure(&step, failure);
        let reason = format!("{}; {reason}", failure.message);
        self.fail_plan_because(failure, reason);
    }

    /// Fails the plan. Attempts in flight are cancelled, results are kept.
    pub(crate) fn fail_plan(&mut self, failure: Failure) {
        let reason = failure.message.clone();
        self.fail_plan_because(failure, reason);
    }

    /// Fails the plan for a reason of its own: that of the planner that advised to abort, for instance. A plan whose outcome
    /// is known keeps it.
    pub(crate) fn fail_plan_because(&mut self, failure: Failure, reason: String) {
        if self.state.cleanup.is_running() {
            return;
        }
        let cancelled = self.cancel_steps("the plan failed", &reason);
        let ended = PlanEnded { status: PlanStatus::Failed, failure: Some(failure), reason, cancelled };
        self.end_plan(ended);
    }

    pub(crate) fn cancel_plan(&mut self, reason: String) {
        let cancelled = self.cancel_steps("the plan was cancelled", &reason);
        self.end_plan(PlanEnded { status: PlanStatus::Cancelled, failure: None, reason, cancelled });
    }

    /// Cancels every step that is not final, with events of their own, and stops the plans inside it, whose steps end with
    /// them. Returns those that the plan's end must list instead, because there are too many of them.
    pub(crate) fn cancel_steps(&mut self, why: &str, reason: &str) -> Vec<StepId> {
        let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        let why = if reason.is_empty() { why.to_owned() } else { format!("{why}: {reason}") };
        let keeps = self.state.runs_cleanup();
        let open = |turn: &Self| -> Vec<StepIndex> {
            let is_kept = |i: &StepIndex| {
                let spec = turn.state.plan.step(*i);
                let keeps_undos = turn.state.cleanup.run().is_some_and(|run| run.keeps_undos);
                keeps && (spec.is_cleanup() || turn.state.inner.is_holder(*i)) || keeps_undos && spec.undoes.is_some()
            };
            turn.state.indices().filter(|i| !turn.status_of(*i).is_final() && !is_kept(i)).collect()
        };
        self.cancel_attempts(&why, keeps);
        let open = open(self);
        if open.len() > CANCEL_EVENTS_MAX {
            return open.into_iter().map(|i| self.id_of(i)).collect();
        }
        for i in open {
            self.emit_step(i, StepEvent::Cancelled(StepCancelled::boxed(why.as_str())));
        }
        Vec::new()
    }

    /// - `keeps`: whether clean-up steps stay; the undo step of what a revision removed begins again then, when it has its
    ///   turn.
    fn cancel_attempts(&mut self, why: &str, keeps: bool) {
        for i in self.state.indices() {
            let is_kept = keeps && self.state.plan.step(i).is_cleanup();
            let may_begin = is_kept && matches!(self.status_of(i), StepStatus::Ready | StepStatus::Retrying);
            if !self.status_of(i).is_in_flight() && !self.state.steps[i].run().awaits_plan() && !may_begin {
                continue;
            }
            if keeps && self.state.has_sub_plan(i) {
                // What undoes the items of a map that a revision took out continues, also if it was paused.
                if !is_kept {
                    self.stop_sub_plan(i);
                } else if self.state.status == PlanStatus::Paused {
                    self.ask_sub_plan(i, Verb::Resume { reason: "the plan around it ends".into() });
                }
                continue;
            }
            if self.state.has_sub_plan(i) {
                self.ask_sub_plan(i, Verb::Cancel { reason: "the plan around it has ended".into() });
            } else {
                self.cancel_attempt(i);
            }
            self.emit_step(
                i,
                match is_kept {
                    true => StepEvent::Recalled(Reason::boxed(why)),
                    false => StepEvent::Cancelled(StepCancelled::boxed(why)),
                },
            );
        }
        self.remember_timers();
    }

    /// Cancels the attempt in flight, if there is one, or the plan that a call waits for.
    pub(crate) fn cancel_attempt(&mut self, i: StepIndex) {
        if !self.status_of(i).is_in_flight() && !self.state.steps[i].run().awaits_plan() {
            return;
        }
        if self.state.has_sub_plan(i) {
            self.leave_sub_plan(i);
        } else {
            self.effects.extend(self.state.token(i, self.context.token_key).map(Effect::Cancel));
        }
    }

    /// Ends a plan whose log is too long, through its clean-up, which may write as many events again.
    pub(crate) fn fail_for_events(&mut self) {
        if self.state.cleanup.is_running() {
            return self.finish_cleanup("its log is too long (`events_max`)");
        }
        let most = self.context.limits.events_max;
        let message = format!("the plan has more than {most} events (`events_max`)");
        self.fail_plan(Failure::new(FailureClass::ConstraintViolation, "EVENTS_EXCEEDED", message));
    }
}

impl PlanState {
    /// The steps that run when this one has failed.
    fn handlers(&self, i: StepIndex) -> impl Iterator<Item = StepIndex> {
        let id = &self.plan.step(i).id;
        let live = |d: &StepIndex| self.steps[*d].status() != StepStatus::Revised;
        let handles = |d: &StepIndex| self.plan.step(*d).handles_failure_of(id);
        self.graph.dependents(i).iter().copied().filter(live).filter(handles)
    }

    /// Whether a step that has not ended runs when this one fails.
    pub(crate) fn may_be_handled(&self, i: StepIndex) -> bool {
        self.handlers(i).any(|d| !self.steps[d].status().is_final())
    }

    fn is_handled(&self, i: StepIndex) -> bool {
        self.handlers(i).any(|d| self.steps[d].status() == StepStatus::Completed)
    }

    fn failed_steps(&self) -> impl Iterator<Item = StepIndex> {
        // Most plans have none.
        let end = if self.counts.failed > 0 { self.steps.len() } else { 0 };
        (0..end).map(StepIndex::new).filter(|i| self.steps[*i].status() == StepStatus::Failed)
    }

    /// Whether a step has failed, and no step that ran for this failure is completed.
    pub(crate) fn has_open_failure(&self) -> bool {
        self.failed_steps().any(|i| !self.is_handled(i))
    }

    /// Whether steps are left out by a revision that no person decided.
    pub(crate) fn has_left_out(&self) -> bool {
        let is_out = |i: &StepIndex| self.steps[*i].status() == StepStatus::Revised || self.steps[*i].is_left_out();
        self.revising.left_out.iter().any(is_out)
    }

    /// What a plan that ended in part tells the step around it: how many of its steps failed, or are partial, and the first
    /// of these.
    ///
    /// - `status`: what the plan ends as.
    pub(crate) fn tolerated_failures(&self, status: PlanStatus) -> Option<Failure> {
        if status != PlanStatus::Partial {
            return None;
        }
        let is_open = |i: StepIndex| {
            let step = &self.steps[i];
            step.is_left_out() || step.status() == StepStatus::Failed && !self.is_handled(i)
        };
        let error = |i: StepIndex| self.steps[i].failure().filter(|_| is_open(i));
        let errors = self.indices().filter_map(|i| Some((i, error(i).or_else(|| self.steps[i].errors().first())?)));
        let errors: Vec<(StepIndex, &Failure)> = errors.collect();
        let (i, first) = errors.first()?;
        let all = self.plan.steps().filter(|step| !step.is_cleanup()).count();
        let what = if self.plan.definition().collect == Collect::List { "items" } else { "steps" };
        let message = format!(
            "{} of {all} {what} did not succeed; the first, `{}`: {}",
            errors.len(),
            self.plan.step(*i).id,
            first.message
        );
        Some(Failure {
            message: shorten(&message, FAILURES_CHARS).into_owned(),
            retry_after_ms: None,
            ..(*first).clone()
        })
    }

    /// A failure that ends the plan, because the steps that should have handled it are not completed either.
    pub(crate) fn unhandled_failure(&self) -> Option<(StepId, Failure)> {
        let ends_plan = |i: &StepIndex| {
            let class = self.steps[*i].failure().map_or(FailureClass::Permanent, |failure| failure.class);
            self.handlers(*i).next().is_some()
                && !self.is_handled(*i)
                && self.on_failure(*i, class) != OnFailure::Continue
        };
        let i = self.failed_steps().find(ends_plan)?;
        let unknown = || Failure::new(FailureClass::Permanent, "STEP_FAILED", "it failed");
        Some((self.plan.step(i).id.clone(), self.steps[i].failure().cloned().unwrap_or_else(unknown)))
    }
}

/// Whether the plan continues when the replan brings no revision.
fn is_optional(replan: &ReplanTriggered) -> bool {
    Trigger::parse(&replan.trigger).map_or(replan.step.is_none(), Trigger::is_optional)
}

/// The failure of a plan that a step caused.
pub(crate) fn plan_failure(step: &goalmill_common::id::StepId, failure: Failure) -> Failure {
    Failure { message: format!("step `{step}` failed: {}", failure.message), retry_after_ms: None, ..failure }
}
