//! Events of a plan: recorded once, never changed. Folding a plan's events gives its state.

use crate::id::StepId;

mod attempt;
mod event_bytes;
mod goal_changed;
mod hook;
mod kind;
mod line;
mod log_format;
mod plan;
mod planning;
mod review;
mod revision;
mod step;
mod table;

pub use crate::call::RecordedCall;
pub use attempt::*;
pub use goal_changed::GoalChanged;
pub use hook::{HookAsked, HookDecided, HookDecision};
pub use kind::{PlanEventKind, StepEventKind};
pub use line::{LogError, read_entry, write_entry};
pub use log_format::LOG_FORMAT;
pub use plan::*;
pub use planning::*;
pub use review::*;
pub use revision::*;
pub use step::*;

/// One line of a plan's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Counted from 1, without gaps.
    pub seq: u64,
    /// Unix milliseconds, by the time of the store.
    pub time_ms: u64,
    /// Who caused it, when it was not the engine: `api`, `cli:ann`, `timer`.
    pub actor: Option<String>,
    /// What happened.
    pub event: Event,
}

/// What happened, to the plan as a whole or to one attempt of one step.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// To the plan as a whole.
    Plan(PlanEvent),
    /// `attempt` is 0 as long as there was none.
    Step {
        /// The step.
        step: StepId,
        /// The attempt, counted from 1.
        attempt: u32,
        /// The phase that the step belongs to.
        phase: Option<Box<str>>,
        /// What happened to it.
        event: StepEvent,
    },
}

/// Every type of event, those of plans first.
pub fn types() -> impl Iterator<Item = &'static str> {
    PlanEvent::TYPES.iter().chain(StepEvent::TYPES).copied()
}

impl Event {
    /// The event's type, as JSON and the log spell it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Plan(event) => event.type_name(),
            Self::Step { event, .. } => event.type_name(),
        }
    }

    /// The phase that it happened in, or to.
    pub fn phase(&self) -> Option<&str> {
        match self {
            Self::Plan(event) => event.phase(),
            Self::Step { phase, .. } => phase.as_deref(),
        }
    }

    /// The step that it happened to.
    pub fn step(&self) -> Option<&StepId> {
        match self {
            Self::Plan(_) => None,
            Self::Step { step, .. } => Some(step),
        }
    }
}
