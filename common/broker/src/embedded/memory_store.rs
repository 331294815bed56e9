//! The state of the back end, and the effect of each verb on it.
//!
//! The time is an argument and nothing here waits, so the same calls always give the same state: replaying the journal
//! file restores it.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::{AgentType, AttemptToken, EntryId, Namespace, PlanId, ShardId, WorkerId};
use goalmill_common::wire::{Fields, InboxStream};
use serde::{Deserialize, Serialize};

use super::deadlines::{Deadlines, Expiring};
use super::signals::{Signals, Topic};
use super::stream::{ConsumerGroup, Id, Stream};
use crate::inbox::sort_by_time;
use crate::verbs::CANCELLED_MS;
use crate::{
    Broadcast, Claim, Commit, DeadLetter, Delivery, Entry, InboxCursor, InboxEntry, Install, KeptEvent, LogEntry, Meta,
    Ownership, QueueState,
};

const DAY_MS: u64 = 24 * 3_600_000;
/// Dead letters kept of an agent type.
const DEAD_LETTERS_MAX: usize = 10_000;
/// The consumer that holds tasks of lost workers.
const REAPER: &str = "reaper";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct MemoryStore {
    pub(super) meta: Option<Meta>,
    pub(super) shards: BTreeMap<ShardId, Shard>,
    pub(super) plans: BTreeMap<PlanId, StoredPlan>,
    pub(super) queues: BTreeMap<AgentType, StoredQueue>,
    pub(super) deadlines: Deadlines,
    submissions: Stream<Fields>,
    schedulers_group: ConsumerGroup,
    answers: BTreeMap<String, String>,
    cancelled: BTreeMap<AttemptToken, u64>,
    #[serde(with = "super::record::as_json")]
    agents: BTreeMap<AgentType, Agent>,
    #[serde(with = "super::record::as_json")]
    workers: BTreeMap<WorkerId, WorkerBeat>,
    schedulers: BTreeMap<String, u64>,
    blobs: BTreeMap<String, Vec<u8>>,
    paused: BTreeSet<AgentType>,
    /// Workers that are asked to drain.
    draining: BTreeSet<WorkerId>,
    #[serde(skip)]
    pub(super) signals: Signals,
}

/// What belongs to one shard.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Shard {
    pub(super) owner: Option<Ownership>,
    /// Number of the owner's last commit.
    pub(super) number: u64,
    pub(super) cursors: BTreeMap<InboxStream, EntryId>,
    pub(super) active: BTreeSet<PlanId>,
    pub(super) index: PlanIndex,
    pub(super) inbox: BTreeMap<InboxStream, Stream<Fields>>,
}

impl Shard {
    pub(super) fn cursor(&self) -> InboxCursor {
        let place = |stream| self.cursors.get(&stream).cloned().unwrap_or_else(EntryId::start);
        InboxCursor { reports: place(InboxStream::Reports), requests: place(InboxStream::Requests) }
    }

    /// Stores what a commit handled; a full check drops it from the streams.
    pub(super) fn move_cursors(&mut self, commit: &Commit) {
        let moves = [(InboxStream::Reports, &commit.cursor), (InboxStream::Requests, &commit.requests_cursor)];
        for (stream, id) in moves.into_iter().filter_map(|(stream, id)| Some((stream, id.clone()?))) {
            self.cursors.insert(stream, id);
        }
        if commit.full_check {
            for (stream, id) in &self.cursors {
                self.inbox.entry(*stream).or_default().drop_through(Id::parse(id));
            }
        }
    }
}

/// Plans by the time of their last change.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct PlanIndex {
    by_plan: BTreeMap<PlanId, u64>,
    by_time: BTreeSet<(u64, PlanId)>,
}

impl PlanIndex {
    pub(super) fn set(&mut self, plan: &PlanId, at_ms: u64) {
        self.remove(plan);
        self.by_plan.insert(plan.clone(), at_ms);
        self.by_time.insert((at_ms, plan.clone()));
    }

    fn remove(&mut self, plan: &PlanId) {
        if let Some(old_ms) = self.by_plan.remove(plan) {
            self.by_time.remove(&(old_ms, plan.clone()));
        }
    }

    /// Newest first.
    fn before(&self, before_ms: u64) -> impl Iterator<Item = (&PlanId, u64)> {
        let end = (before_ms, PlanId::from(""));
        self.by_time.range(..end).rev().map(|(at_ms, plan)| (plan, *at_ms))
    }

