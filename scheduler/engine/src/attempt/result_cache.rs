//! The result cache: steps with the same key share their outputs.

use goalmill_common::command::fingerprint;
use goalmill_common::event::{StepCompleted, StepEvent};
use goalmill_common::json::Json;
use goalmill_common::status::StepStatus;

use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::render::Unrendered;
use crate::{Effect, Rejection};

impl Turn<'_> {
    /// The cache key of a step: a hash of the namespace, the agent type, the action and the step's own key. `None` for a
    /// step without a cache.
    pub(crate) fn cache_key(&self, i: StepIndex) -> Result<Option<String>, Unrendered> {
        let spec = self.state.plan.step(i);
        let Some(cache) = spec.cache.as_ref().filter(|_| spec.kind.needs_worker()) else {
            return Ok(None);
        };
        let own = self.expressions(i).key(&cache.key)?;
        let queue = self.state.queue(i).expect("the step exists");
        let action = self.state.action(i).unwrap_or_default();
        let words = serde_json::json!([self.state.namespace(), queue, action, own]);
        Ok(Some(fingerprint("step", words.to_string().as_bytes())))
    }

    /// Completes the step with cached outputs, or dispatches it on a miss.
    pub(crate) fn handle_cache_lookup(
        &mut self,
        i: StepIndex,
        key: &str,
        outputs: Option<Json>,
    ) -> Result<(), Rejection> {
        let is_ready = self.state.steps.get(i.as_usize()).is_some_and(|step| step.status() == StepStatus::Ready);
        if !is_ready {
            return Err(Rejection::NotDue);
        }
        if !self.state.can_dispatch(i) {
            // No capacity: the step is looked up again later.
            self.effects.push(Effect::Ready(i));
            return Ok(());
        }
        let same = match self.cache_key(i) {
            Err(Unrendered::Needs(payloads)) => {
                self.ask_payloads(Some(i), payloads);
                return Ok(());
            }
            own => matches!(own, Ok(Some(own)) if own == key),
        };
        let fit = outputs.filter(|outputs| same && self.output_mismatch(i, outputs).is_none());
        match fit {
            Some(outputs) => {
                let completed = StepCompleted { outputs, cache_key: Some(key.to_owned()), ..StepCompleted::default() };
                if let Some(completed) = self.ask_hooks_after(i, completed) {
                    self.emit_step(i, StepEvent::Completed(Box::new(completed)));
                }
                self.propagate();
            }
            None => self.send_to_worker(i),
        }
        Ok(())
    }

    /// Stores a step's outputs under its cache key.
    pub(crate) fn cache_outputs(&mut self, i: StepIndex, outputs: &Json) {
        let (spec, step) = (self.state.plan.step(i), &self.state.steps[i]);
        let key = step.cache_key().map(str::to_owned);
        if let (Some(cache), Some(key)) = (&spec.cache, key) {
            self.effects.push(Effect::CacheStore { key, outputs: outputs.clone(), ttl_ms: cache.ttl_ms });
        }
    }
}
