//! Selects an agent type for `auto` steps.
//!
//! Several scorers measure the similarity of a step and each agent, and outcomes show which agents did similar steps.
//! Both give the probability that any agent fits. Similarity forms a gate; success rate and cost order the candidates
//! inside it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use goalmill_common::agent::{ActionOffer, Agent};
use goalmill_common::clock::Clock;
use goalmill_common::config::RouterSettings;
use goalmill_common::event::RouteCandidate;
use goalmill_common::id::AgentType;
use goalmill_common::number::whole_u64;
use goalmill_common::random::Random;
use goalmill_plan::validate::{Durations, Measured, names};

mod agent_index;
mod agent_rates;
mod agent_text;
mod bm25;
mod confidence;
mod embedding_endpoint;
mod embedding_table;
mod late_interaction;
mod learn;
mod ngram;
mod plan_routing;
mod rank;
mod remote_vectors;
mod static_embedder;
mod subword_tokenizer;
mod subwords;
mod text_analysis;
mod ttl_cache;
mod vectors;

pub use embedding_table::{EmbeddingTable, EmbeddingTableError};
pub use plan_routing::{PlanRoutes, route_plan, step_text};
pub use rank::score;

use agent_index::{AgentIndex, AgentScores, StepQuery};
use agent_rates::AgentRates;
use embedding_endpoint::EmbeddingEndpoint;
use learn::Learner;
use remote_vectors::RemoteState;

/// Limit of the candidates in a result.
pub const CANDIDATES_MAX: usize = 5;
/// An agent type with a live worker ranks before one without if it has at least this share of the best similarity.
const LIVE_SHARE: f64 = 0.7;

/// Selects agent types by their descriptions and outcomes.
#[derive(Debug)]
pub struct Router {
    settings: RouterSettings,
    clock: Clock,
    table: Option<Arc<EmbeddingTable>>,
    registry: RwLock<Arc<RegistrySnapshot>>,
    /// Agent types with live workers; `None` until the first update.
    live: RwLock<Option<Arc<BTreeSet<AgentType>>>>,
    rates: Arc<RwLock<AgentRates>>,
    learner: Option<RwLock<Learner>>,
    endpoint: Option<EmbeddingEndpoint>,
    remote: Mutex<RemoteState>,
}

/// The rates at one time. Each query takes the lock for itself, so that recording an outcome waits for one query at
/// most.
#[derive(Debug)]
struct RatesSnapshot {
    rates: Arc<RwLock<AgentRates>>,
    now_ms: u64,
}

impl Durations for RatesSnapshot {
    fn measured(&self, agent_type: &AgentType, action: &str) -> Option<Measured> {
        read_lock(&self.rates).measured(agent_type, action, self.now_ms)
    }
}

/// The registered agents and the index over their texts.
#[derive(Debug, Default)]
struct RegistrySnapshot {
    agents: Vec<Agent>,
    index: AgentIndex,
    /// Positions of the agents by action name, ascending.
    actions: HashMap<String, Vec<usize>>,
    /// Positions of the agents that declare no actions, so that any action may be asked of them.
    open: Vec<usize>,
    positions: HashMap<AgentType, usize>,
}

impl RegistrySnapshot {
    fn new(agents: Vec<Agent>, table: Option<&Arc<EmbeddingTable>>) -> Self {
        let mut actions: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, agent) in agents.iter().enumerate() {
            for action in &agent.actions {
                let positions = actions.entry(action.name.clone()).or_default();
                if positions.last() != Some(&at) {
                    positions.push(at);
                }
            }
        }
        let open = agents.iter().enumerate().filter(|(_, agent)| agent.actions.is_empty()).map(|(at, _)| at).collect();
        let positions = agents.iter().enumerate().map(|(at, agent)| (agent.agent_type.clone(), at)).collect();
        Self { index: AgentIndex::new(&agents, table), agents, actions, open, positions }
    }

    /// The agents that may be asked for an action: those that have it, else those that take any. `None` means all.
    fn able(&self, action: &str) -> Option<&[usize]> {
        if action.is_empty() {
            return None;
        }
        Some(self.actions.get(action).map_or(&self.open, Vec::as_slice))
    }

    fn offer(&self, agent_type: &AgentType, action: &str) -> ActionOffer {
        let Some(at) = self.positions.get(agent_type) else { return ActionOffer::Unknown };
        let has = self.actions.get(action).is_some_and(|positions| positions.binary_search(at).is_ok());
        ActionOffer::new(self.agents[*at].actions.is_empty(), has)
    }

    /// Whether a card says that an action changes something.
    fn has_side_effect(&self, action: &str) -> bool {
        let positions = self.actions.get(action).into_iter().flatten().map(|at| &self.agents[*at]);
        positions.filter_map(|agent| agent.action(action)).any(|action| action.side_effect)
    }
}