    /// Oldest first.
    fn since(&self, from_ms: u64) -> impl Iterator<Item = (&PlanId, u64)> {
        let begin = (from_ms, PlanId::from(""));
        self.by_time.range(begin..).map(|(at_ms, plan)| (plan, *at_ms))
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct StoredPlan {
    pub(super) summary: BTreeMap<String, String>,
    pub(super) log: Vec<LogEntry>,
}

impl StoredPlan {
    pub(super) fn last_seq(&self) -> u64 {
        self.log.last().map_or(0, |entry| entry.last_seq)
    }
}

/// The task stream of an agent type, its group, and its dead letters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct StoredQueue {
    /// Whether it was opened; tasks and dead letters alone open none.
    pub(super) exists: bool,
    pub(super) tasks: Stream<Vec<u8>>,
    pub(super) group: ConsumerGroup,
    dead: Stream<DeadLetter>,
}

impl StoredQueue {
    fn delivery(&self, agent_type: &AgentType, id: Id) -> Delivery {
        let data = self.tasks.get(id).cloned().unwrap_or_default();
        Delivery { agent_type: agent_type.clone(), entry: id.write(), data }
    }
}

impl MemoryStore {
    /// Drops what has expired.
    pub(super) fn expire(&mut self, now: u64) {
        while let Some(thing) = self.deadlines.take_due(now) {
            match thing {
                Expiring::Plan(plan) => drop(self.plans.remove(&plan)),
                Expiring::Answer(id) => drop(self.answers.remove(&id)),
                Expiring::Blob(key) => drop(self.blobs.remove(&key)),
                Expiring::Cancelled(token) => drop(self.cancelled.remove(&token)),
                Expiring::Worker(worker) => drop(self.workers.remove(&worker)),
                Expiring::Scheduler(id) => drop(self.schedulers.remove(&id)),
                Expiring::Drain(worker) => drop(self.draining.remove(&worker)),
            }
        }
    }

    pub(super) fn install(&mut self, install: &Install) -> Meta {
        let make = || Meta {
            instance: install.instance.clone(),
            protocol: goalmill_common::wire::PROTOCOL.into(),
            shards: install.shards,
        };
        self.meta.get_or_insert_with(make).clone()
    }

    /// Ends what belongs to processes that had the store before: their leases, and their heartbeats. Shards keep the
    /// tokens of their owners and have no holder.
    pub(super) fn end_former_processes(&mut self) {
        for owner in self.shards.values_mut().filter_map(|shard| shard.owner.as_mut()) {
            owner.holder.clear();
        }
        self.queues.values_mut().for_each(|queue| queue.group.end_leases());
        self.schedulers_group.end_leases();
        for worker in std::mem::take(&mut self.workers).into_keys() {
            self.deadlines.clear(&Expiring::Worker(worker));
        }
        for id in std::mem::take(&mut self.schedulers).into_keys() {
            self.deadlines.clear(&Expiring::Scheduler(id));
        }
    }

    // --- ownership --------------------------------------------------------------------------------

    pub(super) fn acquire(&mut self, shard: ShardId, claim: &Claim) -> bool {
        let shard = self.shards.entry(shard).or_default();
        if shard.owner.as_ref().is_some_and(|owner| owner.token == claim.token) {
            return true;
        }
        let sign = |owner: &Ownership| (owner.token.clone(), owner.beat);
        if shard.owner.as_ref().map(sign) != claim.seen.as_ref().map(sign) {
            return false;
        }
        let (token, holder) = (claim.token.clone(), claim.holder.clone());
        shard.owner = Some(Ownership { token, holder, beat: 0 });
        shard.number = 0;
        true
    }

    pub(super) fn renew(&mut self, shard: ShardId, token: &str) -> bool {
        match self.shards.get_mut(&shard).and_then(|shard| shard.owner.as_mut()) {
            Some(owner) if owner.token == token => {
                owner.beat += 1;
                true
            }
            Some(_) | None => false,
        }
    }

    pub(super) fn release(&mut self, shard: ShardId, token: &str) {
        if let Some(shard) = self.shards.get_mut(&shard)
            && shard.owner.as_ref().is_some_and(|owner| owner.token == token)
        {
            shard.owner = None;
        }
    }

    // --- the journal ------------------------------------------------------------------------------

    pub(super) fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Vec<LogEntry> {
        let Some(plan) = self.plans.get(plan) else { return Vec::new() };
        let from = plan.log.partition_point(|entry| entry.last_seq <= after_seq);
        plan.log.iter().skip(from).take(limit).cloned().collect()
    }

