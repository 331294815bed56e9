//! The embedded back end: in memory, in one process, with an optional journal file.
//!
//! Nothing depends on chance or on the order of a hash, so a run under virtual time repeats exactly.

mod blobs;
mod commit;
mod core;
mod deadlines;
mod event_store;
mod journal;
#[cfg(test)]
mod journal_samples;
mod memory_store;
mod reader;
mod record;
mod registry;
mod signals;
mod stream;
mod submissions;
mod tasks;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::clock::Clock;
use goalmill_common::id::{AgentType, AttemptToken, EntryId, Namespace, PlanId, ShardId, WorkerId};
use goalmill_common::keys::Keys;
use goalmill_common::wire::{Fields, InboxStream};

use self::core::Core;
use self::memory_store::MemoryStore;
use self::reader::EmbeddedReader;
use self::record::Write;
use crate::{
    Broker, BrokerError, Claim, Commit, Committed, DeadLetter, Delivery, Entry, FieldsPage, Health, InboxCursor,
    Install, Keeping, KeptEvent, KeptHead, LiveSchedulers, LogEntry, Meta, Ownership, QueueState, Reader, Registry,
};

type Result<T> = std::result::Result<T, BrokerError>;

/// Opens an empty back end, or the one kept under `data_dir`.
///
/// The leases of the process that had a `data_dir` before have ended: its lock is held by this one.
/// With a `data_dir`, every write is in the file `journal.v1` there before it is answered: it survives the end
/// of the process, however sudden, but the last writes may not survive the end of the machine.
pub fn open(data_dir: Option<&Path>, clock: Clock) -> Result<Arc<dyn Broker>> {
    Ok(Arc::new(Embedded { core: Arc::new(Core::open(data_dir, clock)?), keys: Keys::default() }))
}

/// The embedded back end itself, for simulations that turn back its time.
pub struct Embedded {
    core: Arc<Core>,
    /// Names of blobs and inboxes; there is one installation.
    keys: Keys,
}

/// Everything the back end held at one moment.
#[derive(Clone)]
pub struct Snapshot(Arc<MemoryStore>);

impl Embedded {
    /// An empty back end without a journal file.
    pub fn in_memory(clock: Clock) -> Result<Self> {
        Ok(Self { core: Arc::new(Core::open(None, clock)?), keys: Keys::default() })
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot(Arc::new(self.core.inspect(|store, _| store.clone())))
    }

    /// Restores an earlier state, like a server that lost its last writes; waiting readers keep waiting.
    pub fn restore(&self, snapshot: &Snapshot) {
        self.core.inspect(|store, _| {
            let mut past = MemoryStore::clone(&snapshot.0);
            std::mem::swap(&mut past.signals, &mut store.signals);
            *store = past;
        });
    }
}

#[async_trait]
impl Broker for Embedded {
    fn keys(&self) -> &Keys {
        &self.keys
    }

    async fn open(&self, install: &Install) -> Result<Meta> {
        self.core.write(|store, _| store.install(install), |_| Some(Write::Install(Cow::Borrowed(install))))
    }

    async fn meta(&self) -> Result<Option<Meta>> {
        self.core.read_store(|store, _| store.meta.clone())
    }

    async fn check_health(&self) -> Result<Health> {
        let time_ms = self.core.machine_ms();
        self.core.read_store(|_, _| Health {
            version: "embedded".into(),
            memory_used: 0.0,
            warnings: Vec::new(),
            time_ms,
        })
    }

    async fn owner(&self, shard: ShardId) -> Result<Option<Ownership>> {
        self.core.read_store(|store, _| store.shards.get(&shard).and_then(|shard| shard.owner.clone()))
    }

    async fn acquire(&self, shard: ShardId, claim: &Claim) -> Result<bool> {
        let record = |won: &bool| won.then(|| Write::Acquire(shard, Cow::Borrowed(claim)));
        self.core.write(|store, _| store.acquire(shard, claim), record)
    }

    async fn renew(&self, shard: ShardId, token: &str) -> Result<bool> {
        let record = |held: &bool| held.then(|| Write::Renew(shard, token.into()));
        self.core.write(|store, _| store.renew(shard, token), record)
    }

    async fn release(&self, shard: ShardId, token: &str) -> Result<()> {
        self.core.write(|store, _| store.release(shard, token), |()| Some(Write::Release(shard, token.into())))
    }

