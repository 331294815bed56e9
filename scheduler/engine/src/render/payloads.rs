//! Stored payloads that decisions read: they are asked for, loaded outside of the loop, and used once they are there.
//!
//! What is loaded is no state: see [`crate::render::payload_loads`].

use std::borrow::Cow;

use goalmill_common::blob_ref;
use goalmill_common::json::Json;
use goalmill_expression::NeededPayload;

use crate::Effect;
use crate::graph::StepIndex;
use crate::render::payload_loads::HeldOutcome;
use crate::turn::Turn;

/// Asks for payloads that a step, or the criteria, read; the decision is made when they are there.
pub(crate) fn ask_payloads(turn: &mut Turn<'_>, reader: Option<StepIndex>, payloads: Vec<NeededPayload>) {
    if turn.state.loads.asked.insert(reader) {
        turn.effects.push(Effect::LoadPayloads { step: reader, payloads });
    }
}

/// Forgets the payloads of a step that has read them.
pub(crate) fn forget_payloads(turn: &mut Turn<'_>, i: StepIndex) {
    turn.state.loads.remove(Some(i));
}

/// Holds an outcome back until the payloads are there that the check of a step's outputs reads. Returns whether it
/// waits.
pub(crate) fn hold_for_outputs(
    turn: &mut Turn<'_>,
    i: StepIndex,
    outputs: &Json,
    outcome: impl FnOnce() -> HeldOutcome,
) -> bool {
    let needed = unloaded_outputs(turn, i, outputs);
    if needed.is_empty() {
        return false;
    }
    turn.state.loads.held.insert(i, outcome());
    ask_payloads(turn, Some(i), needed);
    true
}

/// The stored payloads in a step's outputs that its `output_schema` or `expected_outputs` describe, and that are not
/// loaded.
pub(crate) fn unloaded_outputs(turn: &Turn<'_>, i: StepIndex, outputs: &Json) -> Vec<NeededPayload> {
    let spec = turn.state.plan.step(i);
    let is_read = spec.output_schema.is_some() || spec.repeat.is_some();
    let is_checked = is_read || !spec.expected_outputs.is_empty();
    if !is_checked || !blob_ref::may_contain(outputs) {
        return Vec::new();
    }
    let value = outputs.value();
    if !is_read && blob_ref::key(&value).is_none() {
        return Vec::new();
    }
    let loaded = turn.state.loads.loaded_for(Some(i));
    let mut needed = Vec::new();
    blob_ref::visit(&value, &mut |key| {
        if loaded.is_none_or(|payloads| !payloads.contains_key(key)) {
            needed.push(in_outputs(spec.id.as_str(), key));
        }
    });
    needed
}

/// Outputs with the loaded payloads in their places.
pub(crate) fn with_loaded<'o>(turn: &Turn<'_>, i: StepIndex, outputs: &'o Json) -> Cow<'o, Json> {
    let Some(payloads) = turn.state.loads.loaded_for(Some(i)).filter(|_| blob_ref::may_contain(outputs)) else {
        return Cow::Borrowed(outputs);
    };
    let mut value = outputs.value();
    blob_ref::replace(&mut value, &mut |key| payloads.get(key).map(|payload| payload.json().clone()));
    Cow::Owned(value.into())
}

/// A payload somewhere in the outputs of a step.
pub(crate) fn in_outputs(step: &str, key: &str) -> NeededPayload {
    NeededPayload { path: format!("steps.{step}.outputs"), key: key.to_owned(), bytes: 0 }
}
