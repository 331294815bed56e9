//! Hierarchical task networks: HDDL domains and problems in, plans with real dependencies out.
//!
//! Pure: no clock, no chance, no I/O. The caller passes the seed, the limits and a way to stop.

mod check;
mod compile;
mod facts;
mod join;
mod links;
mod model;
mod parse;
mod search;
mod sexpr;
mod solution;
mod verify;

pub use check::{Flaw, check};
pub use links::{Dependencies, Link, dependencies};
pub use model::{
    Action, Atom, Domain, Effect, Formula, Method, Network, ParseError, Place, Predicate, Problem, Subtask, Task, Term,
    Typed,
};
pub use parse::{parse_domain, parse_problem};
pub use search::{Limits, Outcome, solve};
pub use solution::{Decomposition, Event, Node, Solution};
pub use verify::{Fault, PlanLine, Verdict, Verifier, read_plan};
