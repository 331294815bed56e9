//! The state machine of a plan: decide, apply, react, revise, explain. No I/O, no clock, no randomness.
//!
//! A shell keeps one [`PlanState`] per plan and gives it one [`Command`] after another. [`decide()`] folds the events it
//! makes into the state as it goes, so the shell must commit them before it runs the effects; when a commit fails it
//! drops the state and folds the log again with [`apply()`]. [`pending`] then names the effects that may not have run.
//!
//! The shell owes the state: every [`Timer`] at its time, with reports that arrived before it given first; every
//! [`Effect::Ready`] step dispatched once [`PlanState::admits`] it, looked at again after [`Effect::Room`]; and an
//! answer to every [`Effect::Plan`] and [`Effect::StartSubPlan`].

mod command;
mod effect;

mod graph;
mod moves;
mod state;
mod token;
mod waiting;

mod apply;

mod attempt;
mod cache;
mod calls;
mod check;
mod decide;
mod decompose;
mod fail;
mod open;
mod question;
mod render;
mod revise;
mod sub_plan;
mod submit;
mod unlock;
mod verb;
mod work;

mod react;

mod explain;
mod fork;
mod look;
mod remedy;
mod situation;
mod view;

pub use apply::{ReplayError, apply};
pub use command::{Closing, Command, Context, Envelope, PlanAnswer, Rejection, Timer};
pub use decide::{Decide, decide};
pub use effect::{Decision, Effect};
pub use fork::fork;
pub use graph::StepIndex;
pub use look::StepAt;
pub use moves::{plan_move, step_move};
pub use react::pending;
pub use remedy::{Serving, Surroundings};
pub use revise::consider;
pub use situation::situation;
pub use state::PlanState;
pub use view::Shown;
