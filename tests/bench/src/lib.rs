//! Parts that several benchmarks share: tool lists, the checker of HTN plans, the best schedules, clients and kills of a cluster.

pub mod digest;
#[path = "../../../scheduler/htn/tests/plans/checker.rs"]
pub mod htn_checker;
pub mod kill;
pub mod list_schedule;
pub mod program;
pub mod submit;
pub mod tools;
