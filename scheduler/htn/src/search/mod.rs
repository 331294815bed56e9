//! Finds a plan with several search strategies in turn, within limits counted in nodes.
//!
//! Deterministic: equal problem, seed and limits give an equal result, unless the caller stops the search.

mod depth;
mod network;
mod trace;

use crate::compile::{CompiledProblem, compile, is_chain};
use crate::facts::mix;
use crate::model::{Domain, PlanningProblem};
use crate::solution::Solution;

/// How far a search may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchLimits {
    /// Applied actions and methods over all searches.
    pub nodes_max: u64,
    /// Longest path from the initial network; bounds the memory of one search.
    pub depth_max: usize,
    /// Seed of random choices.
    pub seed: u64,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self { nodes_max: 50_000_000, depth_max: 1_000_000, seed: 1 }
    }
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchOutcome {
    Solved {
        solution: Solution,
        nodes: u64,
    },
    /// The search space is exhausted: there is no plan.
    Exhausted {
        nodes: u64,
    },
    /// A limit was reached, or the caller stopped the search.
    GaveUp {
        nodes: u64,
    },
    /// The problem exceeds the limits of this planner.
    Unsupported {
        reason: String,
    },
}

/// Parameters of one search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchStrategy {
    pub order: MethodOrder,
    /// 0: candidates in their written order.
    pub seed: u64,
    /// Whether a recursive task in an unchanged state is pruned: fast, but incomplete.
    pub loops: bool,
    /// Nesting limit of a recursive task without progress; deeper branches are pruned.
    pub nest: u32,
    pub protect: GoalProtection,
    pub nodes: u64,
}

/// Which facts of the goal must not become false again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoalProtection {
    None,
    /// Those that are false initially.
    Achieved,
    All,
}

impl SearchStrategy {
    /// Whether nothing is pruned, so that failure proves that there is no plan.
    fn is_complete(&self) -> bool {
        !self.loops && self.nest == u32::MAX && self.protect == GoalProtection::None
    }

    fn misses_loops_only(&self) -> bool {
        self.nest == u32::MAX && self.protect == GoalProtection::None
    }

    /// Strategies have different strengths. Each round repeats an earlier kind with twice the nodes and other random
    /// choices.
    fn of_round(round: u32, seed: u64) -> Self {
        let (cycle, kind) = (round / 6, round % 6);
        let all = Self {
            order: MethodOrder::Random,
            seed: mix(seed ^ u64::from(round)) | 1,
            loops: true,
            nest: u32::MAX,
            protect: GoalProtection::None,
            nodes: FIRST_NODES.saturating_mul(1 << cycle.min(40)),
        };
        let protect = if cycle % 2 == 0 { GoalProtection::Achieved } else { GoalProtection::All };
        let first = |order| Self { order, seed: if cycle == 0 { 0 } else { all.seed }, ..all };
        match kind {
            0 => first(MethodOrder::AsWritten),
            1 => Self { nest: 8 << cycle.min(8), ..first(MethodOrder::BaseCasesFirst) },
            2 => Self { protect, ..first(MethodOrder::RecursiveFirst) },
            3 => Self { protect, ..all },
            4 => Self { loops: false, ..all },
            _ => Self { nest: 4 << cycle.min(8), ..all },
        }
    }
}

/// The order in which methods are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MethodOrder {
    AsWritten,
    BaseCasesFirst,
    RecursiveFirst,
    Random,
}

/// How one search ended.
pub(crate) enum SearchEnd {
    Solved(Solution),
    Exhausted,
    Limit,
    Stopped,
}

/// First node limit of one search; it grows with each round.
const FIRST_NODES: u64 = 50_000;

/// Largest node limit of one search; bounds the memory for visited states, 16 bytes per node.
const NODES_OF_TRY_MAX: u64 = 10_000_000;

/// Searches for a plan.
///
/// - `stop`: called every thousand nodes; the search ends when it returns true.
pub fn solve(
    domain: &Domain,
    problem: &PlanningProblem,
    limits: SearchLimits,
    stop: &mut dyn FnMut() -> bool,
) -> SearchOutcome {
    let outcome = compile(domain, problem, None).map(|compiled| {
        let ordered = compiled.methods.iter().all(is_chain);
        let mut rounds = SearchRounds { limits, nodes: 0, stop };
        if ordered {
            return rounds.run(|_, rounds, how| rounds.attempt(&compiled, how), |_| true);
        }
        // Where tasks may come in any order, one after the other is tried first: a smaller search, and often enough.
        let lined = |round: u32| !matches!(round % 6, 1 | 4);
        rounds.run(
            |round, rounds, how| {
                if !lined(round) {
                    return rounds.attempt(&compiled, how);
                }
                let line = if round == 0 { 0 } else { how.seed };
                let compiled = compile(domain, problem, Some(line)).expect("it was compiled before");
                rounds.attempt(&compiled, how)
            },
            |round| !lined(round),
        )
    });
    outcome.unwrap_or_else(|reason| SearchOutcome::Unsupported { reason })
}

struct SearchRounds<'a> {
    limits: SearchLimits,
    nodes: u64,
    stop: &'a mut dyn FnMut() -> bool,
}

impl SearchRounds<'_> {
    /// Tries again and again, each time for longer.
    ///
    /// - `proves`: whether it says something about the problem when a try without shortcuts finds nothing.
    fn run(
        &mut self,
        attempt: impl Fn(u32, &mut Self, SearchStrategy) -> SearchEnd,
        proves: impl Fn(u32) -> bool,
    ) -> SearchOutcome {
        // Whether all there is without loops was seen, so that only tries with loops can find more.
        let mut seen = false;
        for round in 0u32.. {
            let mut how = SearchStrategy::of_round(round, self.limits.seed);
            if seen && how.loops {
                continue;
            }
            if (self.stop)() {
                break;
            }
            how.nodes = how.nodes.min(NODES_OF_TRY_MAX).min(self.limits.nodes_max - self.nodes);
            let end = attempt(round, self, how);
            let nodes = self.nodes;
            match end {
                SearchEnd::Solved(solution) => return SearchOutcome::Solved { solution, nodes },
                SearchEnd::Exhausted if how.is_complete() && proves(round) => {
                    return SearchOutcome::Exhausted { nodes };
                }
                SearchEnd::Stopped => return SearchOutcome::GaveUp { nodes },
                SearchEnd::Exhausted | SearchEnd::Limit if nodes >= self.limits.nodes_max => break,
                SearchEnd::Exhausted if proves(round) && how.misses_loops_only() => seen = true,
                SearchEnd::Exhausted | SearchEnd::Limit => {}
            }
        }
        SearchOutcome::GaveUp { nodes: self.nodes }
    }

    fn attempt(&mut self, compiled: &CompiledProblem, how: SearchStrategy) -> SearchEnd {
        let (end, used) = depth::search(compiled, how, self.limits.depth_max, self.stop);
        self.nodes += used.max(1);
        end
    }
}
