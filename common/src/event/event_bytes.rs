//! About how many bytes an event takes in the log, without writing it.

use super::Event;
use crate::id::StepId;
use crate::json::Json;
use crate::plan::{Plan, Step};

/// Bytes of an event's fixed parts, rounded up.
pub(super) const FIXED_BYTES: usize = 128;

impl Event {
    /// About how many bytes the event takes in the log: exact for payloads, an estimate for what is around them.
    pub fn weight(&self) -> usize {
        FIXED_BYTES
            + match self {
                Self::Plan(event) => event.payload_bytes(),
                Self::Step { event, .. } => event.payload_bytes(),
            }
    }
}

pub(super) fn plan(plan: &Plan) -> usize {
    plan.steps.iter().map(step).sum()
}

pub(super) fn step(found: &Step) -> usize {
    let inside = found.plan.as_deref().map_or(0, plan);
    let texts = found.description.len() + found.inputs.text().len() + json(found.output_schema.as_ref());
    FIXED_BYTES + texts + 16 * found.dependencies.len() + inside
}

/// A list of ids with their quotes and commas.
pub(super) fn ids(steps: &[StepId]) -> usize {
    steps.iter().map(|step| step.as_str().len() + 3).sum()
}

pub(super) fn json(value: Option<&Json>) -> usize {
    value.map_or(0, |value| value.text().len())
}
