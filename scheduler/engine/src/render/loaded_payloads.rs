//! Decisions that waited for stored payloads: they are made once the payloads are there.

use goalmill_common::failure::Failure;
use goalmill_common::plan::StepKind;
use goalmill_common::status::StepStatus;
use goalmill_expression::Payloads;

use crate::attempt::spent::Spent;
use crate::attempt::{acknowledge, dispatch, failure, report};
use crate::criteria::judgement;
use crate::graph::{StepIndex, unlock};
use crate::render::payload_loads::{HeldOutcome, LoadedPayload};
use crate::sub_plan::notices;
use crate::transitions::may_fail;
use crate::turn::Turn;
use crate::{Effect, Rejection, progress, sub_plan};

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
                judgement::judge_now(turn, None);
            }
        }
        (Some(i), Some(failure)) => fail_unread(turn, i, failure),
        (Some(i), None) => decide_step(turn, i)?,
    }
    progress::propagate(turn);
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
        acknowledge::acknowledge(turn, &report);
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
            HeldOutcome::SubPlan { step, attempt, end } => notices::sub_plan_ended(turn, &step, attempt, *end),
        };
    }
    let step = &turn.state.steps[i];
    let (status, is_plan) = (step.status(), turn.state.plan.step(i).kind == StepKind::Plan);
    if status == StepStatus::Pending {
        unlock::try_unlock(turn, i);
    } else if status == StepStatus::Ready {
        if turn.state.can_dispatch(i) {
            dispatch::dispatch_step(turn, i)?;
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
