//! Results of steps that are kept for other steps with the same key.

use goalmill_common::command::fingerprint;
use goalmill_common::event::{StepCompleted, StepEvent};
use goalmill_common::failure::Failure;
use goalmill_common::json::Json;
use goalmill_common::status::StepStatus;

use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::{Effect, Rejection, render};

impl Turn<'_> {
    /// The word that a step's outputs are kept under: of whoever pays, the agent type, the action, and the key that
    /// the step gives. `None` for a step that keeps nothing.
    pub(crate) fn cache_key(&self, i: StepIndex) -> Result<Option<String>, Failure> {
        let spec = &self.state.plan.steps[i];
        let Some(cache) = spec.cache.as_ref().filter(|_| spec.kind.needs_worker()) else {
            return Ok(None);
        };
        let own = render::key(self.state, i, &cache.key, &self.context.limits)?;
        let queue = self.state.queue(i).expect("the step exists");
        let action = self.state.action(i).unwrap_or_default();
        let words = serde_json::json!([self.state.tenant(), queue, action, own]);
        Ok(Some(fingerprint("step", words.to_string().as_bytes())))
    }

    /// What is kept under the step's word, or nothing: then the step goes out.
    pub(crate) fn looked_up(&mut self, i: StepIndex, key: &str, outputs: Option<Json>) -> Result<(), Rejection> {
        let is_ready = self.state.steps.get(i.as_usize()).is_some_and(|step| step.status == StepStatus::Ready);
        if !is_ready {
            return Err(Rejection::NotDue);
        }
        if !self.state.admits(i) {
            // The room is gone: it is looked up once more when there is some.
            self.effects.push(Effect::Ready(i));
            return Ok(());
        }
        let same = matches!(self.cache_key(i), Ok(Some(own)) if own == key);
        let fit = outputs.filter(|outputs| same && self.unfit(i, outputs).is_none());
        match fit {
            Some(outputs) => {
                let completed = StepCompleted { outputs, cache_key: Some(key.to_owned()), ..StepCompleted::default() };
                self.emit_step(i, StepEvent::Completed(Box::new(completed)));
                self.settle();
            }
            None => self.send_out(i),
        }
        Ok(())
    }

    /// Keeps what a step gave, under the word it went out with.
    pub(crate) fn keep_outputs(&mut self, i: StepIndex, outputs: &Json) {
        let (spec, step) = (&self.state.plan.steps[i], &self.state.steps[i]);
        let key = step.rare.as_ref().and_then(|rare| rare.cache_key.clone());
        if let (Some(cache), Some(key)) = (&spec.cache, key) {
            self.effects.push(Effect::Keep { key, outputs: outputs.clone(), ttl_ms: cache.ttl_ms });
        }
    }
}
