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
use crate::budget::call_budget;
use crate::calls::callback::missing_address;
use crate::calls::{call_plan, callback};
use crate::cleanup::done_work;
use crate::decide::Turn;
use crate::graph::{StepIndex, unlock};
use crate::people::decider::Decider;
use crate::people::hook;
use crate::render::{Unrendered, payloads};
use crate::revise::trigger;
use crate::sub_plan::loops;
use crate::{Effect, EngineContext, PlanState, Rejection, budget, calls, people, render, sub_plan, wait};

/// Returns the task of a step's last attempt, or why its inputs cannot be rendered.
pub fn task(state: &PlanState, i: StepIndex, context: &EngineContext) -> Option<Result<Task, Failure>> {
    let agent_type = state.queue(i)?.clone();
    let inputs = render::inputs_of_attempt(state, i, &context.limits);
    Some(inputs.map(|inputs| task_of(state, i, agent_type, inputs, context)).map_err(Unrendered::into_failure))
}

fn task_of(state: &PlanState, i: StepIndex, agent_type: AgentType, inputs: Json, context: &EngineContext) -> Task {
    let (spec, step) = (state.plan.step(i), &state.steps[i]);
    let accepted = &state.accepted;
    Task {
        plan: accepted.plan_id.clone(),
        family: state.parent().map(|parent| parent.family().clone()),
        step: spec.id.clone(),
        attempt: step.attempt(),
        token: state.token(i, context.token_key).expect("the step exists"),
        agent_type,
        action: state.action(i).unwrap_or_default().to_owned(),
        description: spec.description.clone(),
        inputs,
        expected_outputs: spec.expected_outputs.clone(),
        expected_output: spec.expected_output.clone(),
        output_schema: spec.output_schema.clone(),
        timeout_ms: spec.run_limit_ms(&context.limits),
        lease_ms: context.task_lease_ms,
        reply: context.reply.clone(),
        idempotency_key: idempotency_key(state, i),
        calls: step.calls().recorded().to_vec(),
        callback: callback::task_callback(state, i, context),
        budget: state.steps[i].grant().map(|grant| grant.left),
        traceparent: accepted.traceparent.clone(),
    }
}

/// The same for all attempts at the same work: one for each iteration, one for each other work that a revision made of the
/// step, and in an undo step one for all that it undoes.
fn idempotency_key(state: &PlanState, i: StepIndex) -> String {
    let mut key = format!("{}:{}", state.accepted.plan_id, state.plan.step(i).id);
    if let n @ 1.. = state.steps[i].edition() {
        key.push_str(&format!("^{}", n + 1));
    }
    if let n @ 1.. = done_work::undone(state, i) {
        key.push_str(&format!("@{}", n + 1));
    }
    if let n @ 2.. = state.steps[i].iterations().current() {
        key.push_str(&format!("~{n}"));
    }
    key
}

/// Dispatches a ready step's next attempt, or fails the step when its inputs cannot be rendered. Runs the step if it needs
/// no worker.
pub(crate) fn dispatch_step(turn: &mut Turn<'_>, i: StepIndex) -> Result<(), Rejection> {
    if i.as_usize() >= turn.state.steps.len() || !turn.state.can_dispatch(i) {
        return Err(Rejection::NotDue);
    }
    if turn.state.loads.is_asked(Some(i)) {
        return Ok(());
    }
    if turn.state.runs_in_engine(i) {
        unlock::run_engine_step(turn, i);
        unlock::propagate(turn);
        return Ok(());
    }
    if let Some(reason) = missing_address(turn.context, turn.state.plan.step(i)) {
        let failure = Failure::new(FailureClass::Permanent, "CALLBACK_ADDRESS_MISSING", reason);
        fail_dispatch(turn, i, failure);
        return Ok(());
    }
    // Cards change after a plan is routed, and some agent types get theirs later.
    let refused = turn
        .state
        .queue(i)
        .zip(turn.state.action(i))
        .and_then(|(queue, action)| turn.context.cards.refusal(queue, action));
    if let Some(failure) = refused.or_else(|| budget::cannot_afford(turn, i)) {
        fail_dispatch(turn, i, failure);
        return Ok(());
    }
    match result_cache::cache_key(turn, i) {
        Ok(Some(key)) if !turn.state.steps[i].decisions().has_refused_cache() => {
            turn.effects.push(Effect::CacheLookup { step: i, key });
        }
        Ok(_) => send_to_worker(turn, i),
        Err(why) => put_off_dispatch(turn, i, why),
    }
    Ok(())
}

