//! Records of the journal file: each write with its arguments, and how it is replayed.

use std::borrow::Cow;

use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::{AgentType, AttemptToken, EntryId, PlanId, ShardId, WorkerId};
use goalmill_common::wire::InboxStream;
use serde::{Deserialize, Serialize};

use super::memory_store::{MemoryStore, as_json};
use super::stream::Id;
use crate::{Claim, Commit, DeadLetter, Install, KeptEvent};

/// One write. New kinds go to the end: the file tells them by their number.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Write<'a> {
    /// Everything so far; only the first record of a compacted file.
    Snapshot(Box<MemoryStore>),
    Install(Cow<'a, Install>),
    Acquire(ShardId, Cow<'a, Claim>),
    Renew(ShardId, Cow<'a, str>),
    Release(ShardId, Cow<'a, str>),
    Commit(Cow<'a, Commit>),
    SweepIndex(ShardId, u64),
    Submit(Cow<'a, [(String, Vec<u8>)]>),
    TakeSubmissions(WorkerId, usize),
    ReclaimSubmissions(Cow<'a, str>, u64, usize),
    AcknowledgeSubmissions(Cow<'a, [EntryId]>),
    Answer(Cow<'a, [(String, String)]>),
    Send(ShardId, Cow<'a, [(String, Vec<u8>)]>),
    OpenQueue(AgentType),
    Pull(WorkerId, Cow<'a, [AgentType]>, usize),
    Extend(WorkerId, Cow<'a, [(AgentType, EntryId)]>),
    Reclaim(AgentType, u64, usize),
    Trim(AgentType),
    Cancel(Cow<'a, [AttemptToken]>),
    Register(#[serde(with = "as_json")] Box<Agent>),
    RecordWorkerHeartbeat(#[serde(with = "as_json")] Box<WorkerBeat>),
    DeregisterWorker(WorkerId),
    RecordSchedulerHeartbeat(Cow<'a, str>),
    DeregisterScheduler(Cow<'a, str>),
    DeadLetter(Cow<'a, DeadLetter>),
    PutBlob(Cow<'a, str>, Cow<'a, [u8]>, u64),
    RetakeSubmissions(WorkerId, Id, usize),
    PauseQueue(AgentType, bool),
    RequestDrain(WorkerId),
    DiscardDeadLetter(AgentType, EntryId),
    DiscardTasks(AgentType, Cow<'a, [EntryId]>),
    EndFormerProcesses,
    RemoveAgentType(AgentType, u64),
    RemoveBlob(Cow<'a, str>),
    PutField(Cow<'a, str>, Cow<'a, str>, Cow<'a, str>),
    RemoveField(Cow<'a, str>, Cow<'a, str>),
    ExpirePlans(Cow<'a, [(PlanId, u64)]>),
    SendRequest(ShardId, Cow<'a, [(String, Vec<u8>)]>),
    KeepEvent(Cow<'a, KeptEvent>),
}

impl Write<'_> {
    /// Does the write again; what it answered then, it answers again.
    pub(super) fn replay(self, store: &mut MemoryStore, now: u64) {
        store.expire(now);
        match self {
            Self::Snapshot(snapshot) => *store = *snapshot,
            Self::Install(install) => drop(store.install(&install)),
            Self::Acquire(shard, claim) => drop(store.acquire(shard, &claim)),
            Self::Renew(shard, token) => drop(store.renew(shard, &token)),
            Self::Release(shard, token) => store.release(shard, &token),
            Self::Commit(commit) => drop(store.commit(&commit, now)),
            Self::SweepIndex(shard, before_ms) => drop(store.sweep_index(shard, before_ms)),
            Self::Submit(fields) => drop(store.submit(&fields.into_owned(), now)),
            Self::TakeSubmissions(consumer, count) => drop(store.take_submissions(&consumer, count, now)),
            Self::ReclaimSubmissions(consumer, idle_ms, limit) => {
                drop(store.reclaim_submissions(&consumer, idle_ms, limit, now));
            }
            Self::AcknowledgeSubmissions(ids) => store.acknowledge_submissions(&ids),
            Self::Answer(answers) => store.answer(&answers, now),
            Self::Send(shard, fields) => store.send(shard, InboxStream::Reports, &fields.into_owned(), now),
            Self::SendRequest(shard, fields) => store.send(shard, InboxStream::Requests, &fields.into_owned(), now),
            Self::OpenQueue(agent_type) => store.open_queue(&agent_type),
            Self::Pull(worker, agent_types, count) => drop(store.pull(&worker, &agent_types, count, now)),
            Self::Extend(worker, leases) => drop(store.extend(&worker, &leases, now)),
            Self::Reclaim(agent_type, idle_ms, limit) => drop(store.reclaim(&agent_type, idle_ms, limit, now)),
            Self::Trim(agent_type) => store.trim(&agent_type),
            Self::Cancel(tokens) => store.cancel(&tokens, now),
            Self::Register(agent) => store.register(&agent),
            Self::RecordWorkerHeartbeat(beat) => store.record_worker_heartbeat(&beat, now),
            Self::DeregisterWorker(worker) => store.deregister_worker(&worker),
            Self::RecordSchedulerHeartbeat(id) => store.record_scheduler_heartbeat(&id, now),
            Self::DeregisterScheduler(id) => store.deregister_scheduler(&id),
            Self::DeadLetter(letter) => store.add_dead_letter(&letter, now),
            Self::RetakeSubmissions(consumer, after, count) => {
                drop(store.retake_submissions(&consumer, after, count, now));
            }
            Self::PauseQueue(agent_type, paused) => store.pause_queue(&agent_type, paused),
            Self::RequestDrain(worker) => store.request_drain(&worker, now),
            Self::DiscardDeadLetter(agent_type, entry) => drop(store.discard_dead_letter(&agent_type, &entry)),
            Self::DiscardTasks(agent_type, entries) => drop(store.discard_tasks(&agent_type, &entries)),
            Self::RemoveAgentType(agent_type, unused_ms) => drop(store.remove_agent_type(&agent_type, unused_ms, now)),
            Self::ExpirePlans(plans) => store.expire_plans(&plans, now),
            Self::EndFormerProcesses => store.end_former_processes(),
            Self::RemoveBlob(key) => store.remove_blob(&key),
            Self::PutField(key, field, value) => store.put_field(&key, &field, &value),
            Self::RemoveField(key, field) => drop(store.remove_field(&key, &field)),
            Self::KeepEvent(event) => drop(store.keep_event(&event, now)),
            Self::PutBlob(key, bytes, ttl_ms) => store.put_blob(&key, &bytes, ttl_ms, now),
        }
    }
}