    pub(super) fn plans(&self, shard: ShardId, before_ms: u64, limit: usize) -> Vec<(PlanId, u64)> {
        let index = self.shards.get(&shard).map(|shard| &shard.index);
        let plans = index.into_iter().flat_map(|index| index.before(before_ms));
        plans.take(limit).map(|(plan, at_ms)| (plan.clone(), at_ms)).collect()
    }

    pub(super) fn plans_since(&self, shard: ShardId, from_ms: u64, limit: usize) -> Vec<(PlanId, u64)> {
        let index = self.shards.get(&shard).map(|shard| &shard.index);
        let plans = index.into_iter().flat_map(|index| index.since(from_ms));
        plans.take(limit).map(|(plan, at_ms)| (plan.clone(), at_ms)).collect()
    }

    pub(super) fn expire_plans(&mut self, plans: &[(PlanId, u64)], now: u64) {
        for (plan, after_ms) in plans.iter().filter(|(plan, _)| self.plans.contains_key(plan)) {
            self.deadlines.set(Expiring::Plan(plan.clone()), now.saturating_add(*after_ms));
        }
    }

    pub(super) fn sweep_index(&mut self, shard: ShardId, before_ms: u64) -> u64 {
        let Some(shard) = self.shards.get_mut(&shard) else { return 0 };
        let old = shard.index.before(before_ms).map(|(plan, _)| plan);
        let expired: Vec<PlanId> = old.filter(|plan| !self.plans.contains_key(*plan)).cloned().collect();
        for plan in &expired {
            shard.index.remove(plan);
        }
        expired.len() as u64
    }

    // --- submissions ------------------------------------------------------------------------------

    pub(super) fn submit(&mut self, fields: &Fields, now: u64) -> EntryId {
        let id = self.submissions.append(now, fields.clone());
        self.signals.ring(&Topic::Submissions);
        id.write()
    }

    pub(super) fn take_submissions(&mut self, consumer: &WorkerId, count: usize, now: u64) -> Vec<Entry> {
        let new = self.submissions.after(self.schedulers_group.delivered()).take(count);
        let taken: Vec<Id> = new.map(|(id, _)| *id).collect();
        for id in &taken {
            self.schedulers_group.deliver(*id, consumer, now);
        }
        self.submission_entries(taken)
    }

    /// What `consumer` took before and has not acknowledged; it is fresh again then.
    pub(super) fn retake_submissions(&mut self, consumer: &WorkerId, after: Id, count: usize, now: u64) -> Vec<Entry> {
        let ids = self.schedulers_group.history(consumer, after, count);
        for id in &ids {
            self.schedulers_group.extend(*id, consumer, now);
        }
        self.submission_entries(ids)
    }

    pub(super) fn reclaim_submissions(&mut self, consumer: &str, idle_ms: u64, limit: usize, now: u64) -> Vec<Entry> {
        let ids = self.schedulers_group.reclaim(&consumer.into(), idle_ms, limit, now);
        self.submission_entries(ids)
    }

    pub(super) fn acknowledge_submissions(&mut self, ids: &[EntryId]) {
        for id in ids {
            self.schedulers_group.acknowledge(Id::parse(id));
        }
        self.schedulers_group.trim(&mut self.submissions);
    }

    fn submission_entries(&self, ids: Vec<Id>) -> Vec<Entry> {
        let entry = |id: Id| Entry { id: id.write(), fields: self.submissions.get(id).cloned().unwrap_or_default() };
        ids.into_iter().map(entry).collect()
    }

    pub(super) fn answer(&mut self, answers: &[(String, String)], now: u64) {
        for (id, answer) in answers {
            self.answers.insert(id.clone(), answer.clone());
            self.deadlines.set(Expiring::Answer(id.clone()), now + DAY_MS);
        }
    }

    pub(super) fn answers(&self, ids: &[String]) -> Vec<Option<String>> {
        ids.iter().map(|id| self.answers.get(id).cloned()).collect()
    }

    // --- inboxes ----------------------------------------------------------------------------------

    pub(super) fn send(&mut self, shard: ShardId, stream: InboxStream, fields: &Fields, now: u64) {
        let inbox = &mut self.shards.entry(shard).or_default().inbox;
        inbox.entry(stream).or_default().append(now, fields.clone());
        self.signals.ring(&Topic::Inbox(shard));
    }