/// Sends a step to a worker after a cache miss.
pub(crate) fn send_to_worker(turn: &mut Turn<'_>, i: StepIndex) {
    let made = turn.expressions(i).inputs();
    let (inputs, cache_key) = match made.and_then(|inputs| Ok((inputs, result_cache::cache_key(turn, i)?))) {
        Ok(made) => made,
        Err(why) => return put_off_dispatch(turn, i, why),
    };
    payloads::forget_payloads(turn, i);
    let agent_type = turn.state.queue(i).expect("the step exists").clone();
    let due_ms = turn.after(turn.context.limits.queue_ms_max);
    let budget = call_budget::next_grant(turn.state, i);
    let queued = StepQueued { cache_key, budget, ..StepQueued::new(agent_type.clone(), due_ms) };
    recording::emit_queued(turn, i, queued, &inputs);
    let task = task_of(turn.state, i, agent_type, inputs, turn.context);
    turn.effects.push(Effect::Send(Box::new(task)));
}

fn put_off_dispatch(turn: &mut Turn<'_>, i: StepIndex, why: Unrendered) {
    payloads::put_off(turn, i, why);
    unlock::propagate(turn);
}

fn fail_dispatch(turn: &mut Turn<'_>, i: StepIndex, failure: Failure) {
    failure::give_up(turn, i, failure, Spent::default());
    unlock::propagate(turn);
}

/// Completes an attempt whose outputs were checked.
pub(crate) fn complete_checked(turn: &mut Turn<'_>, i: StepIndex, completed: StepCompleted) {
    if !completed.partial {
        result_cache::cache_outputs(turn, i, &completed.outputs);
    }
    let suggested = &completed.suggested_adjustments;
    let is_urgent = suggested.first().is_some_and(|first| first.priority >= URGENT_PRIORITY);
    let is_news = is_urgent || completed.adjustments.is_some();
    let needs_replan = completed.partial && turn.state.plan.step(i).on_partial == OnPartial::Replan;
    turn.information = information_of(completed.adjustments.as_ref(), suggested);
    let Some(completed) = loops::iterate(turn, i, completed) else { return };
    turn.emit_step(i, StepEvent::Completed(Box::new(completed)));
    if turn.state.status != PlanStatus::Running || turn.state.is_done() || turn.state.cleanup.is_running() {
        return;
    }
    if needs_replan {
        let reason = format!("step `{}` succeeded in part", turn.id_of(i));
        trigger::replan(turn, Trigger::PartialSuccess, Some(i), reason);
    } else if is_news {
        let reason = format!("step `{}` brought new information", turn.id_of(i));
        trigger::replan(turn, Trigger::NewInformation, Some(i), reason);
    }
}

/// Returns why outputs do not match what the step declares.
pub(crate) fn output_mismatch(turn: &mut Turn<'_>, i: StepIndex, outputs: &Json) -> Option<Failure> {
    let outputs = payloads::with_loaded(turn, i, outputs);
    let spec = turn.state.plan.step(i);
    output_check::check_outputs(spec, &outputs, &turn.context.limits)
}

