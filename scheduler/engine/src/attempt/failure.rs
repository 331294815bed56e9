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

use crate::attempt::report::Spent;
use crate::calls::call_plan;
use crate::cleanup::done_work;
use crate::constraints::CONSTRAINT_BROKEN;
use crate::decide::Turn;
use crate::graph::{StepIndex, checkpoint, unlock};
use crate::revise::{fork, trigger, trigger_of};
use crate::sub_plan::kept_plans;
use crate::{Effect, PlanState, cleanup, sub_plan};

/// Steps that the end of a plan cancels with an event each; of more, the end lists the ids, so that it stays smaller than
/// the plan.
const CANCEL_EVENTS_MAX: usize = 1_000;
/// Longest message about failures inside a plan, in characters: a plan inside a plan tells those inside it.
const FAILURES_CHARS: usize = 1_000;
/// Longest reason of a plan's end that its steps repeat, in characters.
const REASON_CHARS_MAX: usize = 200;

/// Fails or skips a step by its failure policy. The caller propagates.
pub(crate) fn give_up(turn: &mut Turn<'_>, i: StepIndex, failure: Failure, spent: Spent) {
    if cleanup::fail_undo(turn, i, &failure, spent) {
        return;
    }
    // An undo step fails for what it could not undo first.
    let failure = done_work::failed_undos(turn.state, i, 1).unwrap_or(failure);
    fail_step(turn, i, failure, spent);
}

/// The same for an undo step that is through with everything.
pub(crate) fn fail_step(turn: &mut Turn<'_>, i: StepIndex, failure: Failure, spent: Spent) {
    let on_failure = trigger::on_failure(turn.state, i, failure.class);
    let Spent { cost, tokens, split: usage, duration_ms } = spent;
    if on_failure == OnFailure::Skip {
        let reason = format!("it failed: {}", failure.message);
        let cause = SkipCause::FailurePolicy;
        let skipped = StepSkipped { cause, reason, failure: Some(failure), cost, tokens, usage, duration_ms };
        return turn.emit_step(i, StepEvent::Skipped(Box::new(skipped)));
    }
    let failed = StepFailed { failure: failure.clone(), cost, tokens, usage, duration_ms };
    turn.emit_step(i, StepEvent::Failed(Box::new(failed)));
    // A failure supersedes an optional replan; a required one defers it.
    if on_failure == OnFailure::Abort || !is_replan_required(turn) {
        apply_failure_policy(turn, i, failure);
    }
}

/// Applies the failure policy of a failed step to the plan.
pub(crate) fn apply_failure_policy(turn: &mut Turn<'_>, i: StepIndex, failure: Failure) {
    match trigger::on_failure(turn.state, i, failure.class) {
        OnFailure::Abort => fail_plan(turn, plan_failure(&turn.id_of(i), failure)),
        OnFailure::Skip | OnFailure::Continue => {}
        OnFailure::Replan => trigger::replan(turn, trigger_of(&failure), Some(i), failure.message),
        OnFailure::AskUser => trigger::replan(turn, Trigger::AskUser, Some(i), failure.message),
    }
}

/// Whether the plan is replanned and cannot continue without a revision.
pub(crate) fn is_replan_required(turn: &Turn<'_>) -> bool {
    turn.state.waiting.replan().is_some_and(|replan| !is_optional(replan))
}

/// Ends the replan without a revision: a plan that needed one fails, any other continues.
pub(crate) fn continue_without_revision(turn: &mut Turn<'_>, reason: String) {
    let is_needed = |replan: &&ReplanTriggered| {
        !is_optional(replan) || checkpoint::needs_next_part(turn.state) || fork::is_for_one_planner(turn.state, replan)
    };
    let Some(replan) = turn.state.waiting.replan().filter(is_needed).cloned() else {
        turn.emit_plan(PlanEvent::Resumed(Reason::boxed(reason)));
        return unlock::skip_blocked(turn);
    };
    let Some(step) = replan.step else {
        let message = format!("{}: {reason}", replan.reason);
        let failure = match Trigger::parse(&replan.trigger) {
            Some(Trigger::ConstraintViolation) => {
                Failure::new(FailureClass::ConstraintViolation, CONSTRAINT_BROKEN, message)
            }
            Some(_) | None => Failure::new(FailureClass::Permanent, "PLANNING_FAILED", message),
        };
        return fail_plan(turn, failure);
    };
    let i = turn.state.graph.find(step.as_str());
    let failure = i.and_then(|i| turn.state.steps[i].failure().cloned());
    let failure = failure.unwrap_or_else(|| Failure::new(FailureClass::Permanent, "REPLAN_FAILED", reason.as_str()));
    let failure = plan_failure(&step, failure);
    let reason = format!("{}; {reason}", failure.message);
    fail_plan_because(turn, failure, reason);
}

