//! The pure half of the scheduler: validate, decide, apply, react. No I/O, no clock, no randomness.

mod command;
mod decide;
pub mod draft;
mod effect;
pub mod expression;
mod near;
mod state;
pub mod validate;

pub use command::{Command, Context, Envelope, PlanAnswer, Rejection, Timer};
pub use decide::{decide, pending};
pub use effect::{Decision, Effect};
pub use state::{PlanState, StepIndex};