    pub(super) fn inbox(&self, shard: ShardId, after: &InboxCursor, count: usize) -> Vec<InboxEntry> {
        let mut entries = Vec::new();
        for (stream, after) in [(InboxStream::Reports, &after.reports), (InboxStream::Requests, &after.requests)] {
            let inbox = self.shards.get(&shard).and_then(|shard| shard.inbox.get(&stream));
            let found = inbox.into_iter().flat_map(|inbox| inbox.after(Id::parse(after))).take(count);
            let entry = |(id, fields): &(Id, Fields)| InboxEntry { stream, id: id.write(), fields: fields.clone() };
            entries.extend(found.map(entry));
        }
        sort_by_time(&mut entries);
        entries
    }

    // --- tasks ------------------------------------------------------------------------------------

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

    // --- cancellation -----------------------------------------------------------------------------

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

    // --- registry ---------------------------------------------------------------------------------

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

    // --- dead letters and blobs -------------------------------------------------------------------

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

    pub(super) fn put_blob(&mut self, key: &str, bytes: &[u8], ttl_ms: u64, now: u64) {
        self.blobs.insert(key.into(), bytes.into());
        self.deadlines.set(Expiring::Blob(key.into()), now.saturating_add(ttl_ms));
    }

    pub(super) fn blob(&self, key: &str) -> Option<Vec<u8>> {
        self.blobs.get(key).cloned()
    }

    pub(super) fn remove_blob(&mut self, key: &str) {
        self.blobs.remove(key);
        self.deadlines.clear(&Expiring::Blob(key.into()));
    }

    pub(super) fn keep_event(&mut self, event: &KeptEvent, now: u64) -> bool {
        let KeptEvent { namespace, topic, id, text, retention_ms, most } = event;
        let key = [&kept_key(namespace, topic), id.as_str()].concat();
        if self.blobs.contains_key(&key) {
            return true;
        }
        if self.kept_of(namespace).take(*most).count() == *most {
            return false;
        }
        // They are sorted by the time at which they came.
        self.put_blob(&key, format!("{now:020}{text}").as_bytes(), *retention_ms, now);
        true
    }

    /// The kept events of all topics of a namespace, by their keys.
    pub(super) fn kept_of(&self, namespace: &Namespace) -> impl Iterator<Item = &String> {
        let all = namespace_key(namespace);
        self.blobs.range(all.clone()..).map(|(key, _)| key).take_while(move |key| key.starts_with(&all))
    }

    pub(super) fn kept_events(&self, namespace: &Namespace, topic: &str) -> Vec<String> {
        let start = kept_key(namespace, topic);
        let blobs = self.blobs.range(start.clone()..).take_while(|(key, _)| key.starts_with(&start));
        let mut events: Vec<String> = blobs.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect();
        events.sort();
        events.into_iter().map(|event| event.chars().skip(20).collect()).collect()
    }

    pub(super) fn put_field(&mut self, key: &str, field: &str, value: &str) {
        self.blobs.insert(field_key(key, field), value.into());
    }

    pub(super) fn add_field(&mut self, key: &str, field: &str, value: &str) -> bool {
        let is_new = self.field(key, field).is_none();
        if is_new {
            self.put_field(key, field, value);
        }
        is_new
    }

    pub(super) fn field(&self, key: &str, field: &str) -> Option<String> {
        self.blobs.get(&field_key(key, field)).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    pub(super) fn fields(&self, key: &str) -> BTreeMap<String, String> {
        let start = field_key(key, "");
        let fields = self.blobs.range(start.clone()..).map_while(|(name, value)| {
            let field = name.strip_prefix(&start)?;
            Some((field.to_owned(), String::from_utf8_lossy(value).into_owned()))
        });
        fields.collect()
    }

    pub(super) fn remove_field(&mut self, key: &str, field: &str) -> bool {
        self.blobs.remove(&field_key(key, field)).is_some()
    }
}

/// What the keys of the kept events of a topic begin with: they are blobs, so that the form of a snapshot stays the same.
fn kept_key(namespace: &Namespace, topic: &str) -> String {
    [&namespace_key(namespace), topic, "\0"].concat()
}

/// What the keys of the kept events of a namespace begin with. The separator keeps `red` apart from `reds`.
fn namespace_key(namespace: &Namespace) -> String {
    ["events\0", namespace.as_str(), "\0"].concat()
}

/// Fields are stored among the blobs, without a deadline, so that the form of a snapshot stays the same. No key has the
/// separator.
fn field_key(key: &str, field: &str) -> String {
    [key, "\0", field].concat()
}
