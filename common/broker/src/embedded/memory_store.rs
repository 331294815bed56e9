//! The state of the back end, and the effect of verbs on shards, plans and inboxes.
//!
//! The time is an argument and nothing here waits, so the same calls always give the same state: replaying the journal
//! file restores it.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::{AgentType, AttemptToken, EntryId, PlanId, ShardId, WorkerId};
use goalmill_common::wire::{Fields, InboxStream};
use serde::{Deserialize, Serialize};

use super::deadlines::{Deadlines, Expiring};
use super::signals::{Topic, TopicSignals};
use super::stream::{ConsumerGroup, Id, Stream};
use crate::inbox::sort_by_time;
use crate::{Claim, Commit, DeadLetter, Delivery, InboxCursor, InboxEntry, Install, LogEntry, Meta, Ownership};

pub(super) const DAY_MS: u64 = 24 * 3_600_000;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct MemoryStore {
    pub(super) meta: Option<Meta>,
    pub(super) shards: BTreeMap<ShardId, Shard>,
    pub(super) plans: BTreeMap<PlanId, StoredPlan>,
    pub(super) queues: BTreeMap<AgentType, StoredQueue>,
    pub(super) deadlines: Deadlines,
    pub(super) submissions: Stream<Fields>,
    pub(super) schedulers_group: ConsumerGroup,
    pub(super) answers: BTreeMap<String, String>,
    pub(super) cancelled: BTreeMap<AttemptToken, u64>,
    #[serde(with = "as_json")]
    pub(super) agents: BTreeMap<AgentType, Agent>,
    #[serde(with = "as_json")]
    pub(super) workers: BTreeMap<WorkerId, WorkerBeat>,
    pub(super) schedulers: BTreeMap<String, u64>,
    pub(super) blobs: BTreeMap<String, Vec<u8>>,
    pub(super) paused: BTreeSet<AgentType>,
    /// Workers that are asked to drain.
    pub(super) draining: BTreeSet<WorkerId>,
    #[serde(skip)]
    pub(super) signals: TopicSignals,
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
    pub(super) dead: Stream<DeadLetter>,
}

impl StoredQueue {
    pub(super) fn delivery(&self, agent_type: &AgentType, id: Id) -> Delivery {
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
            limits: install.limits,
        };
        let meta = self.meta.get_or_insert_with(make);
        meta.limits = install.limits;
        meta.clone()
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
}

/// Stores a value as JSON: its type leaves fields out, which only a format with names can read.
pub(super) mod as_json {
    use serde::de::DeserializeOwned;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in super::super) fn serialize<T: Serialize, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        serde_json::to_string(value).map_err(serde::ser::Error::custom)?.serialize(to)
    }

    pub(in super::super) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        serde_json::from_str(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}
