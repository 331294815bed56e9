//! What the journal file keeps: each write with its arguments, and how it is done again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
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
    /// As JSON: the type leaves fields out, which only a format with names can read.
    Register(String),
    BeatWorker(#[serde(with = "worker")] Cow<'a, WorkerBeat>),
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
    pub(super) fn register(agent: &Agent) -> Self {
        Self::Register(serde_json::to_string(agent).expect("an agent always has a JSON text"))
    }

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
            Self::Register(agent) => {
                if let Ok(agent) = serde_json::from_str(&agent) {
                    world.register(&agent);
                }
            }
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

/// Keeps the registry as JSON, for the reason given at [`Write::Register`].
pub(super) mod agents {
    use super::{Agent, AgentType, BTreeMap, Deserialize, Deserializer, Serialize, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(
        agents: &BTreeMap<AgentType, Agent>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        serde_json::to_string(agents).map_err(serde::ser::Error::custom)?.serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<AgentType, Agent>, D::Error> {
        serde_json::from_str(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// A heartbeat as the file has it: without how often the worker beats, which it says again before anybody needs it.
///
/// The file has no names, and the field came later (`docs/decisions/0012-journals-keep-their-readers.md`).
#[derive(Serialize, Deserialize)]
struct Kept {
    worker: WorkerId,
    agents: Vec<AgentType>,
    slots: u32,
    busy: u32,
    draining: bool,
    version: String,
    host: String,
    started_ms: u64,
    seen_ms: u64,
}

impl From<WorkerBeat> for Kept {
    fn from(beat: WorkerBeat) -> Self {
        let WorkerBeat { worker, agents, slots, busy, draining, version, host, started_ms, seen_ms, heartbeat_ms: _ } =
            beat;
        Self { worker, agents, slots, busy, draining, version, host, started_ms, seen_ms }
    }
}

impl From<Kept> for WorkerBeat {
    fn from(kept: Kept) -> Self {
        let Kept { worker, agents, slots, busy, draining, version, host, started_ms, seen_ms } = kept;
        Self { worker, agents, slots, busy, draining, version, host, started_ms, seen_ms, heartbeat_ms: None }
    }
}

/// Keeps one heartbeat as [`Kept`].
mod worker {
    use super::{Cow, Deserialize, Deserializer, Kept, Serialize, Serializer, WorkerBeat};

    pub(super) fn serialize<S: Serializer>(beat: &WorkerBeat, to: S) -> Result<S::Ok, S::Error> {
        Kept::from(beat.clone()).serialize(to)
    }

    pub(super) fn deserialize<'de, 'a, D: Deserializer<'de>>(from: D) -> Result<Cow<'a, WorkerBeat>, D::Error> {
        Ok(Cow::Owned(Kept::deserialize(from)?.into()))
    }
}

/// Keeps the workers' heartbeats as [`Kept`].
pub(super) mod workers {
    use super::{BTreeMap, Deserialize, Deserializer, Kept, Serialize, Serializer, WorkerBeat, WorkerId};

    pub(in super::super) fn serialize<S: Serializer>(
        beats: &BTreeMap<WorkerId, WorkerBeat>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let kept: BTreeMap<&WorkerId, Kept> = beats.iter().map(|(id, beat)| (id, beat.clone().into())).collect();
        kept.serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<WorkerId, WorkerBeat>, D::Error> {
        let kept = BTreeMap::<WorkerId, Kept>::deserialize(from)?;
        Ok(kept.into_iter().map(|(id, kept)| (id, kept.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_kept_in_the_form_that_older_files_have() {
        let beat = WorkerBeat {
            worker: "w".into(),
            agents: vec!["build".into()],
            slots: 4,
            busy: 1,
            draining: false,
            version: "0.1.0".into(),
            host: "h".into(),
            started_ms: 5,
            seen_ms: 0,
            heartbeat_ms: Some(2_000),
        };
        let bytes = postcard::to_extend(&Write::BeatWorker(Cow::Borrowed(&beat)), Vec::new()).unwrap();
        let older = ("w", vec!["build"], 4_u32, 1_u32, false, "0.1.0", "h", 5_u64, 0_u64);
        assert_eq!(bytes[1..], postcard::to_extend(&older, Vec::new()).unwrap(), "behind the number of its kind");
        let Write::BeatWorker(read) = postcard::from_bytes(&bytes).unwrap() else { panic!("it is a heartbeat") };
        assert_eq!(*read, WorkerBeat { heartbeat_ms: None, ..beat });
    }
}
