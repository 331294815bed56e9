//! Who gets steps with agent type `auto`.
//!
//! Several embedders say how well a step and each agent fit together, and outcomes say who did steps like it; from that
//! comes the probability that anybody fits. Similarity gates, then success and price choose among the near-equals.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use goalmill_common::agent::Agent;
use goalmill_common::clock::Clock;
use goalmill_common::config::RouterSettings;
use goalmill_common::event::RouteCandidate;
use goalmill_common::id::AgentType;
use goalmill_common::random::Random;
use goalmill_plan::validate::{Durations, Measured};

mod bm25;
mod cache;
mod confidence;
mod describe;
mod index;
mod late;
mod learn;
mod ngram;
mod pieces;
mod plan;
mod rank;
mod rates;
mod remote;
mod statics;
mod table;
mod tokens;
mod wide;
mod words;

pub use plan::{Routed, route_plan, text, texts};
pub use rank::score;
pub use table::{Table, TableError};

use cache::Cache;
use describe::Description;
use index::{Index, Likeness, Query, remote_vector};
use learn::Learner;
use rates::Rates;
use remote::Endpoint;

/// Candidates that an answer names at most.
pub const CANDIDATES_MAX: usize = 5;
/// After the embedding endpoint has failed, it is left alone for so long.
const ENDPOINT_REST_MS: u64 = 30_000;
/// Steps that wait for their vector at most.
const MISSED_MAX: usize = 256;
/// An agent type with a live worker goes before one without while it has at least this share of the best similarity.
const LIVE_SHARE: f64 = 0.7;

/// Chooses agent types by what they say about themselves, and by how they did.
#[derive(Debug)]
pub struct Router {
    settings: RouterSettings,
    clock: Clock,
    table: Option<Arc<Table>>,
    known: RwLock<Arc<Known>>,
    /// Agent types with live workers; none as long as nobody said which these are.
    live: RwLock<Option<Arc<BTreeSet<AgentType>>>>,
    rates: Arc<RwLock<Rates>>,
    learner: Option<RwLock<Learner>>,
    endpoint: Option<Endpoint>,
    remote: Mutex<RemoteState>,
}

/// The rates as they are seen at one time. Each question holds the lock for itself: who counts outcomes never waits for
/// more than one answer.
#[derive(Debug)]
struct RatesAt {
    rates: Arc<RwLock<Rates>>,
    now_ms: u64,
}

impl Durations for RatesAt {
    fn measured(&self, agent_type: &AgentType, action: &str) -> Option<Measured> {
        read(&self.rates).measured(agent_type, action, self.now_ms)
    }
}

/// The registered agents, and the index over their words.
#[derive(Debug, Default)]
struct Known {
    agents: Vec<Agent>,
    index: Index,
    /// Places of the agents by the names of their actions.
    actions: HashMap<String, Vec<usize>>,
}

/// What a ranking is made from.
struct View<'a> {
    known: &'a Known,
    likeness: &'a Likeness,
    /// By agent, and the most that it can be.
    learned: Option<&'a (Vec<f32>, f32)>,
    live: Option<&'a BTreeSet<AgentType>>,
}

impl View<'_> {
    /// The agents that have live workers and are near enough to the best one, then the others. One group when that
    /// makes no difference.
    fn by_worker(&self, ranked: Vec<(usize, f64)>) -> Vec<Vec<(usize, f64)>> {
        let Some(live) = self.live else { return vec![ranked] };
        let edge = ranked.iter().map(|(_, fit)| *fit).fold(0.0, f64::max) * LIVE_SHARE;
        let is_first = |(at, fit): &(usize, f64)| *fit >= edge && live.contains(&self.known.agents[*at].agent_type);
        let (first, rest): (Vec<_>, Vec<_>) = ranked.into_iter().partition(is_first);
        [first, rest].into_iter().filter(|group| !group.is_empty()).collect()
    }
}

/// What came from the embedding endpoint.
#[derive(Debug)]
struct RemoteState {
    steps: Cache<Arc<Vec<i16>>>,
    /// The registered agents' vectors by their words.
    agents: HashMap<String, Vec<i16>>,
    /// Steps that were routed without their vector; it is fetched for the next of their kind.
    missed: Vec<String>,
    asked_again_ms: u64,
}

