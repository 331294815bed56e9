//! The result cache: steps with the same key share their outputs.

use goalmill_common::command::fingerprint;
use goalmill_common::json::Json;

use crate::Effect;
use crate::graph::StepIndex;
use crate::render::Unrendered;
use crate::turn::Turn;

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

/// Stores a step's outputs under its cache key.
pub(crate) fn cache_outputs(turn: &mut Turn<'_>, i: StepIndex, outputs: &Json) {
    let (spec, step) = (turn.state.plan.step(i), &turn.state.steps[i]);
    let key = step.cache_key().map(str::to_owned);
    if let (Some(cache), Some(key)) = (&spec.cache, key) {
        turn.effects.push(Effect::CacheStore { key, outputs: outputs.clone(), ttl_ms: cache.ttl_ms });
    }
}
