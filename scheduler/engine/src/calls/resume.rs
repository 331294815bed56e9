//! Calls that were waiting continue.

use goalmill_common::call::{RecordedCall, SuspendedCall};
use goalmill_common::event::{StepEvent, StepResumed};
use goalmill_common::goal::Usage;
use serde_json::Value;

use crate::graph::StepIndex;
use crate::turn::Turn;

/// The call for which the step waits.
pub(crate) fn waiting_call(turn: &Turn<'_>, i: StepIndex) -> Option<SuspendedCall> {
    turn.state.steps[i].run().suspended().map(|suspended| suspended.call.clone())
}

/// Records what a call that waits has come to, and lets the step go on.
///
/// - `used`: by the plan that it waited for.
pub(crate) fn resume_call(
    turn: &mut Turn<'_>,
    i: StepIndex,
    waiting: SuspendedCall,
    outcome: &Value,
    by_default: bool,
    used: Usage,
) {
    let SuspendedCall { n, name, inputs, .. } = waiting;
    let now_ms = Some(turn.now_ms);
    let call = RecordedCall {
        n,
        name,
        inputs,
        outcome: Some(outcome.clone().into()),
        finished_ms: now_ms,
        ..RecordedCall::default()
    };
    let Usage { cost, tokens } = used;
    let resumed = StepResumed { cost, tokens, ..StepResumed::new(call, by_default) };
    turn.emit_step(i, StepEvent::Resumed(Box::new(resumed)));
}
