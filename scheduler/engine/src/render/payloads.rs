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
use crate::attempt::{failure, report};
use crate::decide::Turn;
use crate::graph::{StepIndex, unlock};
use crate::render::payload_loads::{HeldOutcome, LoadedPayload};
use crate::transitions::may_fail;
use crate::{Effect, Rejection, attempt, criteria, render, sub_plan};

/// Asks for payloads that a step, or the criteria, read; the decision is made when they are there.
pub(crate) fn ask_payloads(turn: &mut Turn<'_>, reader: Option<StepIndex>, payloads: Vec<NeededPayload>) {
    if turn.state.loads.asked.insert(reader) {
        turn.effects.push(Effect::LoadPayloads { step: reader, payloads });
    }
}

/// Ends a decision that could not be made: it fails the step, or waits for payloads.
pub(crate) fn put_off(turn: &mut Turn<'_>, i: StepIndex, why: render::Unrendered) {
    match why {
        render::Unrendered::Failed(failure) => failure::give_up(turn, i, failure, Spent::default()),
        render::Unrendered::Needs(payloads) => ask_payloads(turn, Some(i), payloads),
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

/// Takes payloads that were asked for, and makes the decision that waits for them.
pub(crate) fn payloads_loaded(
    turn: &mut Turn<'_>,
    reader: Option<StepIndex>,
    found: Vec<LoadedPayload>,
) -> Result<(), Rejection> {
    if reader.is_some_and(|i| i.as_usize() >= turn.state.steps.len()) {
        return Err(Rejection::NotDue);
    }
    turn.state.loads.asked.remove(&reader);
    let mut failed = None;
    let mut payloads = Payloads::new();
    for (key, payload) in found {
        match payload {
            Ok(payload) => drop(payloads.insert(key, payload)),
            Err(failure) => failed = failed.or(Some(failure)),
        }
    }
    turn.state.loads.add(reader, payloads);
    match (reader, failed) {
        (None, failed) => {
            turn.state.loads.criteria_failure = failed;
            if !turn.state.is_done() {
                criteria::judge_now(turn, None);
            }
        }
        (Some(i), Some(failure)) => fail_unread(turn, i, failure),
        (Some(i), None) => decide_step(turn, i)?,
    }
    unlock::propagate(turn);
    turn.state.loads.remove(None);
    turn.state.loads.criteria_failure = None;
    Ok(())
}

/// Fails a step whose payloads cannot be read.
fn fail_unread(turn: &mut Turn<'_>, i: StepIndex, failure: Failure) {
    let held = turn.state.loads.held.remove(&i);
    // The attempt is done, and what it gave cannot be read.
    let failure = if held.is_some() { failure.with_unknown_outcome() } else { failure };
    if let Some(HeldOutcome::Report(report)) = held {
        report::acknowledge(turn, &report);
    }
    if may_fail(turn.state.steps[i].status()) {
        failure::give_up(turn, i, failure, Spent::default());
    }
}

/// Makes the decision about a step that waited for payloads.
fn decide_step(turn: &mut Turn<'_>, i: StepIndex) -> Result<(), Rejection> {
    if let Some(held) = turn.state.loads.held.remove(&i) {
        return match held {
            HeldOutcome::Report(report) => report::receive_report(turn, *report),
            HeldOutcome::SubPlan { step, attempt, end } => sub_plan::sub_plan_ended(turn, &step, attempt, *end),
        };
    }
    let step = &turn.state.steps[i];
    let (status, is_plan) = (step.status(), turn.state.plan.step(i).kind == StepKind::Plan);
    if status == StepStatus::Pending {
        unlock::try_unlock(turn, i);
    } else if status == StepStatus::Ready {
        if turn.state.can_dispatch(i) {
            attempt::dispatch_step(turn, i)?;
        } else {
            turn.effects.extend(turn.state.is_offered(i).then_some(Effect::Ready(i)));
        }
    } else if step.run().hooks().is_some() {
        turn.effects.push(Effect::AskHooks { step: Some(i) });
    } else if status == StepStatus::Running
        && is_plan
        && let Ok(inputs) = turn.expressions(i).inputs()
    {
        turn.requests.push(sub_plan::sub_plan_request(turn.state, i, &inputs));
    }
    Ok(())
}

/// A payload somewhere in the outputs of a step.
pub(crate) fn in_outputs(step: &str, key: &str) -> NeededPayload {
    NeededPayload { path: format!("steps.{step}.outputs"), key: key.to_owned(), bytes: 0 }
}