    async fn commit(&self, commit: &Commit) -> Result<Committed> {
        let record = |done: &Committed| (*done == Committed::Applied).then_some(Write::Commit(Cow::Borrowed(commit)));
        let committed = self.core.write(|store, now| store.commit(commit, now), record)?;
        let results = commit.plans.iter().filter_map(|plan| plan.result.as_ref());
        let answers: Vec<_> = results.map(|result| (result.submission.clone(), result.answer.clone())).collect();
        if committed == Committed::Applied && !answers.is_empty() {
            self.answer(&answers).await?;
        }
        Ok(committed)
    }

    async fn cursor(&self, shard: ShardId) -> Result<InboxCursor> {
        self.core.read_store(|store, _| {
            store.shards.get(&shard).map_or_else(InboxCursor::start, memory_store::Shard::cursor)
        })
    }

    async fn active(&self, shard: ShardId) -> Result<Vec<PlanId>> {
        let active = |shard: &memory_store::Shard| shard.active.iter().cloned().collect();
        self.core.read_store(|store, _| store.shards.get(&shard).map(active).unwrap_or_default())
    }

    async fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<LogEntry>> {
        self.core.read_store(|store, _| store.log(plan, after_seq, limit))
    }

    async fn summary(&self, plan: &PlanId) -> Result<BTreeMap<String, String>> {
        self.core.read_store(|store, _| store.plans.get(plan).map(|plan| plan.summary.clone()).unwrap_or_default())
    }