/// Inputs of a ranking.
struct RankingContext<'a> {
    registry: &'a RegistrySnapshot,
    scores: &'a AgentScores,
    /// Bonus of each agent, and its maximum.
    learned: Option<&'a (Vec<f32>, f32)>,
    live: Option<&'a BTreeSet<AgentType>>,
}

impl RankingContext<'_> {
    /// Two groups: agents with live workers that are similar enough to the best one, then the others. Empty groups are
    /// omitted.
    fn by_worker(&self, ranked: Vec<(usize, f64)>) -> Vec<Vec<(usize, f64)>> {
        let Some(live) = self.live else { return vec![ranked] };
        let edge = ranked.iter().map(|(_, fit)| *fit).fold(0.0, f64::max) * LIVE_SHARE;
        let is_first = |(at, fit): &(usize, f64)| *fit >= edge && live.contains(&self.registry.agents[*at].agent_type);
        let (first, rest): (Vec<_>, Vec<_>) = ranked.into_iter().partition(is_first);
        [first, rest].into_iter().filter(|group| !group.is_empty()).collect()
    }
}

/// The selected agent type and its candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteChoice {
    pub agent_type: AgentType,
    /// Best first, at most [`CANDIDATES_MAX`].
    pub candidates: Vec<RouteCandidate>,
    /// Probability that any agent fits, 0 to 1.
    pub confidence: f64,
}

/// No agent is likely enough to fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("no agent type fits")]
pub struct Unroutable {
    /// The most similar agents, best first, at most [`CANDIDATES_MAX`].
    pub candidates: Vec<RouteCandidate>,
    /// Probability that any agent fits, 0 to 1.
    pub confidence: f64,
}

/// Every agent with some similarity to a step, best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    pub candidates: Vec<RouteCandidate>,
    /// Probability that any agent fits, 0 to 1.
    pub confidence: f64,
}

impl Router {
    /// Creates a router. If the static model of the settings cannot be loaded, it logs a warning and uses the texts only.
    pub fn new(settings: RouterSettings) -> Self {
        let table = open_table(&settings)
            .inspect_err(|error| tracing::warn!("the router works without a static model: {error}"))
            .unwrap_or_default();
        Self::with_parts(settings, table, Clock::system(), Random::system())
    }

    /// Creates a router with the given static model, clock and random source.
    pub fn with_parts(
        settings: RouterSettings,
        table: Option<Arc<EmbeddingTable>>,
        clock: Clock,
        random: Random,
    ) -> Self {
        let learner = settings.learn.then(|| Learner::new(table.clone(), settings.learn_examples_max, random));
        Self {
            registry: RwLock::default(),
            live: RwLock::default(),
            rates: Arc::new(RwLock::new(AgentRates::new(settings.half_life_ms))),
            learner: learner.map(RwLock::new),
            endpoint: EmbeddingEndpoint::from_settings(&settings),
            remote: Mutex::new(RemoteState::new(&settings)),
            settings,
            clock,
            table,
        }
    }

    /// Replaces the registered agents and builds the index.
    pub fn update_agents(&self, agents: Vec<Agent>) {
        write_lock(&self.rates).retain_agents(&agents);
        let registry = RegistrySnapshot::new(agents, self.table.as_ref());
        *write_lock(&self.registry) = Arc::new(registry);
    }

    /// Replaces the agent types with live workers. They rank before equally good ones without.
    pub fn update_live(&self, live: Arc<BTreeSet<AgentType>>) {
        *write_lock(&self.live) = Some(live);
    }

    /// What the card of an agent type says of an action.
    pub fn offer(&self, agent_type: &AgentType, action: &str) -> ActionOffer {
        read_lock(&self.registry).offer(agent_type, action)
    }

