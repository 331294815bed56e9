//! Folds events into the state. Live decisions, recovery and replay use the same fold.

mod counts;
mod plan;
mod step;

use self::plan::apply_plan;
use self::step::apply_step;
use goalmill_common::event::{Event, Record};
use goalmill_common::id::StepId;

pub(crate) use self::counts::recount_steps;
use crate::graph::StepIndex;
use crate::state::PlanState;
use crate::transitions::ReplayError;

/// Folds the next event of a log; the first one creates the state. On an error the state is as before.
pub fn replay(state: &mut Option<PlanState>, record: &Record) -> Result<(), ReplayError> {
    match state {
        Some(state) => apply(state, record),
        None => {
            *state = Some(PlanState::new(record)?);
            Ok(())
        }
    }
}

/// The step of an event.
pub(crate) fn step_of(state: &PlanState, seq: u64, id: &StepId) -> Result<StepIndex, ReplayError> {
    state.graph.find(id.as_str()).ok_or_else(|| ReplayError::UnknownStep { seq, step: id.clone() })
}

/// Folds one event into the state; on an error the state is as before.
pub fn apply(state: &mut PlanState, record: &Record) -> Result<(), ReplayError> {
    let seq = record.seq;
    if seq != state.seq + 1 {
        return Err(ReplayError::Gap { expected: state.seq + 1, found: seq });
    }
    if state.is_final() {
        return Err(ReplayError::AfterEnd { seq });
    }
    match &record.event {
        Event::Plan(event) => apply_plan(state, record, event)?,
        Event::Step { step, attempt, event, phase: _ } => apply_step(state, record, step, *attempt, event)?,
    }
    state.seq = seq;
    state.updated_ms = record.time_ms;
    Ok(())
}
