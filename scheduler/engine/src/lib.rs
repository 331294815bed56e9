//! The pure half of the scheduler: validate, decide, apply, react. No I/O, no clock, no randomness.

mod command;
mod effect;
pub mod mutant;

pub mod expression;
mod near;

mod graph;
mod moves;
mod state;
mod token;

mod apply;

mod attempt;
mod check;
mod decide;
mod fail;
mod render;
mod sub_plan;
mod submit;
mod unlock;
mod verb;

mod react;

mod explain;
mod view;

pub use apply::{ReplayError, apply};
pub use command::{Command, Context, Envelope, PlanAnswer, Rejection, Timer};
pub use decide::decide;
pub use effect::{Decision, Effect};
pub use moves::{plan_move, step_move};
pub use react::pending;
pub use state::{PlanState, StepAt, StepIndex};
