//! Agent types, and the processes that are alive.

use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::{AgentType, WorkerId};

use crate::Broadcast;

use super::deadlines::Expiring;
use super::memory_store::{DAY_MS, MemoryStore, StoredQueue};
use super::stream::Id;

impl MemoryStore {
    pub(super) fn register(&mut self, agent: &Agent) {
        self.agents.insert(agent.agent_type.clone(), agent.clone());
        self.signals.publish(&Broadcast::AgentsChanged(agent.agent_type.clone()));
    }

    pub(super) fn agents(&self) -> Vec<Agent> {
        self.agents.values().cloned().collect()
    }

    pub(super) fn remove_agent_type(&mut self, agent_type: &AgentType, unused_ms: u64, now: u64) -> bool {
        let is_used = |queue: &StoredQueue| {
            let waiting = queue.tasks.count_after(queue.group.delivered());
            let counts = [waiting, queue.group.pending_count(), queue.dead.count_after(Id::default())];
            counts.iter().any(|count| *count > 0) || queue.tasks.last_ms() > now.saturating_sub(unused_ms)
        };
        if self.agents.get(agent_type).is_some_and(|agent| !agent.is_bare())
            || self.queues.get(agent_type).is_some_and(is_used)
        {
            return false;
        }
        let (queue, agent) = (self.queues.remove(agent_type), self.agents.remove(agent_type));
        queue.is_some() || agent.is_some()
    }

    pub(super) fn record_worker_heartbeat(&mut self, beat: &WorkerBeat, now: u64) {
        self.workers.insert(beat.worker.clone(), WorkerBeat { seen_ms: now, ..beat.clone() });
        self.deadlines.set(Expiring::Worker(beat.worker.clone()), now + DAY_MS);
    }

    pub(super) fn deregister_worker(&mut self, worker: &WorkerId) {
        self.workers.remove(worker);
        self.deadlines.clear(&Expiring::Worker(worker.clone()));
        self.draining.remove(worker);
        self.deadlines.clear(&Expiring::Drain(worker.clone()));
    }

    pub(super) fn request_drain(&mut self, worker: &WorkerId, now: u64) {
        self.draining.insert(worker.clone());
        self.deadlines.set(Expiring::Drain(worker.clone()), now + DAY_MS);
    }

    pub(super) fn drain_requested(&self, worker: &WorkerId) -> bool {
        self.draining.contains(worker)
    }

    pub(super) fn workers(&self, within_ms: u64, now: u64) -> Vec<WorkerBeat> {
        self.workers.values().filter(|beat| beat.is_live(within_ms, now)).cloned().collect()
    }

    pub(super) fn record_scheduler_heartbeat(&mut self, id: &str, now: u64) {
        self.schedulers.insert(id.into(), now);
        self.deadlines.set(Expiring::Scheduler(id.into()), now + DAY_MS);
    }

    pub(super) fn schedulers(&self, within_ms: u64, now: u64) -> Vec<String> {
        let since = now.saturating_sub(within_ms);
        self.schedulers.iter().filter(|(_, seen_ms)| **seen_ms >= since).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn deregister_scheduler(&mut self, id: &str) {
        self.schedulers.remove(id);
        self.deadlines.clear(&Expiring::Scheduler(id.into()));
    }
}