    /// Whether a registered agent has an action of this name.
    pub fn is_named(&self, action: &str) -> bool {
        read_lock(&self.registry).actions.contains_key(action)
    }

    /// Whether any registered agent has an action, or takes any.
    fn is_offered(&self, action: &str) -> bool {
        read_lock(&self.registry).able(action).is_none_or(|able| !able.is_empty())
    }

    /// Whether any card says that an action changes something outside of its plan.
    pub fn has_side_effect(&self, action: &str) -> bool {
        read_lock(&self.registry).has_side_effect(action)
    }

    /// The names of actions nearest to an unknown one, else the first ones: of an agent type, or of all; at most `most`.
    pub fn near_actions(&self, agent_type: Option<&AgentType>, action: &str, most: usize) -> Vec<String> {
        let registry = read_lock(&self.registry).clone();
        let of_type = |agent: &&Agent| agent_type.is_none_or(|agent_type| agent.agent_type == *agent_type);
        let actions = registry.agents.iter().filter(of_type).flat_map(|agent| &agent.actions);
        let names: BTreeSet<&str> = actions.map(|action| action.name.as_str()).collect();
        let near = names::nearest(action, names.iter().copied());
        let names = if near.is_empty() { names.into_iter().take(most).collect() } else { near };
        names.into_iter().map(str::to_owned).collect()
    }

    /// Whether an agent type is known to have no live worker.
    pub fn is_unserved(&self, agent_type: &AgentType) -> bool {
        read_lock(&self.live).as_ref().is_some_and(|live| !live.contains(agent_type))
    }

    /// Every agent with some similarity to `text`, best first.
    pub fn route(&self, text: &str) -> Vec<RouteCandidate> {
        self.rank(text, "", usize::MAX).candidates
    }

    /// The best agent for `text`; an error if the confidence is below `router.threshold`.
    ///
    /// - `action`: if not empty, only the agents that have an action of exactly this name, else those that take any.
    pub fn choose(&self, text: &str, action: &str) -> Result<RouteChoice, Unroutable> {
        let Ranking { mut candidates, confidence } = self.rank(text, action, CANDIDATES_MAX);
        candidates.truncate(CANDIDATES_MAX);
        match candidates.first() {
            Some(best) if !self.abstains(confidence) => {
                Ok(RouteChoice { agent_type: best.agent_type.clone(), candidates, confidence })
            }
            _ => Err(Unroutable { candidates, confidence }),
        }
    }

    /// Whether a confidence is below `router.threshold`.
    pub fn abstains(&self, confidence: f64) -> bool {
        confidence < self.settings.threshold
    }

    /// The candidates with their factors, and the confidence. With an action, the candidates are the agents that have it,
    /// else those that take any.
    ///
    /// - `most`: requested number of candidates; all candidates inside the gate are included.
    pub fn rank(&self, text: &str, action: &str, most: usize) -> Ranking {
        let registry = read_lock(&self.registry).clone();
        let scores = self.score(&registry, text);
        let before = confidence::log_odds(&scores);
        let advice =
            self.learner.as_ref().and_then(|learner| read_lock(learner).advise(text, &registry.agents, before));
        let able = registry.able(action);
        let is_named = registry.actions.contains_key(action);
        let fits = |at: usize| {
            let total = f64::from(scores.total[at]);
            let fit = advice
                .as_ref()
                .map_or(total, |advice| (total + f64::from(advice.bonus[at])) / (1.0 + f64::from(advice.bonus_max)));
            // The action name counts for half; the texts order the agents that have it.
            if is_named { 0.5 + fit / 2.0 } else { fit }
        };
        let fitting = |at: usize| (at, fits(at).min(1.0));
        let ranked: Vec<(usize, f64)> = match able {
            Some(positions) => {
                positions.iter().copied().map(fitting).filter(|(_, fit)| is_named || *fit > 0.0).collect()
            }
            None => (0..registry.agents.len()).map(fitting).filter(|(_, fit)| *fit > 0.0).collect(),
        };
        let odds = advice.as_ref().map_or(before, |advice| advice.match_log_odds(before));
        let confidence = match (is_named, ranked.is_empty()) {
            (true, _) => 1.0,
            (false, true) => 0.0,
            (false, false) => confidence::probability(odds),
        };
        let learned = advice.map(|advice| (advice.bonus, advice.bonus_max));
        let live = read_lock(&self.live).clone();
        let view =
            RankingContext { registry: &registry, scores: &scores, learned: learned.as_ref(), live: live.as_deref() };
        let mut candidates = Vec::new();
        for mut group in view.by_worker(ranked) {
            let more = most.saturating_sub(candidates.len());
            rank::apply_gate(&mut group, self.settings.gate, more);
            let mut next = self.candidates(&view, &group);
            rank::sort_candidates(&mut next, self.settings.gate);
            candidates.extend(next);
        }
        Ranking { candidates, confidence }
    }

