//! The pure half of the scheduler: validate, decide, apply, react. No I/O, no clock, no randomness.

mod apply;
mod attempt;
mod check;
mod command;
mod decide;
mod effect;
pub mod expression;
mod near;
mod explain;
mod fail;
mod graph;
mod moves;
mod react;
mod render;
mod state;
mod sub_plan;
mod submit;
mod token;
mod unlock;
mod verb;
mod view;

pub use apply::{ReplayError, apply};
pub use command::{Command, Context, Envelope, PlanAnswer, Rejection, Timer};
pub use decide::decide;
pub use effect::{Decision, Effect};
pub use moves::{plan_move, step_move};
pub use react::pending;
pub use state::{PlanState, StepAt, StepIndex};