    async fn plans(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>> {
        self.core.read_store(|store, _| store.plans(shard, before_ms, limit))
    }

    async fn plans_since(&self, shard: ShardId, from_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>> {
        self.core.read_store(|store, _| store.plans_since(shard, from_ms, limit))
    }

    async fn expire_plans(&self, plans: &[(PlanId, u64)]) -> Result<()> {
        let record = |(): &()| (!plans.is_empty()).then_some(Write::ExpirePlans(plans.into()));
        self.core.write(|store, now| store.expire_plans(plans, now), record)
    }

    async fn sweep_index(&self, shard: ShardId, before_ms: u64) -> Result<u64> {
        let record = |swept: &u64| (*swept > 0).then_some(Write::SweepIndex(shard, before_ms));
        self.core.write(|store, _| store.sweep_index(shard, before_ms), record)
    }

    async fn submit(&self, fields: &Fields) -> Result<EntryId> {
        self.core.write(|store, now| store.submit(fields, now), |_| Some(Write::Submit(fields.into())))
    }

    async fn keep_event(&self, event: &KeptEvent) -> Result<Keeping> {
        let record = |kept: &Keeping| (*kept == Keeping::New).then_some(Write::KeepEvent(Cow::Borrowed(event)));
        self.core.write(|store, now| store.keep_event(event, now), record)
    }

    async fn kept_events(
        &self,
        namespace: &Namespace,
        topic: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<KeptHead>> {
        self.core.read_store(|store, _| store.kept_events(namespace, topic, after, limit))
    }

    async fn kept_event(&self, namespace: &Namespace, topic: &str, head: &KeptHead) -> Result<Option<String>> {
        self.core.read_store(|store, _| store.kept_event(namespace, topic, &head.id))
    }

    async fn earlier_events(&self, event: &KeptEvent, within_ms: u64, limit: usize) -> Result<Vec<KeptHead>> {
        self.core.read_store(|store, _| store.earlier_events(event, within_ms, limit))
    }

    async fn take_event(&self, event: &KeptEvent) -> Result<()> {
        if let Some((key, value, ttl_ms)) = self.core.read_store(|store, now| store.taken_blob(event, now))? {
            self.put_blob(&key, &value, ttl_ms).await?;
        }
        for key in self.core.read_store(|store, _| store.taken_above(&event.namespace, event.most))? {
            self.remove_blob(&key).await?;
        }
        Ok(())
    }

    async fn forget_event(&self, event: &KeptEvent) -> Result<()> {
        self.remove_blob(&event_store::event_key(&event.namespace, &event.topic, &event.id)).await
    }

    async fn count_kept_events(&self, namespace: &Namespace) -> Result<u64> {
        self.core.read_store(|store, _| store.count_kept(namespace) as u64)
    }

    async fn reclaim_submissions(&self, consumer: &str, idle_ms: u64, limit: usize) -> Result<Vec<Entry>> {
        let record = |taken: &Vec<Entry>| {
            (!taken.is_empty()).then(|| Write::ReclaimSubmissions(consumer.into(), idle_ms, limit))
        };
        self.core.write(|store, now| store.reclaim_submissions(consumer, idle_ms, limit, now), record)
    }

    async fn acknowledge_submissions(&self, ids: &[EntryId]) -> Result<()> {
        let record = |(): &()| Some(Write::AcknowledgeSubmissions(ids.into()));
        self.core.write(|store, _| store.acknowledge_submissions(ids), record)
    }

    async fn answer(&self, answers: &[(String, String)]) -> Result<()> {
        self.core.write(|store, now| store.answer(answers, now), |()| Some(Write::Answer(answers.into())))
    }

    async fn answers(&self, ids: &[String]) -> Result<Vec<Option<String>>> {
        self.core.read_store(|store, _| store.answers(ids))
    }

    async fn send(&self, shard: ShardId, fields: &Fields) -> Result<()> {
        let send = |store: &mut MemoryStore, now| store.send(shard, InboxStream::Reports, fields, now);
        self.core.write(send, |()| Some(Write::Send(shard, fields.into())))
    }

    async fn send_request(&self, shard: ShardId, fields: &Fields) -> Result<()> {
        let send = |store: &mut MemoryStore, now| store.send(shard, InboxStream::Requests, fields, now);
        self.core.write(send, |()| Some(Write::SendRequest(shard, fields.into())))
    }

    async fn open_queue(&self, agent_type: &AgentType) -> Result<()> {
        let record = |(): &()| Some(Write::OpenQueue(agent_type.clone()));
        self.core.write(|store, _| store.open_queue(agent_type), record)
    }

    async fn extend(&self, worker: &WorkerId, leases: &[(AgentType, EntryId)]) -> Result<Vec<bool>> {
        let record = |held: &Vec<bool>| held.contains(&true).then(|| Write::Extend(worker.clone(), leases.into()));
        self.core.write(|store, now| store.extend(worker, leases, now), record)
    }

    async fn reclaim(&self, agent_type: &AgentType, idle_ms: u64, limit: usize) -> Result<Vec<Delivery>> {
        let record =
            |taken: &Vec<Delivery>| (!taken.is_empty()).then(|| Write::Reclaim(agent_type.clone(), idle_ms, limit));
        self.core.write(|store, now| store.reclaim(agent_type, idle_ms, limit, now), record)
    }

    async fn tasks(&self, agent_type: &AgentType, after: &EntryId, limit: usize) -> Result<Vec<Delivery>> {
        self.core.read_store(|store, _| store.tasks(agent_type, after, limit))
    }

    async fn discard_tasks(&self, agent_type: &AgentType, entries: &[EntryId]) -> Result<u64> {
        let record = |removed: &u64| (*removed > 0).then(|| Write::DiscardTasks(agent_type.clone(), entries.into()));
        self.core.write(|store, _| store.discard_tasks(agent_type, entries), record)
    }

    async fn trim(&self, agent_type: &AgentType) -> Result<()> {
        self.core.write(|store, _| store.trim(agent_type), |()| Some(Write::Trim(agent_type.clone())))
    }

    async fn queues(&self) -> Result<Vec<QueueState>> {
        self.core.read_store(|store, _| store.queue_states())
    }

    async fn pause_queue(&self, agent_type: &AgentType, paused: bool) -> Result<()> {
        let record = |(): &()| Some(Write::PauseQueue(agent_type.clone(), paused));
        self.core.write(|store, _| store.pause_queue(agent_type, paused), record)
    }

    async fn paused_queues(&self) -> Result<BTreeSet<AgentType>> {
        self.core.read_store(|store, _| store.paused_queues())
    }

    async fn cancel(&self, tokens: &[AttemptToken]) -> Result<()> {
        self.core.write(|store, now| store.cancel(tokens, now), |()| Some(Write::Cancel(tokens.into())))
    }

    async fn cancelled(&self) -> Result<Vec<AttemptToken>> {
        self.core.read_store(|store, _| store.cancelled())
    }

    async fn register(&self, agent: &Agent) -> Result<()> {
        self.core.write(|store, _| store.register(agent), |()| Some(Write::Register(Box::new(agent.clone()))))
    }

    async fn agents(&self) -> Result<Registry> {
        self.core.read_store(|store, _| store.agents()).map(|agents| Registry { agents, refused: Vec::new() })
    }

    async fn remove_agent_type(&self, agent_type: &AgentType, unused_ms: u64) -> Result<bool> {
        let record = |removed: &bool| removed.then(|| Write::RemoveAgentType(agent_type.clone(), unused_ms));
        self.core.write(|store, now| store.remove_agent_type(agent_type, unused_ms, now), record)
    }

    async fn record_worker_heartbeat(&self, beat: &WorkerBeat) -> Result<u64> {
        self.core.write(
            |store, now| store.record_worker_heartbeat(beat, now),
            |()| Some(Write::RecordWorkerHeartbeat(Box::new(beat.clone()))),
        )?;
        Ok(self.core.machine_ms())
    }

    async fn deregister_worker(&self, worker: &WorkerId) -> Result<()> {
        self.core.write(|store, _| store.deregister_worker(worker), |()| Some(Write::DeregisterWorker(worker.clone())))
    }

    async fn request_drain(&self, worker: &WorkerId) -> Result<()> {
        self.core.write(|store, now| store.request_drain(worker, now), |()| Some(Write::RequestDrain(worker.clone())))
    }

    async fn drain_requested(&self, worker: &WorkerId) -> Result<bool> {
        self.core.read_store(|store, _| store.drain_requested(worker))
    }

    async fn workers(&self, within_ms: u64) -> Result<Vec<WorkerBeat>> {
        self.core.read_store(|store, now| store.workers(within_ms, now))
    }

    async fn record_scheduler_heartbeat(&self, id: &str, _format: u32, within_ms: u64) -> Result<LiveSchedulers> {
        let beat = |store: &mut MemoryStore, now| {
            store.record_scheduler_heartbeat(id, now);
            LiveSchedulers { sharing: store.schedulers(within_ms, now), ..LiveSchedulers::default() }
        };
        self.core.write(beat, |_| Some(Write::RecordSchedulerHeartbeat(id.into())))
    }

    async fn deregister_scheduler(&self, id: &str) -> Result<()> {
        self.core.write(|store, _| store.deregister_scheduler(id), |()| Some(Write::DeregisterScheduler(id.into())))
    }

    async fn add_dead_letter(&self, letter: &DeadLetter) -> Result<()> {
        self.core
            .write(|store, now| store.add_dead_letter(letter, now), |()| Some(Write::DeadLetter(Cow::Borrowed(letter))))
    }

    async fn dead_letters(&self, agent_type: &AgentType, limit: usize) -> Result<Vec<(EntryId, DeadLetter)>> {
        self.core.read_store(|store, _| store.dead_letters(agent_type, limit))
    }

    async fn discard_dead_letter(&self, agent_type: &AgentType, entry: &EntryId) -> Result<bool> {
        let record = |gone: &bool| gone.then(|| Write::DiscardDeadLetter(agent_type.clone(), entry.clone()));
        self.core.write(|store, _| store.discard_dead_letter(agent_type, entry), record)
    }

    async fn put_blob(&self, key: &str, bytes: &[u8], ttl_ms: u64) -> Result<()> {
        let record = |(): &()| Some(Write::PutBlob(key.into(), bytes.into(), ttl_ms));
        self.core.write(|store, now| store.put_blob(key, bytes, ttl_ms, now), record)
    }

    async fn get_blob(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.core.read_store(|store, _| store.blob(key))
    }

    async fn remove_blob(&self, key: &str) -> Result<()> {
        self.core.write(|store, _| store.remove_blob(key), |()| Some(Write::RemoveBlob(key.into())))
    }

    async fn put_field(&self, key: &str, field: &str, value: &str) -> Result<()> {
        let record = |(): &()| Some(Write::PutField(key.into(), field.into(), value.into()));
        self.core.write(|store, _| store.put_field(key, field, value), record)
    }

    async fn add_field(&self, key: &str, field: &str, value: &str) -> Result<bool> {
        let record = |added: &bool| added.then(|| Write::PutField(key.into(), field.into(), value.into()));
        self.core.write(|store, _| store.add_field(key, field, value), record)
    }

    async fn get_field(&self, key: &str, field: &str) -> Result<Option<String>> {
        self.core.read_store(|store, _| store.field(key, field))
    }

    async fn fields(&self, key: &str) -> Result<BTreeMap<String, String>> {
        self.core.read_store(|store, _| store.fields(key))
    }

    async fn fields_page(&self, key: &str, after: &str, limit: usize) -> Result<FieldsPage> {
        self.core.read_store(|store, _| store.fields_page(key, after, limit))
    }

    async fn remove_field(&self, key: &str, field: &str) -> Result<bool> {
        let record = |removed: &bool| removed.then(|| Write::RemoveField(key.into(), field.into()));
        self.core.write(|store, _| store.remove_field(key, field), record)
    }

    async fn reader(&self) -> Result<Box<dyn Reader>> {
        Ok(Box::new(EmbeddedReader::new(Arc::clone(&self.core))))
    }
}