/// Who was chosen, and among whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub agent_type: AgentType,
    /// Best first, at most [`CANDIDATES_MAX`].
    pub candidates: Vec<RouteCandidate>,
    /// How likely it is that anybody fits, 0 to 1.
    pub confidence: f64,
}

/// Nobody is likely enough to fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("no agent type fits")]
pub struct Unroutable {
    /// The nearest, best first, at most [`CANDIDATES_MAX`]; none when nobody is registered.
    pub candidates: Vec<RouteCandidate>,
    /// How likely it is that anybody fits, 0 to 1.
    pub confidence: f64,
}

/// Every agent that has something in common with a step, best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    pub candidates: Vec<RouteCandidate>,
    /// How likely it is that anybody fits, 0 to 1.
    pub confidence: f64,
}

impl Router {
    /// Sets up a router; a static model that the settings name but that cannot be used is told in the log, and the
    /// router goes on without it.
    pub fn new(settings: RouterSettings) -> Self {
        let table = open_table(&settings)
            .inspect_err(|error| tracing::warn!("the router goes by words alone: {error}"))
            .unwrap_or_default();
        Self::with(settings, table, Clock::system(), Random::system())
    }

    /// Sets up a router with a static model, a clock and chance of one's own.
    pub fn with(settings: RouterSettings, table: Option<Arc<Table>>, clock: Clock, random: Random) -> Self {
        let learner = settings.learn.then(|| Learner::new(table.clone(), settings.learn_examples_max, random));
        Self {
            known: RwLock::default(),
            live: RwLock::default(),
            rates: Arc::new(RwLock::new(Rates::new(settings.half_life_ms))),
            learner: learner.map(RwLock::new),
            endpoint: Endpoint::from_settings(&settings),
            remote: Mutex::new(RemoteState {
                steps: Cache::new(settings.cache_ms, settings.cache_entries_max),
                agents: HashMap::new(),
                missed: Vec::new(),
                asked_again_ms: 0,
            }),
            settings,
            clock,
            table,
        }
    }

