//! The catalogue of agents and actions that a plan is validated against.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use goalmill_common::agent::{ActionOffer, Agent, WorkerBeat};
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use serde_json::Value;

use super::names::nearest;
use crate::schema::{Schema, Unusable};

/// What is known of agents at one time.
#[derive(Debug, Default)]
pub struct Catalogue {
    entries: BTreeMap<String, Arc<AgentEntry>>,
    /// Slots of live workers by agent type.
    slots: BTreeMap<String, u32>,
    knows_workers: bool,
    durations: Option<Box<dyn Durations>>,
}

/// Knows how long actions took of late.
pub trait Durations: std::fmt::Debug + Send + Sync {
    /// None when the action did not run often enough of late.
    fn measured(&self, agent_type: &AgentType, action: &str) -> Option<Measured>;
}

/// How long an action took of late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// On average, in milliseconds.
    pub ms: u64,
    /// Whether it takes about as long each time, so that the average tells more of a step than the step's estimate.
    pub is_steady: bool,
}

/// Agents whose declarations are kept read.
const READ_MAX: usize = 8_192;

/// Declarations that were read before, by agent type: plans come far more often than agents change, and schemas are
/// dear to compile. Changes nothing but the time it takes.
static READ: Mutex<BTreeMap<String, (Agent, Arc<AgentEntry>)>> = Mutex::new(BTreeMap::new());

/// An agent type and what it offers.
#[derive(Debug, Default)]
pub struct AgentEntry {
    /// By name; empty when the agent did not say, so that any action may be asked of it.
    pub actions: BTreeMap<String, ActionEntry>,
    /// Declared cost of one step, US dollars.
    pub cost: f64,
    /// Declared duration of one step, in milliseconds.
    pub latency_ms: Option<u64>,
    /// Declared share of attempts that succeed, 0 to 1.
    pub success_rate: f64,
}

/// One action of an agent.
#[derive(Debug, Default)]
pub struct ActionEntry {
    /// JSON Schema of the inputs, and its text when first needed.
    pub inputs: Option<Value>,
    inputs_text: OnceLock<Option<Json>>,
    /// JSON Schema of the outputs.
    pub outputs: Option<Value>,
}

impl ActionEntry {
    /// The check of its inputs; none when it declares no schema.
    pub(super) fn inputs_schema(&self) -> Result<Option<Arc<Schema>>, Unusable> {
        let text = self.inputs_text.get_or_init(|| self.inputs.as_ref().map(Json::from_value));
        text.as_ref().map(Schema::cached_inputs).transpose()
    }
}

impl Catalogue {
    /// What agents declared of themselves.
    pub fn from_agents(agents: &[Agent]) -> Self {
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = BTreeMap::new();
        for agent in agents {
            let name = agent.agent_type.as_str();
            let agent_entry = match read.get(name) {
                Some((known, agent_entry)) if known == agent => agent_entry.clone(),
                Some(_) | None => {
                    if read.len() >= READ_MAX {
                        read.clear();
                    }
                    let agent_entry = Arc::new(AgentEntry::from_agent(agent));
                    read.insert(name.to_owned(), (agent.clone(), agent_entry.clone()));
                    agent_entry
                }
            };
            entries.insert(name.to_owned(), agent_entry);
        }
        Self { entries, ..Self::default() }
    }

    /// Adds which of them have live workers; workers that are draining take nothing new and do not count.
    ///
    /// An agent type that is served without being registered counts as known: nothing is said of its actions.
    #[must_use]
    pub fn with_workers(mut self, workers: &[WorkerBeat]) -> Self {
        self.knows_workers = true;
        for worker in workers.iter().filter(|worker| !worker.draining) {
            for agent in &worker.agents {
                if !self.entries.contains_key(agent.as_str()) {
                    self.insert(agent.as_str(), AgentEntry::unknown());
                }
                let slots = self.slots.entry(agent.as_str().to_owned()).or_default();
                *slots = slots.saturating_add(worker.slots);
            }
        }
        self
    }

    /// Adds who knows how long actions took of late.
    #[must_use]
    pub fn with_durations(mut self, durations: impl Durations + 'static) -> Self {
        self.durations = Some(Box::new(durations));
        self
    }

    /// How long an action of an agent type took of late, if it ran often enough.
    pub(super) fn measured(&self, agent_type: &AgentType, action: &str) -> Option<Measured> {
        self.durations.as_ref()?.measured(agent_type, action)
    }

