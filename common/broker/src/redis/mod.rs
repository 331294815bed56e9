//! The Redis back end: one Redis, its keys and its functions.

mod address;
mod commit;
mod connection;
mod connections;
mod dead_letters;
mod dialer;
mod error;
mod event_store;
mod functions;
pub mod groups;
pub mod inspection;
mod install;
mod journal;
mod ownership;
pub mod probe;
mod pull;
mod reader;
mod registry;
mod reply;
mod sentinel;
mod submissions;
mod subscription;
mod tasks;
mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::config::RedisSettings;
use goalmill_common::id::{AgentType, AttemptToken, EntryId, Namespace, PlanId, ShardId, WorkerId};
use goalmill_common::keys::Keys;
use goalmill_common::shard_load::Loads;
use goalmill_common::status::PlanStatus;
use goalmill_common::wire::Fields;

use crate::{
    Broker, BrokerError, Claim, Commit, Committed, DeadLetter, Delivery, Entry, FieldsPage, Health, InboxCursor,
    Install, Keeping, KeptEvent, KeptHead, LiveSchedulers, LogEntry, Meta, Ownership, ParkMark, QueueState, Reader,
    RefusedEntry, Registry, StreamResult,
};
use connections::Connections;

type Result<T> = std::result::Result<T, BrokerError>;

/// Prepares connections; nothing is sent to a server before the first verb. Sentinels are watched from now on.
///
/// For `rediss://` and `rediss+sentinel://` the process-wide TLS provider is set when there is none yet.
#[expect(clippy::unused_async, reason = "back ends are opened alike, and others wait for what they read")]
pub async fn connect(settings: &RedisSettings) -> Result<Arc<dyn Broker>> {
    let connections = Connections::new(settings)?;
    connections.dialer.watch();
    Ok(Arc::new(RedisBroker(Arc::new(connections))))
}

/// The verbs over Redis, each in the file of its concern.
struct RedisBroker(Arc<Connections>);

#[async_trait]
impl Broker for RedisBroker {
    fn keys(&self) -> &Keys {
        &self.0.keys
    }

    async fn open(&self, install: &Install) -> Result<Meta> {
        self.0.open(install).await
    }
    async fn meta(&self) -> Result<Option<Meta>> {
        self.0.meta().await
    }
    async fn check_health(&self) -> Result<Health> {
        self.0.check_health().await
    }

    async fn probe(&self, shards: u16) -> Result<()> {
        self.0.probe(shards).await
    }
    async fn owner(&self, shard: ShardId) -> Result<Option<Ownership>> {
        self.0.owner(shard).await
    }
    async fn acquire(&self, shard: ShardId, claim: &Claim) -> Result<bool> {
        self.0.acquire(shard, claim).await
    }
    async fn renew(&self, shard: ShardId, token: &str) -> Result<bool> {
        self.0.renew(shard, token).await
    }
    async fn release(&self, shard: ShardId, token: &str) -> Result<()> {
        self.0.release(shard, token).await
    }

