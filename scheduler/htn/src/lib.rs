//! Hierarchical task networks: HDDL domains and problems in, plans with real dependencies out.
//!
//! Pure: no clock, no randomness, no I/O. The caller passes the seed, the limits and a stop condition.

mod compile;
mod facts;
mod index;
mod join;
mod links;
mod model;
mod parse;
mod search;
mod sexpr;
mod solution;

pub use links::{CausalLink, Dependencies, dependencies};
pub use model::{
    ActionEffect, ActionSchema, Atom, Domain, Formula, MethodSchema, Network, ParseError, PlanningProblem, Predicate,
    SourceLocation, Subtask, TaskSchema, Term, TypedName,
};
pub use parse::{parse_domain, parse_problem};
pub use search::{SearchLimits, SearchOutcome, solve};
pub use solution::{Decomposition, Event, PlanNode, Solution};
