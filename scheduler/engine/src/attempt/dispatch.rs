//! Sends a ready step to a worker, or takes its result from the cache.

use goalmill_common::event::{StepCompleted, StepEvent, StepQueued};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::status::StepStatus;

use crate::attempt::spent::Spent;
use crate::attempt::{completion, failure, recording, result_cache};
use crate::budget::{call_budget, exceeded};
use crate::calls::callback::missing_address;
use crate::graph::StepIndex;
use crate::people::hook;
use crate::render::{Unrendered, payloads};
use crate::turn::Turn;
use crate::{Effect, Rejection, attempt, progress};

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
        progress::run_engine_step(turn, i);
        progress::propagate(turn);
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
    if let Some(failure) = refused.or_else(|| exceeded::cannot_afford(turn, i)) {
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
fn send_to_worker(turn: &mut Turn<'_>, i: StepIndex) {
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
    let task = attempt::task_of(turn.state, i, agent_type, inputs, turn.context);
    turn.effects.push(Effect::Send(Box::new(task)));
}

fn put_off_dispatch(turn: &mut Turn<'_>, i: StepIndex, why: Unrendered) {
    failure::put_off(turn, i, why);
    progress::propagate(turn);
}

fn fail_dispatch(turn: &mut Turn<'_>, i: StepIndex, failure: Failure) {
    failure::give_up(turn, i, failure, Spent::default());
    progress::propagate(turn);
}

/// Completes the step with cached outputs, or dispatches it on a miss.
pub(crate) fn handle_cache_lookup(
    turn: &mut Turn<'_>,
    i: StepIndex,
    key: &str,
    outputs: Option<Json>,
) -> Result<(), Rejection> {
    let is_ready = turn.state.steps.get(i.as_usize()).is_some_and(|step| step.status() == StepStatus::Ready);
    if !is_ready {
        return Err(Rejection::NotDue);
    }
    if !turn.state.can_dispatch(i) {
        // No capacity: the step is looked up again later.
        turn.effects.push(Effect::Ready(i));
        return Ok(());
    }
    let same = match result_cache::cache_key(turn, i) {
        Err(Unrendered::Needs(payloads)) => {
            payloads::ask_payloads(turn, Some(i), payloads);
            return Ok(());
        }
        own => matches!(own, Ok(Some(own)) if own == key),
    };
    let fit = outputs.filter(|outputs| same && completion::output_mismatch(turn, i, outputs).is_none());
    match fit {
        Some(outputs) => {
            let completed = StepCompleted { outputs, cache_key: Some(key.to_owned()), ..StepCompleted::default() };
            if let Some(completed) = hook::ask_hooks_after(turn, i, completed) {
                turn.emit_step(i, StepEvent::Completed(Box::new(completed)));
            }
            progress::propagate(turn);
        }
        None => send_to_worker(turn, i),
    }
    Ok(())
}