    async fn commit(&self, commit: &Commit) -> Result<Committed> {
        self.0.commit(commit).await
    }
    async fn cursor(&self, shard: ShardId) -> Result<InboxCursor> {
        self.0.cursor(shard).await
    }
    async fn active(&self, shard: ShardId) -> Result<Vec<PlanId>> {
        self.0.active(shard).await
    }
    async fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<LogEntry>> {
        self.0.log(plan, after_seq, limit).await
    }
    async fn summary(&self, plan: &PlanId) -> Result<BTreeMap<String, String>> {
        self.0.summary(plan).await
    }
    async fn statuses(&self, plans: &[PlanId]) -> Result<Vec<Option<PlanStatus>>> {
        self.0.statuses(plans).await
    }
    async fn begun(&self, plans: &[PlanId]) -> Result<Vec<Option<(PlanStatus, String)>>> {
        self.0.begun(plans).await
    }
    async fn refuse(&self, refused: &[RefusedEntry]) -> Result<()> {
        self.0.refuse(refused).await
    }
    async fn refused(&self, namespace: &Namespace, limit: usize) -> Result<Vec<Entry>> {
        self.0.refused(namespace, limit).await
    }
    async fn has_result(&self, submission: &str) -> Result<bool> {
        self.0.has_result(submission).await
    }
    async fn put_result(&self, result: &StreamResult) -> Result<()> {
        self.0.put_result(result).await
    }
    async fn remove_results(&self, submissions: &[String]) -> Result<()> {
        self.0.remove_results(submissions).await
    }
    async fn park_marks(&self, plans: &[PlanId]) -> Result<Vec<Option<(ParkMark, Namespace)>>> {
        self.0.park_marks(plans).await
    }
    async fn plans(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>> {
        self.0.plans(shard, before_ms, limit).await
    }
    async fn plans_since(&self, shard: ShardId, from_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>> {
        self.0.plans_since(shard, from_ms, limit).await
    }
    async fn expire_plans(&self, plans: &[(PlanId, u64)]) -> Result<()> {
        self.0.expire_plans(plans).await
    }
    async fn sweep_index(&self, shard: ShardId, before_ms: u64) -> Result<u64> {
        self.0.sweep_index(shard, before_ms).await
    }

    async fn submit(&self, fields: &Fields) -> Result<EntryId> {
        self.0.submit(fields).await
    }
    async fn namespace_submissions(&self, namespace: &Namespace, limit: usize) -> Result<Vec<Entry>> {
        self.0.namespace_submissions(namespace, limit).await
    }
    async fn remove_namespace_submissions(&self, namespace: &Namespace, ids: &[EntryId]) -> Result<()> {
        self.0.remove_namespace_submissions(namespace, ids).await
    }
    async fn keep_event(&self, event: &KeptEvent) -> Result<Keeping> {
        self.0.keep_event(event).await
    }
    async fn kept_events(
        &self,
        namespace: &Namespace,
        topic: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<KeptHead>> {
        self.0.kept_events(namespace, topic, after, limit).await
    }
    async fn kept_event(&self, namespace: &Namespace, topic: &str, head: &KeptHead) -> Result<Option<String>> {
        self.0.kept_event(namespace, topic, head).await
    }
    async fn earlier_events(&self, event: &KeptEvent, within_ms: u64, limit: usize) -> Result<Vec<KeptHead>> {
        self.0.earlier_events(event, within_ms, limit).await
    }
    async fn take_event(&self, event: &KeptEvent) -> Result<()> {
        self.0.take_event(event).await
    }
    async fn forget_event(&self, event: &KeptEvent) -> Result<()> {
        self.0.forget_event(event).await
    }
    async fn count_kept_events(&self, namespace: &Namespace) -> Result<u64> {
        self.0.count_kept_events(namespace).await
    }
    async fn sent_events(&self, after: &EntryId, limit: usize) -> Result<Vec<Entry>> {
        self.0.sent_events(after, limit).await
    }
    async fn remove_sent_events(&self, ids: &[EntryId]) -> Result<()> {
        self.0.remove_sent_events(ids).await
    }
    async fn reclaim_submissions(&self, consumer: &str, idle_ms: u64, limit: usize) -> Result<Vec<Entry>> {
        self.0.reclaim_submissions(consumer, idle_ms, limit).await
    }
    async fn submission_holders(&self) -> Result<Vec<String>> {
        self.0.submission_holders().await
    }
    async fn take_over_submissions(
        &self,
        holder: &str,
        consumer: &str,
        idle_ms: u64,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        self.0.take_over_submissions(holder, consumer, idle_ms, limit).await
    }
    async fn acknowledge_submissions(&self, ids: &[EntryId]) -> Result<()> {
        self.0.acknowledge_submissions(ids).await
    }
    async fn answer(&self, answers: &[(String, String)]) -> Result<()> {
        self.0.answer(answers).await
    }
    async fn answers(&self, ids: &[String]) -> Result<Vec<Option<String>>> {
        self.0.answers(ids).await
    }

    async fn send(&self, shard: ShardId, fields: &Fields) -> Result<()> {
        self.0.send(&self.0.keys.reports(shard), fields).await
    }
    async fn send_request(&self, shard: ShardId, fields: &Fields) -> Result<()> {
        self.0.send(&self.0.keys.requests(shard), fields).await
    }

    async fn open_queue(&self, agent_type: &AgentType) -> Result<()> {
        self.0.open_queue(agent_type).await
    }
    async fn extend(&self, worker: &WorkerId, leases: &[(AgentType, EntryId)]) -> Result<Vec<bool>> {
        self.0.extend(worker, leases).await
    }
    async fn reclaim(&self, agent_type: &AgentType, idle_ms: u64, limit: usize) -> Result<Vec<Delivery>> {
        self.0.reclaim(agent_type, idle_ms, limit).await
    }
    async fn tasks(&self, agent_type: &AgentType, after: &EntryId, limit: usize) -> Result<Vec<Delivery>> {
        self.0.tasks(agent_type, after, limit).await
    }
    async fn discard_tasks(&self, agent_type: &AgentType, entries: &[EntryId]) -> Result<u64> {
        self.0.discard_tasks(agent_type, entries).await
    }
    async fn trim(&self, agent_type: &AgentType) -> Result<()> {
        self.0.trim(agent_type).await
    }
    async fn queues(&self) -> Result<Vec<QueueState>> {
        self.0.queues().await
    }
    async fn pause_queue(&self, agent_type: &AgentType, paused: bool) -> Result<()> {
        self.0.pause_queue(agent_type, paused).await
    }
    async fn paused_queues(&self) -> Result<BTreeSet<AgentType>> {
        self.0.paused_queues().await
    }
    async fn share_loads(&self, loads: &[(ShardId, Loads)]) -> Result<()> {
        self.0.share_loads(loads).await
    }
    async fn loads(&self) -> Result<BTreeMap<ShardId, Loads>> {
        self.0.loads().await
    }

    async fn cancel(&self, tokens: &[AttemptToken]) -> Result<()> {
        self.0.cancel(tokens).await
    }
    async fn cancelled(&self) -> Result<Vec<AttemptToken>> {
        self.0.cancelled().await
    }

    async fn register(&self, agent: &Agent) -> Result<()> {
        self.0.register(agent).await
    }
    async fn agents(&self) -> Result<Registry> {
        self.0.agents().await
    }
    async fn remove_agent_type(&self, agent_type: &AgentType, unused_ms: u64) -> Result<bool> {
        self.0.remove_agent_type(agent_type, unused_ms).await
    }
    async fn record_worker_heartbeat(&self, beat: &WorkerBeat) -> Result<u64> {
        self.0.record_worker_heartbeat(beat).await
    }
    async fn deregister_worker(&self, worker: &WorkerId) -> Result<()> {
        self.0.deregister_worker(worker).await
    }
    async fn request_drain(&self, worker: &WorkerId) -> Result<()> {
        self.0.request_drain(worker).await
    }
    async fn drain_requested(&self, worker: &WorkerId) -> Result<bool> {
        self.0.drain_requested(worker).await
    }
    async fn workers(&self, within_ms: u64) -> Result<Vec<WorkerBeat>> {
        self.0.workers(within_ms).await
    }
    async fn record_scheduler_heartbeat(&self, id: &str, format: u32, within_ms: u64) -> Result<LiveSchedulers> {
        self.0.record_scheduler_heartbeat(id, format, within_ms).await
    }
    async fn announce_presence(&self, id: &str) -> Result<()> {
        self.0.announce_presence(id).await
    }
    async fn are_present(&self, ids: &[String]) -> Result<Vec<bool>> {
        self.0.are_present(ids).await
    }
    async fn deregister_scheduler(&self, id: &str) -> Result<()> {
        self.0.deregister_scheduler(id).await
    }

    async fn add_dead_letter(&self, letter: &DeadLetter) -> Result<()> {
        self.0.add_dead_letter(letter).await
    }
    async fn dead_letters(&self, agent_type: &AgentType, limit: usize) -> Result<Vec<(EntryId, DeadLetter)>> {
        self.0.dead_letters(agent_type, limit).await
    }
    async fn discard_dead_letter(&self, agent_type: &AgentType, entry: &EntryId) -> Result<bool> {
        self.0.discard_dead_letter(agent_type, entry).await
    }
    async fn put_blob(&self, key: &str, bytes: &[u8], ttl_ms: u64) -> Result<()> {
        self.0.put_blob(key, bytes, ttl_ms).await
    }
    async fn get_blob(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.0.get_blob(key).await
    }
    async fn remove_blob(&self, key: &str) -> Result<()> {
        self.0.remove_blob(key).await
    }
    async fn put_field(&self, key: &str, field: &str, value: &str) -> Result<()> {
        self.0.put_field(key, field, value).await
    }
    async fn add_field(&self, key: &str, field: &str, value: &str) -> Result<bool> {
        self.0.add_field(key, field, value).await
    }
    async fn get_field(&self, key: &str, field: &str) -> Result<Option<String>> {
        self.0.get_field(key, field).await
    }
    async fn fields(&self, key: &str) -> Result<BTreeMap<String, String>> {
        self.0.fields(key).await
    }
    async fn fields_page(&self, key: &str, after: &str, limit: usize) -> Result<FieldsPage> {
        self.0.fields_page(key, after, limit).await
    }
    async fn remove_field(&self, key: &str, field: &str) -> Result<bool> {
        self.0.remove_field(key, field).await
    }

    async fn reader(&self) -> Result<Box<dyn Reader>> {
        Ok(Box::new(reader::RedisReader::new(self.0.clone())))
    }
}
