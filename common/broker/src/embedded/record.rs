//! What the journal file keeps: each write with its arguments, and how it is done again.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::{AgentType, AttemptToken, EntryId, ShardId, WorkerId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::stream::Id;
use super::world::World;
use crate::{Claim, Commit, DeadLetter, Install};

/// One write. New kinds go to the end: the file tells them by their number.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Write<'a> {
    /// Everything so far; only the first record of a compacted file.
    Snapshot(Box<World>),
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
    BeatWorker(#[serde(with = "as_json")] Box<WorkerBeat>),
    ForgetWorker(WorkerId),
    BeatScheduler(Cow<'a, str>),
    ForgetScheduler(Cow<'a, str>),
    Bury(Cow<'a, DeadLetter>),
    PutBlob(Cow<'a, str>, Cow<'a, [u8]>, u64),
    RetakeSubmissions(WorkerId, Id, usize),
    PauseQueue(AgentType, bool),
    RequestDrain(WorkerId),
    DiscardDeadLetter(AgentType, EntryId),
    DiscardTasks(AgentType, Cow<'a, [EntryId]>),
    EndFormerProcesses,
    ForgetAgentType(AgentType, u64),
}

impl Write<'_> {
    /// Does the write again; what it answered then, it answers again.
    pub(super) fn replay(self, world: &mut World, now: u64) {
        world.expire(now);
        match self {
            Self::Snapshot(kept) => *world = *kept,
            Self::Install(install) => drop(world.install(&install)),
            Self::Acquire(shard, claim) => drop(world.acquire(shard, &claim)),
            Self::Renew(shard, token) => drop(world.renew(shard, &token)),
            Self::Release(shard, token) => world.release(shard, &token),
            Self::Commit(commit) => drop(world.commit(&commit, now)),
            Self::SweepIndex(shard, before_ms) => drop(world.sweep_index(shard, before_ms)),
            Self::Submit(fields) => drop(world.submit(&fields.into_owned(), now)),
            Self::TakeSubmissions(consumer, count) => drop(world.take_submissions(&consumer, count, now)),
            Self::ReclaimSubmissions(consumer, idle_ms, limit) => {
                drop(world.reclaim_submissions(&consumer, idle_ms, limit, now));
            }
            Self::AcknowledgeSubmissions(ids) => world.acknowledge_submissions(&ids),
            Self::Answer(answers) => world.answer(&answers, now),
            Self::Send(shard, fields) => world.send(shard, &fields.into_owned(), now),
            Self::OpenQueue(agent_type) => world.open_queue(&agent_type),
            Self::Pull(worker, agent_types, count) => drop(world.pull(&worker, &agent_types, count, now)),
            Self::Extend(worker, leases) => drop(world.extend(&worker, &leases, now)),
            Self::Reclaim(agent_type, idle_ms, limit) => drop(world.reclaim(&agent_type, idle_ms, limit, now)),
            Self::Trim(agent_type) => world.trim(&agent_type),
            Self::Cancel(tokens) => world.cancel(&tokens, now),
            Self::Register(agent) => world.register(&agent),
            Self::BeatWorker(beat) => world.beat_worker(&beat, now),
            Self::ForgetWorker(worker) => world.forget_worker(&worker),
            Self::BeatScheduler(id) => world.beat_scheduler(&id, now),
            Self::ForgetScheduler(id) => world.forget_scheduler(&id),
            Self::Bury(letter) => world.bury(&letter, now),
            Self::RetakeSubmissions(consumer, after, count) => {
                drop(world.retake_submissions(&consumer, after, count, now));
            }
            Self::PauseQueue(agent_type, paused) => world.pause_queue(&agent_type, paused),
            Self::RequestDrain(worker) => world.request_drain(&worker, now),
            Self::DiscardDeadLetter(agent_type, entry) => drop(world.discard_dead_letter(&agent_type, &entry)),
            Self::DiscardTasks(agent_type, entries) => drop(world.discard_tasks(&agent_type, &entries)),
            Self::ForgetAgentType(agent_type, unused_ms) => drop(world.forget_agent_type(&agent_type, unused_ms, now)),
            Self::EndFormerProcesses => world.end_former_processes(),
            Self::PutBlob(key, bytes, ttl_ms) => world.put_blob(&key, &bytes, ttl_ms, now),
        }
    }
}

/// Reads the summary of a [`crate::PlanWrite`] back, whose field names are constants of the program.
///
/// Each name is leaked once; there are as many as the program has constants.
pub(crate) fn read_summary<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(&'static str, String)>, D::Error> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut constant = |name: String| match names.get(name.as_str()) {
        Some(known) => *known,
        None => {
            let name: &'static str = name.leak();
            names.insert(name);
            name
        }
    };
    let fields = Vec::<(String, String)>::deserialize(from)?;
    Ok(fields.into_iter().map(|(name, value)| (constant(name), value)).collect())
}

/// Stores a value as JSON: its type leaves fields out, which only a format with names can read.
pub(super) mod as_json {
    use serde::de::DeserializeOwned;

    use super::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in super::super) fn serialize<T: Serialize, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        serde_json::to_string(value).map_err(serde::ser::Error::custom)?.serialize(to)
    }

    pub(in super::super) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        serde_json::from_str(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}
