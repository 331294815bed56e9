//! What is recorded of a report, whatever it says: that the attempt began, and that it was heard.

use goalmill_common::event::{StepEvent, StepStarted};
use goalmill_common::report::Report;
use goalmill_common::status::StepStatus;

use crate::Effect;
use crate::graph::StepIndex;
use crate::turn::Turn;

/// Records that the attempt has begun, with the first report that says so.
pub(crate) fn record_start(turn: &mut Turn<'_>, i: StepIndex, report: &Report) {
    if turn.status_of(i) != StepStatus::Queued {
        return;
    }
    let timeout_ms = turn.state.plan.step(i).run_limit_ms(&turn.context.limits);
    turn.emit_step(
        i,
        StepEvent::Started(Box::new(StepStarted {
            worker: Some(report.worker.clone()),
            started_ms: report.started_ms.unwrap_or(turn.now_ms),
            due_ms: turn.after(timeout_ms),
        })),
    );
}

pub(crate) fn acknowledge(turn: &mut Turn<'_>, report: &Report) {
    let (agent_type, entry) = (report.agent_type.clone(), report.entry.clone());
    turn.effects.push(Effect::Acknowledge { agent_type, entry });
}