/// Completes a step without an attempt, if the outputs are what it declares.
pub(crate) fn complete_with(turn: &mut Turn<'_>, i: StepIndex, outputs: Json) {
    match output_mismatch(turn, i, &outputs) {
        Some(failure) => failure::give_up(turn, i, failure, Spent::default()),
        None => emit_completed(turn, i, outputs),
    }
}

pub(crate) fn emit_completed(turn: &mut Turn<'_>, i: StepIndex, outputs: Json) {
    let completed = StepCompleted { outputs, ..StepCompleted::default() };
    turn.emit_step(i, StepEvent::Completed(Box::new(completed)));
}

/// Completes an inline step: its inputs are its outputs.
pub(crate) fn complete_inline(turn: &mut Turn<'_>, i: StepIndex) {
    let inputs = turn.expressions(i).inputs();
    let checked = inputs.and_then(|outputs| {
        let needed = payloads::unloaded_outputs(turn, i, &outputs);
        if !needed.is_empty() {
            return Err(Unrendered::Needs(needed));
        }
        match output_mismatch(turn, i, &outputs) {
            Some(failure) => Err(Unrendered::Failed(failure)),
            None => Ok(outputs),
        }
    });
    match checked {
        Ok(outputs) => {
            turn.count_work(outputs.text().len());
            payloads::forget_payloads(turn, i);
            let completed = StepCompleted { outputs, ..StepCompleted::default() };
            if let Some(completed) = hook::ask_hooks_after(turn, i, completed) {
                turn.emit_next(i, StepEvent::Completed(Box::new(completed)));
            }
        }
        Err(why) => {
            turn.count_work(0);
            payloads::put_off(turn, i, why);
        }
    }
}

/// Handles a due timer of a step.
pub(crate) fn handle_step_timer(turn: &mut Turn<'_>, i: StepIndex) -> Result<(), Rejection> {
    let Some(step) = turn.state.steps.get(i.as_usize()) else { return Err(Rejection::NotDue) };
    if step.due_ms().is_none_or(|due_ms| turn.now_ms < due_ms) {
        return Err(Rejection::NotDue);
    }
    match step.run() {
        StepRun::Queued { .. } => {
            let message = "no worker took the task in time";
            time_out(turn, i, Failure::new(FailureClass::Timeout, "QUEUE_TIMEOUT", message));
        }
        StepRun::Running { .. } => time_out(turn, i, step_timeout()),
        StepRun::Waiting { .. } => wait::end_wait(turn, i),
        StepRun::Retrying { .. } => turn.emit_step(i, StepEvent::Ready),
        StepRun::Suspended(suspended) => calls::resume_call_by_default(turn, i, suspended.call.clone()),
        StepRun::AwaitingApproval(Decider::Held { .. }) => hook::ask_hooks_again(turn, i),
        StepRun::AwaitingApproval(Decider::Answer { .. }) => people::answer_step_by_default(turn, i),
        StepRun::AwaitingApproval(Decider::Approval { .. }) => people::decide_by_default(turn, i),
        StepRun::AwaitingApproval(Decider::Hooks(_) | Decider::Decided)
        | StepRun::Pending
        | StepRun::Blocked { .. }
        | StepRun::Ready { .. }
        | StepRun::Ended { .. } => return Err(Rejection::NotDue),
    }
    unlock::propagate(turn);
    Ok(())
}

fn time_out(turn: &mut Turn<'_>, i: StepIndex, failure: Failure) {
    if call_plan::has_sub_plan(turn.state, i) {
        // The step ends with its plan.
        return sub_plan::stop_sub_plan(turn, i);
    }
    failure::cancel_attempt(turn, i);
    if turn.state.runs_in_engine(i) {
        failure::give_up(turn, i, failure, Spent::default());
    } else {
        retry::fail_attempt(turn, i, failure, Spent::default());
    }
}

/// The failure of an attempt that exceeded its time limit.
pub(crate) fn step_timeout() -> Failure {
    Failure::new(FailureClass::Timeout, "STEP_TIMEOUT", "the attempt exceeded its time limit")
}
