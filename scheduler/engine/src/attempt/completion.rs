//! Outputs of a step: their check, and how a step completes.

use goalmill_common::event::{StepCompleted, StepEvent};
use goalmill_common::failure::Failure;
use goalmill_common::json::Json;
use goalmill_common::plan::OnPartial;
use goalmill_common::report::{SuggestedAdjustment, URGENT_PRIORITY};
use goalmill_common::revision::Trigger;
use goalmill_common::status::PlanStatus;
use serde_json::{Map, Value, json};

use crate::attempt::spent::Spent;
use crate::attempt::{failure, output_check, result_cache};
use crate::graph::StepIndex;
use crate::people::hook;
use crate::render::{Unrendered, payloads};
use crate::revise::trigger;
use crate::sub_plan::loops;
use crate::turn::Turn;

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
        None => turn.emit_completed(i, outputs),
    }
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
            failure::put_off(turn, i, why);
        }
    }
}

/// What planners learn from a report: its `adjustments`, and the agent's suggestions, the most urgent first.
pub(crate) fn information_of(adjustments: Option<&Json>, suggested: &[SuggestedAdjustment]) -> Option<Json> {
    if suggested.is_empty() {
        return adjustments.cloned();
    }
    let mut fields = match adjustments.map(Json::value) {
        Some(Value::Object(fields)) => fields,
        Some(other) => Map::from_iter([("adjustments".to_owned(), other)]),
        None => Map::new(),
    };
    fields.insert("suggested_adjustments".into(), json!(suggested));
    Some(Value::Object(fields).into())
}