    /// Records the outcome of a step for the success rate and latency. Older outcomes count less; the order of calls does
    /// not matter.
    ///
    /// - `took_ms`: duration, if known.
    /// - `time_ms`: end of the step, Unix milliseconds.
    pub fn record_outcome(&self, agent: &AgentType, action: &str, ok: bool, took_ms: Option<u64>, time_ms: u64) {
        write_lock(&self.rates).record(agent, action, ok, took_ms, time_ms);
    }

    /// Recent durations of actions.
    pub fn durations(&self) -> impl Durations + use<> {
        RatesSnapshot { rates: self.rates.clone(), now_ms: self.clock.now_ms() }
    }

    /// Learns from an outcome which agent does similar steps; does nothing unless `router.learn` is set.
    pub fn record_match(&self, text: &str, agent: &AgentType, success: bool) {
        self.train(text, Some(agent), success);
    }

    /// Learns that no agent does similar steps; does nothing unless `router.learn` is set.
    pub fn record_no_match(&self, text: &str) {
        self.train(text, None, true);
    }

    fn train(&self, text: &str, agent: Option<&AgentType>, success: bool) {
        let Some(learner) = &self.learner else { return };
        let registry = read_lock(&self.registry).clone();
        let before = confidence::log_odds(&self.score(&registry, text));
        write_lock(learner).record_outcome(text, agent, success, before);
    }

    fn score(&self, registry: &RegistrySnapshot, text: &str) -> AgentScores {
        registry.index.score(&StepQuery::new(text, self.remote_step(text)))
    }

    /// Candidates in the order of `ranked`; the first few include their factors.
    fn candidates(&self, view: &RankingContext<'_>, ranked: &[(usize, f64)]) -> Vec<RouteCandidate> {
        let RankingContext { registry, scores, learned, live } = view;
        let rates = read_lock(&self.rates);
        let now = self.clock.now_ms();
        let candidate = |(position, (at, similarity)): (usize, &(usize, f64))| {
            let agent = &registry.agents[*at];
            let rate = rates.rate(agent, now);
            let mut factors = BTreeMap::new();
            if position < 4 * CANDIDATES_MAX {
                let factor = |(name, values): &(&str, Vec<f32>)| ((*name).to_owned(), f64::from(values[*at]));
                factors.extend(scores.factors.iter().map(factor));
                if let Some((bonus, most)) = learned {
                    factors.insert("learned".into(), f64::from(bonus[*at] / most.max(f32::MIN_POSITIVE)));
                }
                factors.insert("outcomes".into(), rate.outcomes);
                if let Some(live) = live {
                    factors.insert("live".into(), f64::from(u8::from(live.contains(&agent.agent_type))));
                }
            }
            RouteCandidate {
                agent_type: agent.agent_type.clone(),
                similarity: *similarity,
                success_rate: rate.success,
                cost: agent.cost,
                score: rank::score(*similarity, rate.success, agent.cost),
                latency_ms: rate.latency_ms.map(|latency| whole_u64(latency.round())),
                factors,
            }
        };
        ranked.iter().enumerate().map(candidate).collect()
    }
}

/// Opens the static model of the settings.
pub fn open_table(settings: &RouterSettings) -> Result<Option<Arc<EmbeddingTable>>, EmbeddingTableError> {
    match settings.local_model.as_str() {
        "" => return Ok(None),
        "general" => return Ok(Some(EmbeddingTable::general())),
        _ => {}
    }
    let tokenizer = Some(settings.local_tokenizer.as_str()).filter(|path| !path.is_empty()).map(Path::new);
    EmbeddingTable::open(Path::new(&settings.local_model), tokenizer).map(Arc::new).map(Some)
}

fn read_lock<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write_lock<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