/// Fails the plan. Attempts in flight are cancelled, results are kept.
pub(crate) fn fail_plan(turn: &mut Turn<'_>, failure: Failure) {
    let reason = failure.message.clone();
    fail_plan_because(turn, failure, reason);
}

/// Fails the plan for a reason of its own: that of the planner that advised to abort, for instance. A plan whose outcome
/// is known keeps it.
pub(crate) fn fail_plan_because(turn: &mut Turn<'_>, failure: Failure, reason: String) {
    if turn.state.cleanup.is_running() {
        return;
    }
    let cancelled = cancel_steps(turn, "the plan failed", &reason);
    let ended = PlanEnded { status: PlanStatus::Failed, failure: Some(failure), reason, cancelled };
    cleanup::end_plan(turn, ended);
}

pub(crate) fn cancel_plan(turn: &mut Turn<'_>, reason: String) {
    let cancelled = cancel_steps(turn, "the plan was cancelled", &reason);
    cleanup::end_plan(turn, PlanEnded { status: PlanStatus::Cancelled, failure: None, reason, cancelled });
}

/// Cancels every step that is not final, with events of their own, and stops the plans inside it, whose steps end with
/// them. Returns those that the plan's end must list instead, because there are too many of them.
pub(crate) fn cancel_steps(turn: &mut Turn<'_>, why: &str, reason: &str) -> Vec<StepId> {
    let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
    let why = if reason.is_empty() { why.to_owned() } else { format!("{why}: {reason}") };
    let keeps = cleanup::runs_cleanup(turn.state);
    let open = |turn: &Turn<'_>| -> Vec<StepIndex> {
        let is_kept = |i: &StepIndex| {
            let spec = turn.state.plan.step(*i);
            let keeps_undos = turn.state.cleanup.run().is_some_and(|run| run.keeps_undos);
            keeps && (spec.is_cleanup() || turn.state.inner.is_holder(*i)) || keeps_undos && spec.undoes.is_some()
        };
        turn.state.indices().filter(|i| !turn.status_of(*i).is_final() && !is_kept(i)).collect()
    };
    cancel_attempts(turn, &why, keeps);
    let open = open(turn);
    if open.len() > CANCEL_EVENTS_MAX {
        return open.into_iter().map(|i| turn.id_of(i)).collect();
    }
    for i in open {
        turn.emit_step(i, StepEvent::Cancelled(StepCancelled::boxed(why.as_str())));
    }
    Vec::new()
}

/// - `keeps`: whether clean-up steps stay; the undo step of what a revision removed begins again then, when it has its
///   turn.
fn cancel_attempts(turn: &mut Turn<'_>, why: &str, keeps: bool) {
    for i in turn.state.indices() {
        let is_kept = keeps && turn.state.plan.step(i).is_cleanup();
        let may_begin = is_kept && matches!(turn.status_of(i), StepStatus::Ready | StepStatus::Retrying);
        if !turn.status_of(i).is_in_flight() && !turn.state.steps[i].run().awaits_plan() && !may_begin {
            continue;
        }
        if keeps && call_plan::has_sub_plan(turn.state, i) {
            // What undoes the items of a map that a revision took out continues, also if it was paused.
            if !is_kept {
                sub_plan::stop_sub_plan(turn, i);
            } else if turn.state.status == PlanStatus::Paused {
                sub_plan::ask_sub_plan(turn, i, Verb::Resume { reason: "the plan around it ends".into() });
            }
            continue;
        }
        if call_plan::has_sub_plan(turn.state, i) {
            sub_plan::ask_sub_plan(turn, i, Verb::Cancel { reason: "the plan around it has ended".into() });
        } else {
            cancel_attempt(turn, i);
        }
        turn.emit_step(
            i,
            match is_kept {
                true => StepEvent::Recalled(Reason::boxed(why)),
                false => StepEvent::Cancelled(StepCancelled::boxed(why)),
            },
        );
    }
    turn.remember_timers();
}

/// Cancels the attempt in flight, if there is one, or the plan that a call waits for.
pub(crate) fn cancel_attempt(turn: &mut Turn<'_>, i: StepIndex) {
    if !turn.status_of(i).is_in_flight() && !turn.state.steps[i].run().awaits_plan() {
        return;
    }
    if call_plan::has_sub_plan(turn.state, i) {
        kept_plans::leave_sub_plan(turn, i);
    } else {
        turn.effects.extend(turn.state.token(i, turn.context.token_key).map(Effect::Cancel));
    }
}

