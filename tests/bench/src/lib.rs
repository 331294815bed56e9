//! Parts that several benchmarks share: tool lists, the best schedules, clients and kills of a cluster.

pub mod kill;
pub mod list_schedule;
pub mod program;
pub mod submit;
pub mod tools;