    /// Takes over the registry: builds the index once, and then answers from it.
    pub fn update(&self, agents: Vec<Agent>) {
        let mut actions: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, agent) in agents.iter().enumerate() {
            for action in &agent.actions {
                let places = actions.entry(action.name.clone()).or_default();
                if places.last() != Some(&at) {
                    places.push(at);
                }
            }
        }
        write(&self.rates).keep(&agents);
        let known = Known { index: Index::new(&agents, self.table.as_ref()), agents, actions };
        *write(&self.known) = Arc::new(known);
    }

    /// Takes over which agent types have live workers: they go before equally good ones that have none.
    pub fn update_live(&self, live: Arc<BTreeSet<AgentType>>) {
        *write(&self.live) = Some(live);
    }

    /// Whether an agent type is known to have no live worker.
    pub fn is_unserved(&self, agent_type: &AgentType) -> bool {
        read(&self.live).as_ref().is_some_and(|live| !live.contains(agent_type))
    }

    /// Fetches what the embedding endpoint has to say about the agents, about these steps, and about those that were
    /// routed without it, so that [`Router::choose`] finds it.
    ///
    /// Does nothing without an endpoint; when it fails, the others decide without it.
    pub async fn prepare(&self, texts: &[String]) {
        let Some(endpoint) = &self.endpoint else { return };
        let now = self.clock.now_ms();
        if self.remote().asked_again_ms > now {
            return;
        }
        let mut wanted = std::mem::take(&mut self.remote().missed);
        wanted.extend_from_slice(texts);
        if let Err(error) = self.fetch(endpoint, &wanted, now).await {
            tracing::warn!("the router goes on without remote vectors: {error}");
            self.remote().asked_again_ms = now + ENDPOINT_REST_MS;
        }
    }

    /// Every agent that has something in common with `text`, best first.
    pub fn route(&self, text: &str) -> Vec<RouteCandidate> {
        self.rank(text, "", usize::MAX).candidates
    }

    /// The best agent for `text`; nobody if that anybody fits is less likely than `router.threshold`.
    pub fn choose(&self, text: &str) -> Result<Choice, Unroutable> {
        self.choose_for(text, "")
    }

    /// As [`Router::choose`]; agents that have an action of this very name come before all others.
    pub fn choose_for(&self, text: &str, action: &str) -> Result<Choice, Unroutable> {
        let Ranking { mut candidates, confidence } = self.rank(text, action, CANDIDATES_MAX);
        candidates.truncate(CANDIDATES_MAX);
        match candidates.first() {
            Some(best) if !self.abstains(confidence) => {
                Ok(Choice { agent_type: best.agent_type.clone(), candidates, confidence })
            }
            _ => Err(Unroutable { candidates, confidence }),
        }
    }

    /// Whether a confidence is too low to choose anybody.
    pub fn abstains(&self, confidence: f64) -> bool {
        confidence < self.settings.threshold
    }

    /// The candidates with their factors, and the confidence; only agents with an action named `action` if there are
    /// any.
    ///
    /// - `most`: how many candidates are asked for; those inside the gate come on top of that.
    pub fn rank(&self, text: &str, action: &str, most: usize) -> Ranking {
        let known = read(&self.known).clone();
        let likeness = self.likeness(&known, text);
        let before = confidence::log_odds(&likeness);
        let advice = self.learner.as_ref().and_then(|learner| read(learner).advise(text, &known.agents, before));
        let named = if action.is_empty() { None } else { known.actions.get(action) };
        let fits = |at: usize| {
            let total = f64::from(likeness.total[at]);
            let fit = advice
                .as_ref()
                .map_or(total, |advice| (total + f64::from(advice.bonus[at])) / (1.0 + f64::from(advice.bonus_max)));
            // The name counts for half; among several that have it, their words decide.
            if named.is_some() { 0.5 + fit / 2.0 } else { fit }
        };
        let fitting = |at: usize| (at, fits(at).min(1.0));
        let ranked: Vec<(usize, f64)> = match named {
            Some(places) => places.iter().copied().map(fitting).collect(),
            None => (0..known.agents.len()).map(fitting).filter(|(_, fit)| *fit > 0.0).collect(),
        };
        let odds = advice.as_ref().map_or(before, |advice| advice.somebody(before));
        let confidence = match (named, ranked.is_empty()) {
            (Some(_), _) => 1.0,
            (None, true) => 0.0,
            (None, false) => confidence::probability(odds),
        };
        let learned = advice.map(|advice| (advice.bonus, advice.bonus_max));
        let live = read(&self.live).clone();
        let view = View { known: &known, likeness: &likeness, learned: learned.as_ref(), live: live.as_deref() };
        let mut candidates = Vec::new();
        for mut group in view.by_worker(ranked) {
            let more = most.saturating_sub(candidates.len());
            rank::shorten(&mut group, self.settings.gate, more);
            let mut next = self.candidates(&view, &group);
            rank::rank(&mut next, self.settings.gate);
            candidates.extend(next);
        }
        Ranking { candidates, confidence }
    }

    /// Counts how a step of an agent ended; what is older counts less, told in any order.
    ///
    /// - `took_ms`: how long it ran, if that is known.
    /// - `time_ms`: when it ended, Unix milliseconds.
    pub fn record(&self, agent: &AgentType, action: &str, ok: bool, took_ms: Option<u64>, time_ms: u64) {
        write(&self.rates).record(agent, action, ok, took_ms, time_ms);
    }

    /// How long actions took of late, seen from now.
    pub fn durations(&self) -> impl Durations + use<> {
        RatesAt { rates: self.rates.clone(), now_ms: self.clock.now_ms() }
    }

    /// Learns from an outcome who does steps like this one; does nothing while `router.learn` is off.
    pub fn learn(&self, text: &str, agent: &AgentType, success: bool) {
        self.teach(text, Some(agent), success);
    }

    /// Learns that a step like this one is for nobody; does nothing while `router.learn` is off.
    pub fn learn_nobody(&self, text: &str) {
        self.teach(text, None, true);
    }

    /// How many outcomes are remembered.
    pub fn learned(&self) -> usize {
        self.learner.as_ref().map_or(0, |learner| read(learner).examples())
    }

    /// Whether nobody is registered.
    pub fn is_empty(&self) -> bool {
        read(&self.known).agents.is_empty()
    }

    fn teach(&self, text: &str, agent: Option<&AgentType>, success: bool) {
        let Some(learner) = &self.learner else { return };
        let known = read(&self.known).clone();
        let before = confidence::log_odds(&self.likeness(&known, text));
        write(learner).learn(text, agent, success, before);
    }

    fn likeness(&self, known: &Known, text: &str) -> Likeness {
        known.index.likeness(&Query::new(text, self.remote_step(text)))
    }

    fn remote_step(&self, text: &str) -> Option<Arc<Vec<i16>>> {
        self.endpoint.as_ref()?;
        let mut remote = self.remote();
        let found = remote.steps.get(text, self.clock.now_ms());
        if found.is_none() && remote.missed.len() < MISSED_MAX && !remote.missed.iter().any(|missed| missed == text) {
            remote.missed.push(text.to_owned());
        }
        found
    }

    /// Candidates in the order of `ranked`, the factors of the first few told.
    fn candidates(&self, view: &View<'_>, ranked: &[(usize, f64)]) -> Vec<RouteCandidate> {
        let View { known, likeness, learned, live } = view;
        let rates = read(&self.rates);
        let now = self.clock.now_ms();
        let candidate = |(place, (at, similarity)): (usize, &(usize, f64))| {
            let agent = &known.agents[*at];
            let rate = rates.of(agent, now);
            let mut factors = BTreeMap::new();
            if place < 4 * CANDIDATES_MAX {
                let factor = |(name, values): &(&str, Vec<f32>)| ((*name).to_owned(), f64::from(values[*at]));
                factors.extend(likeness.factors.iter().map(factor));
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
                latency_ms: rate.latency_ms.map(|latency| latency.round().max(0.0) as u64),
                factors,
            }
        };
        ranked.iter().enumerate().map(candidate).collect()
    }

    async fn fetch(&self, endpoint: &Endpoint, texts: &[String], now: u64) -> Result<(), remote::EmbedError> {
        let known = read(&self.known).clone();
        if !known.index.remote.is_set() && !known.agents.is_empty() {
            let words: Vec<String> = known.agents.iter().map(|agent| Description::of(agent).text()).collect();
            let missing: Vec<String> = {
                let remote = self.remote();
                words.iter().filter(|words| !remote.agents.contains_key(*words)).cloned().collect()
            };
            let vectors = endpoint.embed(&missing).await?;
            let mut remote = self.remote();
            remote.agents.extend(missing.into_iter().zip(vectors.into_iter().map(remote_vector)));
            let kept: Vec<Vec<i16>> =
                words.iter().map(|words| remote.agents.get(words).cloned().unwrap_or_default()).collect();
            // Agents that are gone, or that say something else of themselves, are forgotten.
            remote.agents = words.into_iter().zip(kept.iter().cloned()).collect();
            known.index.remote.set(kept);
        }
        let missing: Vec<String> = {
            let remote = self.remote();
            texts.iter().filter(|text| remote.steps.get(text, now).is_none()).cloned().collect()
        };
        let vectors = endpoint.embed(&missing).await?;
        let mut remote = self.remote();
        for (text, vector) in missing.into_iter().zip(vectors) {
            remote.steps.put(text, Arc::new(remote_vector(vector)), now);
        }
        Ok(())
    }

    fn remote(&self) -> MutexGuard<'_, RemoteState> {
        self.remote.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The static model that the settings name.
pub fn open_table(settings: &RouterSettings) -> Result<Option<Arc<Table>>, TableError> {
    match settings.local_model.as_str() {
        "" => return Ok(None),
        "general" => return Ok(Some(Table::general())),
        _ => {}
    }
    let tokenizer = Some(settings.local_tokenizer.as_str()).filter(|path| !path.is_empty()).map(Path::new);
    Table::open(Path::new(&settings.local_model), tokenizer).map(Arc::new).map(Some)
}

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
