//! Stored payloads that decisions read: they are asked for, loaded outside of the loop, and used once they are there.
//!
//! What is loaded is no state: see [`crate::render::payload_loads`].

use std::borrow::Cow;

use goalmill_common::blob_ref;
use goalmill_common::failure::Failure;
use goalmill_common::json::Json;
use goalmill_common::plan::StepKind;
use goalmill_common::status::StepStatus;
use goalmill_expression::{NeededPayload, Payloads};

use crate::attempt::report::Spent;
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::render::payload_loads::{HeldOutcome, LoadedPayload};
use crate::transitions::may_fail;
use crate::{Effect, Rejection, render};

impl Turn<'_> {
    /// Asks for payloads that a step, or the criteria, read; the decision is made when they are there.
    pub(crate) fn ask_payloads(&mut self, reader: Option<StepIndex>, payloads: Vec<NeededPayload>) {
        if self.state.loads.asked.insert(reader) {
            self.effects.push(Effect::LoadPayloads { step: reader, payloads });
        }
    }

    /// Ends a decision that could not be made: it fails the step, or waits for payloads.
    pub(crate) fn put_off(&mut self, i: StepIndex, why: render::Unrendered) {
        match why {
            render::Unrendered::Failed(failure) => self.give_up(i, failure, Spent::default()),
            render::Unrendered::Needs(payloads) => self.ask_payloads(Some(i), payloads),
        }
    }

    /// Forgets the payloads of a step that has read them.
    pub(crate) fn forget_payloads(&mut self, i: StepIndex) {
        self.state.loads.remove(Some(i));
    }

    /// Holds an outcome back until the payloads are there that the check of a step's outputs reads. Returns whether it
    /// waits.
    pub(crate) fn hold_for_outputs(
        &mut self,
        i: StepIndex,
        outputs: &Json,
        outcome: impl FnOnce() -> HeldOutcome,
    ) -> bool {
        let needed = self.unloaded_outputs(i, outputs);
        if needed.is_empty() {
            return false;
        }
        self.state.loads.held.insert(i, outcome());
        self.ask_payloads(Some(i), needed);
        true
    }

    /// The stored payloads in a step's outputs that its `output_schema` or `expected_outputs` describe, and that are not
    /// loaded.
    pub(crate) fn unloaded_outputs(&self, i: StepIndex, outputs: &Json) -> Vec<NeededPayload> {
        let spec = self.state.plan.step(i);
        let is_read = spec.output_schema.is_some() || spec.repeat.is_some();
        let is_checked = is_read || !spec.expected_outputs.is_empty();
        if !is_checked || !blob_ref::may_contain(outputs) {
            return Vec::new();
        }
        let value = outputs.value();
        if !is_read && blob_ref::key(&value).is_none() {
            return Vec::new();
        }
        let loaded = self.state.loads.loaded_for(Some(i));
        let mut needed = Vec::new();
        blob_ref::visit(&value, &mut |key| {
            if loaded.is_none_or(|payloads| !payloads.contains_key(key)) {
                needed.push(in_outputs(spec.id.as_str(), key));
            }
        });
        needed
    }

    /// Outputs with the loaded payloads in their places.
    pub(crate) fn with_loaded<'o>(&self, i: StepIndex, outputs: &'o Json) -> Cow<'o, Json> {
        let Some(payloads) = self.state.loads.loaded_for(Some(i)).filter(|_| blob_ref::may_contain(outputs)) else {
            return Cow::Borrowed(outputs);
        };
        let mut value = outputs.value();
        blob_ref::replace(&mut value, &mut |key| payloads.get(key).map(|payload| payload.json().clone()));
        Cow::Owned(value.into())
    }

    /// Takes payloads that were asked for, and makes the decision that waits for them.
    pub(crate) fn payloads_loaded(
        &mut self,
        reader: Option<StepIndex>,
        found: Vec<LoadedPayload>,
    ) -> Result<(), Rejection> {
        if reader.is_some_and(|i| i.as_usize() >= self.state.steps.len()) {
            return Err(Rejection::NotDue);
        }
        self.state.loads.asked.remove(&reader);
        let mut failed = None;
        let mut payloads = Payloads::new();
        for (key, payload) in found {
            match payload {
                Ok(payload) => drop(payloads.insert(key, payload)),
                Err(failure) => failed = failed.or(Some(failure)),
            }
        }
        self.state.loads.add(reader, payloads);
        match (reader, failed) {
            (None, failed) => {
                self.state.loads.criteria_failure = failed;
                if !self.state.is_done() {
                    self.judge_now(None);
                }
            }
            (Some(i), Some(failure)) => self.fail_unread(i, failure),
            (Some(i), None) => self.decide_step(i)?,
        }
        self.propagate();
        self.state.loads.remove(None);
        self.state.loads.criteria_failure = None;
        Ok(())
    }

    /// Fails a step whose payloads cannot be read.
    fn fail_unread(&mut self, i: StepIndex, failure: Failure) {
        let held = self.state.loads.held.remove(&i);
        // The attempt is done, and what it gave cannot be read.
        let failure = if held.is_some() { failure.with_unknown_outcome() } else { failure };
        if let Some(HeldOutcome::Report(report)) = held {
            self.acknowledge(&report);
        }
        if may_fail(self.state.steps[i].status()) {
            self.give_up(i, failure, Spent::default());
        }
    }

    /// Makes the decision about a step that waited for payloads.
    fn decide_step(&mut self, i: StepIndex) -> Result<(), Rejection> {
        if let Some(held) = self.state.loads.held.remove(&i) {
            return match held {
                HeldOutcome::Report(report) => self.report(*report),
                HeldOutcome::SubPlan { step, attempt, end } => self.sub_plan_ended(&step, attempt, *end),
            };
        }
        let step = &self.state.steps[i];
        let (status, is_plan) = (step.status(), self.state.plan.step(i).kind == StepKind::Plan);
        if status == StepStatus::Pending {
            self.try_unlock(i);
        } else if status == StepStatus::Ready {
            if self.state.can_dispatch(i) {
                self.dispatch(i)?;
            } else {
                self.effects.extend(self.state.is_offered(i).then_some(Effect::Ready(i)));
            }
        } else if step.run().hooks().is_some() {
            self.effects.push(Effect::AskHooks { step: Some(i) });
        } else if status == StepStatus::Running
            && is_plan
            && let Ok(inputs) = self.expressions(i).inputs()
        {
            self.requests.push(self.state.sub_plan(i, &inputs));
        }
        Ok(())
    }
}

/// A payload somewhere in the outputs of a step.
pub(crate) fn in_outputs(step: &str, key: &str) -> NeededPayload {
    NeededPayload { path: format!("steps.{step}.outputs"), key: key.to_owned(), bytes: 0 }
}