    /// Adds or replaces one agent type.
    pub fn insert(&mut self, agent_type: impl Into<String>, agent_entry: AgentEntry) {
        self.entries.insert(agent_type.into(), Arc::new(agent_entry));
    }

    /// Whether it is known which workers live.
    pub(super) fn knows_workers(&self) -> bool {
        self.knows_workers
    }

    /// Slots of the live workers of an agent type.
    pub(super) fn slots(&self, agent_type: &str) -> u32 {
        self.slots.get(agent_type).copied().unwrap_or(0)
    }

    pub fn agent(&self, agent_type: &str) -> Option<&AgentEntry> {
        self.entries.get(agent_type).map(AsRef::as_ref)
    }

    pub fn agents(&self) -> impl Iterator<Item = (&str, &AgentEntry)> {
        self.entries.iter().map(|(name, agent_entry)| (name.as_str(), agent_entry.as_ref()))
    }

    /// Every action with the agent type that offers it, in the order of their names.
    pub fn action_entries(&self) -> impl Iterator<Item = (&str, &str, &ActionEntry)> {
        self.agents().flat_map(|(agent, agent_entry)| {
            agent_entry.actions.iter().map(move |(name, action_entry)| (agent, name.as_str(), action_entry))
        })
    }

    /// The action as one agent type offers it, or, when the router is to choose the type, as all that offer it do.
    pub fn find<'c>(&'c self, agent_type: &str, action: &str) -> Vec<&'c ActionEntry> {
        match self.entries.get(agent_type) {
            Some(agent_entry) => agent_entry.actions.get(action).into_iter().collect(),
            None if !AgentType::from(agent_type).is_open() => Vec::new(),
            None => self.agents().filter_map(|(_, agent_entry)| agent_entry.actions.get(action)).collect(),
        }
    }

    /// Whether an action may get an input of this name. Without an action every action of the agent type counts.
    pub fn takes_input(&self, agent_type: &str, action: &str, name: &str) -> bool {
        let mut found = self.find(agent_type, action);
        if action.is_empty() {
            found = self.agent(agent_type).into_iter().flat_map(|agent| agent.actions.values()).collect();
        }
        found.into_iter().filter_map(|entry| entry.inputs.as_ref()).all(|schema| {
            schema.get("additionalProperties") != Some(&Value::Bool(false))
                || schema.get("properties").is_some_and(|fields| fields.get(name).is_some())
        })
    }

    /// Whether somebody takes any action at all, as agents do that declare none.
    pub(super) fn is_open(&self) -> bool {
        self.entries.values().any(|agent_entry| agent_entry.actions.is_empty())
    }

    /// Up to three names of actions that look like `action`, best first; of one agent type when it is known.
    pub(super) fn near_actions(&self, agent_type: &str, action: &str) -> Vec<&str> {
        match self.entries.get(agent_type) {
            Some(agent_entry) => nearest(action, agent_entry.actions.keys().map(String::as_str)),
            None => nearest(action, self.action_entries().map(|(_, name, _)| name)),
        }
    }

    /// Up to three names of agent types that look like `agent_type`, best first.
    pub(super) fn near_agents(&self, agent_type: &str) -> Vec<&str> {
        nearest(agent_type, self.entries.keys().map(String::as_str))
    }
}

impl AgentEntry {
    /// What the card says of an action.
    pub fn offer(&self, action: &str) -> ActionOffer {
        ActionOffer::new(self.actions.is_empty(), self.actions.contains_key(action))
    }

    fn from_agent(agent: &Agent) -> Self {
        let schema = |json: &Option<Json>| json.as_ref().map(Json::value).filter(|v| v.is_object() || v.is_boolean());
        let action_entry = |action: &goalmill_common::agent::Action| ActionEntry {
            inputs: schema(&action.inputs),
            outputs: schema(&action.outputs),
            ..ActionEntry::default()
        };
        Self {
            actions: agent.actions.iter().map(|action| (action.name.clone(), action_entry(action))).collect(),
            cost: agent.cost,
            latency_ms: agent.latency_ms,
            success_rate: agent.success_rate,
        }
    }

    fn unknown() -> Self {
        Self { success_rate: 1.0, ..Self::default() }
    }
}
