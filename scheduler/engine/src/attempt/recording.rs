//! Records what agents receive: the rendered inputs of each attempt, redacted, and by reference when large.

use goalmill_common::blob_ref;
use goalmill_common::event::{StepEvent, StepQueued};
use goalmill_common::json::Json;
use goalmill_common::redaction::Redaction;

use crate::graph::StepIndex;
use crate::turn::Turn;
use crate::{Effect, sub_plan};

/// How the inputs of attempts are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRecording {
    /// What is masked first.
    pub redaction: Redaction,
    /// What the keys of blobs of this shard begin with.
    pub blob_prefix: String,
    /// Bytes of recorded inputs of one plan; further ones are recorded by their size alone.
    pub plan_bytes_max: usize,
}

/// Records that the step's next attempt goes out with these inputs.
pub(crate) fn emit_queued(turn: &mut Turn<'_>, i: StepIndex, mut queued: StepQueued, inputs: &Json) {
    let action = turn.state.action(i).unwrap_or_default();
    if action != turn.state.plan.step(i).action {
        action.clone_into(&mut queued.action);
    }
    record_inputs(turn, i, &mut queued, inputs);
    turn.emit_next(i, StepEvent::Queued(Box::new(queued)));
}

fn record_inputs(turn: &mut Turn<'_>, i: StepIndex, queued: &mut StepQueued, inputs: &Json) {
    let Some(recording) = &turn.context.recording else { return };
    let inputs = recording.redaction.redact_json(inputs);
    let bytes = inputs.text().len();
    if turn.state.size.recorded_bytes().saturating_add(bytes as u64) > recording.plan_bytes_max as u64 {
        queued.inputs_bytes = bytes as u64;
    } else if bytes <= turn.context.limits.inline_bytes_max {
        queued.inputs = Some(inputs);
    } else {
        // Readers of the log must not learn the attempt's token; no step has this id.
        let id = format!("{}#inputs", turn.state.plan.step(i).id).as_str().into();
        let token = turn.context.token_key.token(&turn.state.accepted, &id, turn.state.steps[i].attempt() + 1);
        let key = format!("{}{}:{token}", recording.blob_prefix, sub_plan::family(turn.state));
        queued.inputs_bytes = bytes as u64;
        queued.inputs = Some(blob_ref::to_json(&key, bytes));
        turn.effects.push(Effect::StoreInputs { key, inputs });
    }
}
