//! Finds a plan: several ways to search, one after the other, within limits counted in nodes.
//!
//! The same problem, seed and limits always give the same answer, unless the caller stops the search.

mod depth;
mod network;
mod trace;

use crate::compile::{Compiled, compile};
use crate::model::{Domain, Problem};
use crate::solution::Solution;

/// How far a search may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Actions applied and methods taken, over all tries.
    pub nodes_max: u64,
    /// Longest path from the initial network: bounds the memory of one try.
    pub depth_max: usize,
    /// Chooses among equals when a try is begun anew.
    pub seed: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { nodes_max: 50_000_000, depth_max: 1_000_000, seed: 1 }
    }
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Solved {
        solution: Solution,
        nodes: u64,
    },
    /// Everything was tried: there is no plan.
    Exhausted {
        nodes: u64,
    },
    /// A limit was reached, or the caller stopped it.
    GaveUp {
        nodes: u64,
    },
    /// The problem is beyond what this planner can hold.
    Unfit {
        reason: String,
    },
}

/// How one try goes about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Try {
    pub order: Order,
    /// 0: candidates as they stand.
    pub seed: u64,
    /// Whether a task within itself, in the same state, is left out: quick, but some plans are missed.
    pub loops: bool,
    pub nodes: u64,
}

/// In which order methods are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    AsWritten,
    BaseCasesFirst,
    Random,
}

/// How one try ended.
pub(crate) enum End {
    Solved(Solution),
    Exhausted,
    Limit,
    Stopped,
}

/// First budget of one try, in nodes; it grows with each round.
const FIRST_NODES: u64 = 50_000;

/// Searches for a plan.
///
/// - `stop`: asked every few thousand nodes; the search gives up once it says so.
pub fn solve(domain: &Domain, problem: &Problem, limits: Limits, stop: &mut dyn FnMut() -> bool) -> Outcome {
    match compile(domain, problem) {
        Ok(compiled) => run(&compiled, limits, stop),
        Err(reason) => Outcome::Unfit { reason },
    }
}

fn run(compiled: &Compiled, limits: Limits, stop: &mut dyn FnMut() -> bool) -> Outcome {
    let mut nodes = 0;
    for round in 0u32.. {
        let (order, seed, loops) = match round {
            0 => (Order::AsWritten, 0, true),
            1 => (Order::BaseCasesFirst, 0, true),
            _ => (Order::Random, crate::facts::mix(limits.seed ^ u64::from(round)) | 1, round % 3 != 1),
        };
        let budget = FIRST_NODES.saturating_mul(1 << (round / 2).min(40)).min(limits.nodes_max - nodes);
        let how = Try { order, seed, loops, nodes: budget };
        let (end, used) = depth::search(compiled, how, limits.depth_max, stop);
        nodes += used;
        match end {
            End::Solved(solution) => return Outcome::Solved { solution, nodes },
            End::Exhausted if !loops => return Outcome::Exhausted { nodes },
            End::Stopped => return Outcome::GaveUp { nodes },
            End::Exhausted | End::Limit if nodes >= limits.nodes_max => return Outcome::GaveUp { nodes },
            End::Exhausted | End::Limit => {}
        }
    }
    Outcome::GaveUp { nodes }
}