/// Ends a plan whose log is too long, through its clean-up, which may write as many events again.
pub(crate) fn fail_for_events(turn: &mut Turn<'_>) {
    if turn.state.cleanup.is_running() {
        return cleanup::finish_cleanup(turn, "its log is too long (`events_max`)");
    }
    let most = turn.context.limits.events_max;
    let message = format!("the plan has more than {most} events (`events_max`)");
    fail_plan(turn, Failure::new(FailureClass::ConstraintViolation, "EVENTS_EXCEEDED", message));
}

/// The steps that run when this one has failed.
fn handlers(state: &PlanState, i: StepIndex) -> impl Iterator<Item = StepIndex> {
    let id = &state.plan.step(i).id;
    let live = |d: &StepIndex| state.steps[*d].status() != StepStatus::Revised;
    let handles = |d: &StepIndex| state.plan.step(*d).handles_failure_of(id);
    state.graph.dependents(i).iter().copied().filter(live).filter(handles)
}

/// Whether a step that has not ended runs when this one fails.
pub(crate) fn may_be_handled(state: &PlanState, i: StepIndex) -> bool {
    handlers(state, i).any(|d| !state.steps[d].status().is_final())
}

fn is_handled(state: &PlanState, i: StepIndex) -> bool {
    handlers(state, i).any(|d| state.steps[d].status() == StepStatus::Completed)
}

fn failed_steps(state: &PlanState) -> impl Iterator<Item = StepIndex> {
    // Most plans have none.
    let end = if state.counts.failed > 0 { state.steps.len() } else { 0 };
    (0..end).map(StepIndex::new).filter(|i| state.steps[*i].status() == StepStatus::Failed)
}

/// Whether a step has failed, and no step that ran for this failure is completed.
pub(crate) fn has_open_failure(state: &PlanState) -> bool {
    failed_steps(state).any(|i| !is_handled(state, i))
}

/// Whether steps are left out by a revision that no person decided.
pub(crate) fn has_left_out(state: &PlanState) -> bool {
    let is_out = |i: &StepIndex| state.steps[*i].status() == StepStatus::Revised || state.steps[*i].is_left_out();
    state.revising.left_out.iter().any(is_out)
}

/// What a plan that ended in part tells the step around it: how many of its steps failed, or are partial, and the first
/// of these.
///
/// - `status`: what the plan ends as.
pub(crate) fn tolerated_failures(state: &PlanState, status: PlanStatus) -> Option<Failure> {
    if status != PlanStatus::Partial {
        return None;
    }
    let is_open = |i: StepIndex| {
        let step = &state.steps[i];
        step.is_left_out() || step.status() == StepStatus::Failed && !is_handled(state, i)
    };
    let error = |i: StepIndex| state.steps[i].failure().filter(|_| is_open(i));
    let errors = state.indices().filter_map(|i| Some((i, error(i).or_else(|| state.steps[i].errors().first())?)));
    let errors: Vec<(StepIndex, &Failure)> = errors.collect();
    let (i, first) = errors.first()?;
    let all = state.plan.steps().filter(|step| !step.is_cleanup()).count();
    let what = if state.plan.definition().collect == Collect::List { "items" } else { "steps" };
    let message = format!(
        "{} of {all} {what} did not succeed; the first, `{}`: {}",
        errors.len(),
        state.plan.step(*i).id,
        first.message
    );
    Some(Failure { message: shorten(&message, FAILURES_CHARS).into_owned(), retry_after_ms: None, ..(*first).clone() })
}

/// A failure that ends the plan, because the steps that should have handled it are not completed either.
pub(crate) fn unhandled_failure(state: &PlanState) -> Option<(StepId, Failure)> {
    let ends_plan = |i: &StepIndex| {
        let class = state.steps[*i].failure().map_or(FailureClass::Permanent, |failure| failure.class);
        handlers(state, *i).next().is_some()
            && !is_handled(state, *i)
            && trigger::on_failure(state, *i, class) != OnFailure::Continue
    };
    let i = failed_steps(state).find(ends_plan)?;
    let unknown = || Failure::new(FailureClass::Permanent, "STEP_FAILED", "it failed");
    Some((state.plan.step(i).id.clone(), state.steps[i].failure().cloned().unwrap_or_else(unknown)))
}

/// Whether the plan continues when the replan brings no revision.
fn is_optional(replan: &ReplanTriggered) -> bool {
    Trigger::parse(&replan.trigger).map_or(replan.step.is_none(), Trigger::is_optional)
}

/// The failure of a plan that a step caused.
pub(crate) fn plan_failure(step: &goalmill_common::id::StepId, failure: Failure) -> Failure {
    Failure { message: format!("step `{step}` failed: {}", failure.message), retry_after_ms: None, ..failure }
}
