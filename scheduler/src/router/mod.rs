//! Who gets steps with agent type `auto`.
//!
//! Similarity gates, then success rate and price choose among the near-equals inside the gate: applied to all
//! candidates, that formula changes right decisions into wrong ones.

use std::sync::{Arc, PoisonError, RwLock};

use goalmill_common::agent::Agent;
use goalmill_common::config::RouterSettings;
use goalmill_common::event::RouteCandidate;
use goalmill_common::id::AgentType;

mod bm25;
mod lexical;
mod ngram;
mod plan;

pub use plan::route_plan;

use lexical::Lexical;

/// Candidates that an answer names at most.
pub const CANDIDATES_MAX: usize = 5;

/// Chooses agent types by what they say about themselves.
#[derive(Debug)]
pub struct Router {
    settings: RouterSettings,
    known: RwLock<Arc<Known>>,
}

/// The registered agents, and the index over their words.
#[derive(Debug, Default)]
struct Known {
    agents: Vec<Agent>,
    index: Lexical,
}

/// Who was chosen, and among whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub agent_type: AgentType,
    /// Best first, at most [`CANDIDATES_MAX`].
    pub candidates: Vec<RouteCandidate>,
}

/// Nobody is similar enough.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("no agent type fits")]
pub struct Unroutable {
    /// The nearest, best first, at most [`CANDIDATES_MAX`]; none when nobody is registered.
    pub candidates: Vec<RouteCandidate>,
}

impl Router {
    pub fn new(settings: RouterSettings) -> Self {
        Self { settings, known: RwLock::default() }
    }

    /// Takes over the registry: builds the index once, and then answers from it.
    pub fn update(&self, agents: Vec<Agent>) {
        let texts: Vec<String> = agents.iter().map(lexical::describe).collect();
        let known = Arc::new(Known { index: Lexical::new(&texts), agents });
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// Every agent that has something in common with `text`, best first.
    pub fn route(&self, text: &str) -> Vec<RouteCandidate> {
        let known = self.known();
        self.rank(&known, known.index.similarities(text))
    }

    /// The best agent for `text`; nobody if the nearest is below `router.threshold`.
    pub fn choose(&self, text: &str) -> Result<Choice, Unroutable> {
        self.decide(self.route(text))
    }

    /// As [`Router::choose`]; agents that have an action of this very name come before all others.
    pub fn choose_for(&self, text: &str, action: &str) -> Result<Choice, Unroutable> {
        let known = self.known();
        let can = |at: usize| !action.is_empty() && known.agents[at].actions.iter().any(|a| a.name == action);
        let mut similarities = known.index.similarities(text);
        if !(0..known.agents.len()).any(can) {
            return self.decide(self.rank(&known, similarities));
        }
        // The name counts for half; among several that have it, their words decide.
        let mut lexical = vec![0.0; known.agents.len()];
        for (at, similarity) in similarities.drain(..) {
            lexical[at] = similarity;
        }
        let able: Vec<usize> = (0..known.agents.len()).filter(|at| can(*at)).collect();
        let named = able.into_iter().map(|at| (at, 0.5 + lexical[at] / 2.0)).collect();
        self.decide(self.rank(&known, named))
    }

    /// Whether nobody is registered.
    pub fn is_empty(&self) -> bool {
        self.known().agents.is_empty()
    }

    fn known(&self) -> Arc<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn decide(&self, mut candidates: Vec<RouteCandidate>) -> Result<Choice, Unroutable> {
        candidates.truncate(CANDIDATES_MAX);
        match candidates.first() {
            Some(best) if best.similarity >= self.settings.threshold => {
                Ok(Choice { agent_type: best.agent_type.clone(), candidates })
            }
            _ => Err(Unroutable { candidates }),
        }
    }

    /// The near-equals by score, then the others by similarity; ties by name.
    fn rank(&self, known: &Known, similarities: Vec<(usize, f64)>) -> Vec<RouteCandidate> {
        let best = similarities.iter().map(|(_, similarity)| *similarity).fold(0.0, f64::max);
        let edge = (best * (1.0 - self.settings.gate)).max(self.settings.threshold.min(best));
        let candidate = |(at, similarity): (usize, f64)| {
            let agent: &Agent = &known.agents[at];
            RouteCandidate {
                agent_type: agent.agent_type.clone(),
                similarity,
                success_rate: agent.success_rate,
                cost: agent.cost,
                score: score(similarity, agent.success_rate, agent.cost),
            }
        };
        let mut candidates: Vec<RouteCandidate> = similarities.into_iter().map(candidate).collect();
        candidates.sort_by(|a, b| {
            let (in_a, in_b) = (a.similarity >= edge, b.similarity >= edge);
            let by_rank = match (in_a, in_b) {
                (true, true) => b.score.total_cmp(&a.score),
                (false, false) => b.similarity.total_cmp(&a.similarity),
                _ => in_b.cmp(&in_a),
            };
            by_rank.then_with(|| a.agent_type.cmp(&b.agent_type))
        });
        candidates
    }
}

/// How good a choice an agent is among near-equals.
///
/// - `similarity`: 0 to 1.
/// - `success_rate`: share of attempts that succeed, 0 to 1.
/// - `cost`: US dollars a step; 10 and more count as worthless.
pub fn score(similarity: f64, success_rate: f64, cost: f64) -> f64 {
    similarity * success_rate.clamp(0.0, 1.0) * (1.0 - cost / 10.0).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests;
