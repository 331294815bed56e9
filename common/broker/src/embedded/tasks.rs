//! Queues of tasks, cancelled attempts, and dead letters.

use std::collections::BTreeSet;

use goalmill_common::id::{AgentType, AttemptToken, EntryId, WorkerId};

use crate::verbs::CANCELLED_MS;
use crate::{Broadcast, DeadLetter, Delivery, QueueState};

use super::deadlines::Expiring;
use super::memory_store::MemoryStore;
use super::stream::{Id, Stream};

/// Dead letters kept of an agent type.
const DEAD_LETTERS_MAX: usize = 10_000;

/// The consumer that holds tasks of lost workers.
const REAPER: &str = "reaper";

impl MemoryStore {
    pub(super) fn open_queue(&mut self, agent_type: &AgentType) {
        self.queues.entry(agent_type.clone()).or_default().exists = true;
    }

    pub(super) fn queue_exists(&self, agent_type: &AgentType) -> bool {
        self.queues.get(agent_type).is_some_and(|queue| queue.exists)
    }

    /// Takes tasks of the first agent type, then of the next.
    pub(super) fn pull(
        &mut self,
        worker: &WorkerId,
        agent_types: &[AgentType],
        count: usize,
        now: u64,
    ) -> Vec<Delivery> {
        let mut taken = Vec::new();
        for agent_type in agent_types {
            let queue = self.queues.entry(agent_type.clone()).or_default();
            queue.exists = true;
            while taken.len() < count
                && let Some((id, data)) = queue.tasks.after(queue.group.delivered()).next()
            {
                let (id, data) = (*id, data.clone());
                queue.group.deliver(id, worker, now);
                taken.push(Delivery { agent_type: agent_type.clone(), entry: id.write(), data });
            }
        }
        taken
    }

    pub(super) fn extend(&mut self, worker: &WorkerId, leases: &[(AgentType, EntryId)], now: u64) -> Vec<bool> {
        let mut extend = |agent_type, entry| {
            self.queues.get_mut(agent_type).is_some_and(|queue| queue.group.extend(Id::parse(entry), worker, now))
        };
        leases.iter().map(|(agent_type, entry)| extend(agent_type, entry)).collect()
    }

    pub(super) fn reclaim(&mut self, agent_type: &AgentType, idle_ms: u64, limit: usize, now: u64) -> Vec<Delivery> {
        let Some(queue) = self.queues.get_mut(agent_type) else { return Vec::new() };
        let ids = queue.group.reclaim(&REAPER.into(), idle_ms, limit, now);
        ids.into_iter().map(|id| queue.delivery(agent_type, id)).collect()
    }

    /// What lies on a task stream after `after`.
    pub(super) fn tasks(&self, agent_type: &AgentType, after: &EntryId, limit: usize) -> Vec<Delivery> {
        let Some(queue) = self.queues.get(agent_type) else { return Vec::new() };
        queue.tasks.after(Id::parse(after)).take(limit).map(|(id, _)| queue.delivery(agent_type, *id)).collect()
    }

    /// Removes entries that no worker has taken.
    pub(super) fn discard_tasks(&mut self, agent_type: &AgentType, entries: &[EntryId]) -> u64 {
        let Some(queue) = self.queues.get_mut(agent_type) else { return 0 };
        let waiting = entries.iter().map(Id::parse).filter(|id| *id > queue.group.delivered());
        waiting.filter(|id| queue.tasks.remove(*id)).count() as u64
    }

    pub(super) fn trim(&mut self, agent_type: &AgentType) {
        if let Some(queue) = self.queues.get_mut(agent_type) {
            queue.group.trim(&mut queue.tasks);
        }
    }

    /// Of those agent types that were opened or registered.
    pub(super) fn queue_states(&self) -> Vec<QueueState> {
        let opened = self.queues.iter().filter(|(_, queue)| queue.exists).map(|(agent_type, _)| agent_type);
        let names: BTreeSet<&AgentType> = opened.chain(self.agents.keys()).collect();
        names.into_iter().map(|agent_type| self.queue_state(agent_type)).collect()
    }

    fn queue_state(&self, agent_type: &AgentType) -> QueueState {
        let agent_type = agent_type.clone();
        match self.queues.get(&agent_type) {
            Some(queue) => QueueState {
                agent_type,
                waiting: queue.tasks.count_after(queue.group.delivered()) as u64,
                pending: queue.group.pending_count() as u64,
                dead_letters: queue.dead.count_after(Id::default()) as u64,
                wrong_type: None,
            },
            None => QueueState { agent_type, waiting: 0, pending: 0, dead_letters: 0, wrong_type: None },
        }
    }

    pub(super) fn pause_queue(&mut self, agent_type: &AgentType, paused: bool) {
        if paused {
            self.paused.insert(agent_type.clone());
        } else {
            self.paused.remove(agent_type);
        }
    }

    pub(super) fn paused_queues(&self) -> BTreeSet<AgentType> {
        self.paused.clone()
    }

    pub(super) fn cancel(&mut self, tokens: &[AttemptToken], now: u64) {
        if tokens.is_empty() {
            return;
        }
        for token in tokens {
            self.cancelled.insert(token.clone(), now);
            self.deadlines.set(Expiring::Cancelled(token.clone()), now + CANCELLED_MS);
        }
        self.signals.publish(&Broadcast::Cancel(tokens.to_vec()));
    }

    /// In the order of their cancellation.
    pub(super) fn cancelled(&self) -> Vec<AttemptToken> {
        let mut tokens: Vec<(u64, &AttemptToken)> =
            self.cancelled.iter().map(|(token, at_ms)| (*at_ms, token)).collect();
        tokens.sort_unstable();
        tokens.into_iter().map(|(_, token)| token.clone()).collect()
    }

    pub(super) fn add_dead_letter(&mut self, letter: &DeadLetter, now: u64) {
        let dead = &mut self.queues.entry(letter.agent_type.clone()).or_default().dead;
        dead.append(now, letter.clone());
        dead.keep_newest(DEAD_LETTERS_MAX);
    }

    pub(super) fn dead_letters(&self, agent_type: &AgentType, limit: usize) -> Vec<(EntryId, DeadLetter)> {
        let dead = self.queues.get(agent_type).map(|queue| &queue.dead);
        let newest = dead.into_iter().flat_map(Stream::newest).take(limit);
        newest.map(|(id, letter)| (id.write(), letter.clone())).collect()
    }

    pub(super) fn discard_dead_letter(&mut self, agent_type: &AgentType, entry: &EntryId) -> bool {
        self.queues.get_mut(agent_type).is_some_and(|queue| queue.dead.remove(Id::parse(entry)))
    }
}
