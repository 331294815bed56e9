//! Vectors of the embedding endpoint: fetched beforehand, kept for a time.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use goalmill_common::config::RouterSettings;

use crate::agent_index::quantize_remote;
use crate::agent_text::AgentText;
use crate::embedding_endpoint::{EmbedError, EmbeddingEndpoint};
use crate::ttl_cache::TtlCache;
use crate::{Router, read_lock};

/// Pause after a failed request to the embedding endpoint, in milliseconds.
const ENDPOINT_BACKOFF_MS: u64 = 30_000;

/// Limit of step texts that wait for a remote vector.
const PENDING_MAX: usize = 256;

/// Vectors of the embedding endpoint.
#[derive(Debug)]
pub(crate) struct RemoteState {
    steps: TtlCache<Arc<Vec<i16>>>,
    /// Vectors of the registered agents by text.
    agents: HashMap<String, Vec<i16>>,
    /// Texts of steps that were routed without a vector; it is fetched for later steps with the same text.
    pending: Vec<String>,
    retry_at_ms: u64,
}

impl RemoteState {
    pub(crate) fn new(settings: &RouterSettings) -> Self {
        Self {
            steps: TtlCache::new(settings.cache_ms, settings.cache_entries_max),
            agents: HashMap::new(),
            pending: Vec::new(),
            retry_at_ms: 0,
        }
    }
}

impl Router {
    /// Fetches vectors from the embedding endpoint: for the agents, for these texts, and for steps that were routed
    /// without a vector.
    ///
    /// Does nothing without an endpoint. If the endpoint fails, the other scorers decide.
    pub async fn prefetch(&self, texts: &[String]) {
        let Some(endpoint) = &self.endpoint else { return };
        let now = self.clock.now_ms();
        if self.remote().retry_at_ms > now {
            return;
        }
        let mut wanted = std::mem::take(&mut self.remote().pending);
        wanted.extend_from_slice(texts);
        if let Err(error) = self.fetch(endpoint, &wanted, now).await {
            tracing::warn!("the router works without remote vectors: {error}");
            self.remote().retry_at_ms = now + ENDPOINT_BACKOFF_MS;
        }
    }

    /// US dollars that embeddings by the endpoint have cost since the start.
    pub fn embedding_cost(&self) -> f64 {
        self.endpoint.as_ref().map_or(0.0, EmbeddingEndpoint::cost)
    }

    pub(crate) fn remote_step(&self, text: &str) -> Option<Arc<Vec<i16>>> {
        self.endpoint.as_ref()?;
        let mut remote = self.remote();
        let found = remote.steps.get(text, self.clock.now_ms());
        if found.is_none()
            && remote.pending.len() < PENDING_MAX
            && !remote.pending.iter().any(|pending| pending == text)
        {
            remote.pending.push(text.to_owned());
        }
        found
    }

    async fn fetch(&self, endpoint: &EmbeddingEndpoint, texts: &[String], now: u64) -> Result<(), EmbedError> {
        let registry = read_lock(&self.registry).clone();
        if !registry.index.remote.is_set() && !registry.agents.is_empty() {
            let agent_texts: Vec<String> =
                registry.agents.iter().map(|agent| AgentText::from_agent(agent).text()).collect();
            let missing: Vec<String> = {
                let remote = self.remote();
                agent_texts.iter().filter(|text| !remote.agents.contains_key(*text)).cloned().collect()
            };
            let vectors = endpoint.embed(&missing).await?;
            let mut remote = self.remote();
            remote.agents.extend(missing.into_iter().zip(vectors.into_iter().map(quantize_remote)));
            let vectors_by_agent: Vec<Vec<i16>> =
                agent_texts.iter().map(|text| remote.agents.get(text).cloned().unwrap_or_default()).collect();
            // Drops removed agents and old texts.
            remote.agents = agent_texts.into_iter().zip(vectors_by_agent.iter().cloned()).collect();
            registry.index.remote.set(vectors_by_agent);
        }
        let missing: Vec<String> = {
            let remote = self.remote();
            texts.iter().filter(|text| remote.steps.get(text, now).is_none()).cloned().collect()
        };
        let vectors = endpoint.embed(&missing).await?;
        let mut remote = self.remote();
        for (text, vector) in missing.into_iter().zip(vectors) {
            remote.steps.put(text, Arc::new(quantize_remote(vector)), now);
        }
        Ok(())
    }

    fn remote(&self) -> MutexGuard<'_, RemoteState> {
        self.remote.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
