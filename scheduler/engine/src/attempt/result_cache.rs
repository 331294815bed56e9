//! The result cache: steps with the same key share their outputs.

use goalmill_common::command::fingerprint;
use goalmill_common::event::{StepCompleted, StepEvent};
use goalmill_common::json::Json;
use goalmill_common::status::StepStatus;

use crate::decide::Turn;
use crate::graph::{StepIndex, unlock};
use crate::people::hook;
use crate::render::{Unrendered, payloads};
use crate::{Effect, Rejection, attempt};

/// The cache key of a step: a hash of the namespace, the agent type, the action and the step's own key. `None` for a
/// step without a cache.
pub(crate) fn cache_key(turn: &Turn<'_>, i: StepIndex) -> Result<Option<String>, Unrendered> {
    let spec = turn.state.plan.step(i);
    let Some(cache) = spec.cache.as_ref().filter(|_| spec.kind.needs_worker()) else {
        return Ok(None);
    };
    let own = turn.expressions(i).key(&cache.key)?;
    let queue = turn.state.queue(i).expect("the step exists");
    let action = turn.state.action(i).unwrap_or_default();
    let words = serde_json::json!([turn.state.namespace(), queue, action, own]);
    Ok(Some(fingerprint("step", words.to_string().as_bytes())))
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
    let same = match cache_key(turn, i) {
        Err(Unrendered::Needs(payloads)) => {
            payloads::ask_payloads(turn, Some(i), payloads);
            return Ok(());
        }
        own => matches!(own, Ok(Some(own)) if own == key),
    };
    let fit = outputs.filter(|outputs| same && attempt::output_mismatch(turn, i, outputs).is_none());
    match fit {
        Some(outputs) => {
            let completed = StepCompleted { outputs, cache_key: Some(key.to_owned()), ..StepCompleted::default() };
            if let Some(completed) = hook::ask_hooks_after(turn, i, completed) {
                turn.emit_step(i, StepEvent::Completed(Box::new(completed)));
            }
            unlock::propagate(turn);
        }
        None => attempt::send_to_worker(turn, i),
    }
    Ok(())
}

/// Stores a step's outputs under its cache key.
pub(crate) fn cache_outputs(turn: &mut Turn<'_>, i: StepIndex, outputs: &Json) {
    let (spec, step) = (turn.state.plan.step(i), &turn.state.steps[i]);
    let key = step.cache_key().map(str::to_owned);
    if let (Some(cache), Some(key)) = (&spec.cache, key) {
        turn.effects.push(Effect::CacheStore { key, outputs: outputs.clone(), ttl_ms: cache.ttl_ms });
    }
}
