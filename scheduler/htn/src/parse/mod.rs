//! Parses HDDL domains and problems and resolves names.
//!
//! Source: D. Höller, G. Behnke, P. Bercher, S. Biundo, H. Fiorino, D. Pellier, R. Alford, "HDDL: An Extension to PDDL for
//! Expressing Hierarchical Planning Problems", AAAI 2020. Plain PDDL (STRIPS, typing, ADL) is accepted too.

mod domain;
mod formula;
mod names;
mod network;
mod problem;

pub use domain::parse_domain;
pub use problem::parse_problem;
