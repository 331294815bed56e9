//! A back end that can be away, slow or stuck.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use goalmill_broker::*;
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::{AgentType, AttemptToken, EntryId, Namespace, PlanId, ShardId, WorkerId};
use goalmill_common::keys::Keys;
use goalmill_common::wire::Fields;

type Result<T> = std::result::Result<T, BrokerError>;

/// What is wrong.
#[derive(Default)]
pub struct Faults(Mutex<State>);

#[derive(Default)]
struct State {
    away: bool,
    stuck: Option<&'static str>,
    instance: Option<String>,
    calls: BTreeMap<&'static str, u32>,
}

impl Faults {
    fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Every verb fails from here on, or none does.
    pub fn away(&self, away: bool) {
        self.with(|state| state.away = away);
    }

    /// This verb does not answer any more, or all do.
    pub fn stuck(&self, verb: Option<&'static str>) {
        self.with(|state| state.stuck = verb);
    }

    pub fn calls(&self, verb: &'static str) -> u32 {
        self.with(|state| state.calls.get(verb).copied().unwrap_or_default())
    }

    async fn wait_while_stuck(&self, verb: &'static str) {
        while self.with(|state| state.stuck == Some(verb)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Another installation answers from here on.
    pub fn replace(&self, instance: &str) {
        self.with(|state| state.instance = Some(instance.into()));
    }

    fn check(&self) -> Result<()> {
        if self.with(|state| state.away) { Err(BrokerError::Unavailable("it is away".into())) } else { Ok(()) }
    }
}

pub struct Faulty {
    pub inner: Arc<dyn Broker>,
    pub faults: Arc<Faults>,
}

impl Faulty {
    async fn pass(&self, verb: &'static str) -> Result<()> {
        self.faults.with(|state| *state.calls.entry(verb).or_default() += 1);
        self.faults.wait_while_stuck(verb).await;
        self.faults.check()
    }
}

#[async_trait]
impl Broker for Faulty {
    fn keys(&self) -> &Keys {
        self.inner.keys()
    }
    async fn answer(&self, answers: &[(String, String)]) -> Result<()> {
        self.pass("answer").await?;
        self.inner.answer(answers).await
    }
    async fn keep_event(&self, event: &KeptEvent) -> Result<Keeping> {
        self.pass("keep_event").await?;
        self.inner.keep_event(event).await
    }
    async fn kept_events(
        &self,
        namespace: &Namespace,
        topic: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<KeptHead>> {
        self.pass("kept_events").await?;
        self.inner.kept_events(namespace, topic, after, limit).await
    }
    async fn kept_event(&self, namespace: &Namespace, topic: &str, head: &KeptHead) -> Result<Option<String>> {
        self.pass("kept_event").await?;
        self.inner.kept_event(namespace, topic, head).await
    }
    async fn earlier_events(&self, event: &KeptEvent, within_ms: u64, limit: usize) -> Result<Vec<KeptHead>> {
        self.pass("earlier_events").await?;
        self.inner.earlier_events(event, within_ms, limit).await
    }
    async fn take_event(&self, event: &KeptEvent) -> Result<()> {
        self.pass("take_event").await?;
        self.inner.take_event(event).await
    }
    async fn forget_event(&self, event: &KeptEvent) -> Result<()> {
        self.pass("forget_event").await?;
        self.inner.forget_event(event).await
    }
    async fn count_kept_events(&self, namespace: &Namespace) -> Result<u64> {
        self.pass("count_kept_events").await?;
        self.inner.count_kept_events(namespace).await
    }
    async fn extend(&self, worker: &WorkerId, leases: &[(AgentType, EntryId)]) -> Result<Vec<bool>> {
        self.pass("extend").await?;
        self.inner.extend(worker, leases).await
    }
    async fn open(&self, install: &Install) -> Result<Meta> {
        self.pass("open").await?;
        self.inner.open(install).await
    }
    async fn meta(&self) -> Result<Option<Meta>> {
        self.pass("meta").await?;
        let mut meta = self.inner.meta().await?;
        if let (Some(meta), Some(instance)) = (&mut meta, self.faults.with(|state| state.instance.clone())) {
            meta.instance = instance;
        }
        Ok(meta)
    }
    async fn check_health(&self) -> Result<Health> {
        self.pass("check").await?;
        self.inner.check_health().await
    }
    async fn owner(&self, shard: ShardId) -> Result<Option<Ownership>> {
        self.pass("owner").await?;
        self.inner.owner(shard).await
    }
    async fn acquire(&self, shard: ShardId, claim: &Claim) -> Result<bool> {
        self.pass("acquire").await?;
        self.inner.acquire(shard, claim).await
    }
    async fn renew(&self, shard: ShardId, token: &str) -> Result<bool> {
        self.pass("renew").await?;
        self.inner.renew(shard, token).await
    }
    async fn release(&self, shard: ShardId, token: &str) -> Result<()> {
        self.pass("release").await?;
        self.inner.release(shard, token).await
    }
    async fn commit(&self, commit: &Commit) -> Result<Committed> {
        self.pass("commit").await?;
        self.inner.commit(commit).await
    }
    async fn cursor(&self, shard: ShardId) -> Result<InboxCursor> {
        self.pass("cursor").await?;
        self.inner.cursor(shard).await
    }
    async fn active(&self, shard: ShardId) -> Result<Vec<PlanId>> {
        self.pass("active").await?;
        self.inner.active(shard).await
    }
    async fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<LogEntry>> {
        self.pass("log").await?;
        self.inner.log(plan, after_seq, limit).await
    }
    async fn summary(&self, plan: &PlanId) -> Result<BTreeMap<String, String>> {
        self.pass("summary").await?;
        self.inner.summary(plan).await
    }
    async fn plans(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>> {
        self.pass("plans").await?;
        self.inner.plans(shard, before_ms, limit).await
    }
    async fn plans_since(&self, shard: ShardId, from_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>> {
        self.pass("plans_since").await?;
        self.inner.plans_since(shard, from_ms, limit).await
    }
    async fn expire_plans(&self, plans: &[(PlanId, u64)]) -> Result<()> {
        self.pass("expire_plans").await?;
        self.inner.expire_plans(plans).await
    }
    async fn sweep_index(&self, shard: ShardId, before_ms: u64) -> Result<u64> {
        self.pass("sweep_index").await?;
        self.inner.sweep_index(shard, before_ms).await
    }
    async fn submit(&self, fields: &Fields) -> Result<EntryId> {
        self.pass("submit").await?;
        self.inner.submit(fields).await
    }
    async fn reclaim_submissions(&self, consumer: &str, idle_ms: u64, limit: usize) -> Result<Vec<Entry>> {
        self.pass("reclaim_submissions").await?;
        self.inner.reclaim_submissions(consumer, idle_ms, limit).await
    }
    async fn acknowledge_submissions(&self, ids: &[EntryId]) -> Result<()> {
        self.pass("acknowledge_submissions").await?;
        self.inner.acknowledge_submissions(ids).await
    }
    async fn answers(&self, ids: &[String]) -> Result<Vec<Option<String>>> {
        self.pass("answers").await?;
        self.inner.answers(ids).await
    }
    async fn send(&self, shard: ShardId, fields: &Fields) -> Result<()> {
        self.pass("send").await?;
        self.inner.send(shard, fields).await
    }
    async fn send_request(&self, shard: ShardId, fields: &Fields) -> Result<()> {
        self.pass("send_request").await?;
        self.inner.send_request(shard, fields).await
    }
    async fn open_queue(&self, agent_type: &AgentType) -> Result<()> {
        self.pass("open_queue").await?;
        self.inner.open_queue(agent_type).await
    }
    async fn reclaim(&self, agent_type: &AgentType, idle_ms: u64, limit: usize) -> Result<Vec<Delivery>> {
        self.pass("reclaim").await?;
        self.inner.reclaim(agent_type, idle_ms, limit).await
    }
    async fn tasks(&self, agent_type: &AgentType, after: &EntryId, limit: usize) -> Result<Vec<Delivery>> {
        self.pass("tasks").await?;
        self.inner.tasks(agent_type, after, limit).await
    }
    async fn discard_tasks(&self, agent_type: &AgentType, entries: &[EntryId]) -> Result<u64> {
        self.pass("discard_tasks").await?;
        self.inner.discard_tasks(agent_type, entries).await
    }
    async fn trim(&self, agent_type: &AgentType) -> Result<()> {
        self.pass("trim").await?;
        self.inner.trim(agent_type).await
    }
    async fn queues(&self) -> Result<Vec<QueueState>> {
        self.pass("queues").await?;
        self.inner.queues().await
    }
    async fn pause_queue(&self, agent_type: &AgentType, paused: bool) -> Result<()> {
        self.pass("pause_queue").await?;
        self.inner.pause_queue(agent_type, paused).await
    }
    async fn paused_queues(&self) -> Result<BTreeSet<AgentType>> {
        self.pass("paused_queues").await?;
        self.inner.paused_queues().await
    }
    async fn cancel(&self, tokens: &[AttemptToken]) -> Result<()> {
        self.pass("cancel").await?;
        self.inner.cancel(tokens).await
    }
    async fn cancelled(&self) -> Result<Vec<AttemptToken>> {
        self.pass("cancelled").await?;
        self.inner.cancelled().await
    }
    async fn register(&self, agent: &Agent) -> Result<()> {
        self.pass("register").await?;
        self.inner.register(agent).await
    }
    async fn agents(&self) -> Result<Registry> {
        self.pass("agents").await?;
        self.inner.agents().await
    }
    async fn remove_agent_type(&self, agent_type: &AgentType, unused_ms: u64) -> Result<bool> {
        self.pass("remove_agent_type").await?;
        self.inner.remove_agent_type(agent_type, unused_ms).await
    }
    async fn record_worker_heartbeat(&self, beat: &WorkerBeat) -> Result<u64> {
        self.pass("record_worker_heartbeat").await?;
        self.inner.record_worker_heartbeat(beat).await
    }
    async fn deregister_worker(&self, worker: &WorkerId) -> Result<()> {
        self.pass("deregister_worker").await?;
        self.inner.deregister_worker(worker).await
    }
    async fn request_drain(&self, worker: &WorkerId) -> Result<()> {
        self.pass("request_drain").await?;
        self.inner.request_drain(worker).await
    }
    async fn drain_requested(&self, worker: &WorkerId) -> Result<bool> {
        self.pass("drain_requested").await?;
        self.inner.drain_requested(worker).await
    }
    async fn workers(&self, within_ms: u64) -> Result<Vec<WorkerBeat>> {
        self.pass("workers").await?;
        self.inner.workers(within_ms).await
    }
    async fn record_scheduler_heartbeat(&self, id: &str, format: u32, within_ms: u64) -> Result<LiveSchedulers> {
        self.pass("record_scheduler_heartbeat").await?;
        self.inner.record_scheduler_heartbeat(id, format, within_ms).await
    }
    async fn deregister_scheduler(&self, id: &str) -> Result<()> {
        self.pass("deregister_scheduler").await?;
        self.inner.deregister_scheduler(id).await
    }
    async fn add_dead_letter(&self, letter: &DeadLetter) -> Result<()> {
        self.pass("add_dead_letter").await?;
        self.inner.add_dead_letter(letter).await
    }
    async fn dead_letters(&self, agent_type: &AgentType, limit: usize) -> Result<Vec<(EntryId, DeadLetter)>> {
        self.pass("dead_letters").await?;
        self.inner.dead_letters(agent_type, limit).await
    }
    async fn discard_dead_letter(&self, agent_type: &AgentType, entry: &EntryId) -> Result<bool> {
        self.pass("discard_dead_letter").await?;
        self.inner.discard_dead_letter(agent_type, entry).await
    }
    async fn put_blob(&self, key: &str, bytes: &[u8], ttl_ms: u64) -> Result<()> {
        self.pass("put_blob").await?;
        self.inner.put_blob(key, bytes, ttl_ms).await
    }
    async fn get_blob(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.pass("get_blob").await?;
        self.inner.get_blob(key).await
    }
    async fn remove_blob(&self, key: &str) -> Result<()> {
        self.pass("remove_blob").await?;
        self.inner.remove_blob(key).await
    }
    async fn put_field(&self, key: &str, field: &str, value: &str) -> Result<()> {
        self.pass("put_field").await?;
        self.inner.put_field(key, field, value).await
    }
    async fn add_field(&self, key: &str, field: &str, value: &str) -> Result<bool> {
        self.pass("add_field").await?;
        self.inner.add_field(key, field, value).await
    }
    async fn get_field(&self, key: &str, field: &str) -> Result<Option<String>> {
        self.pass("get_field").await?;
        self.inner.get_field(key, field).await
    }
    async fn fields_page(&self, key: &str, after: &str, limit: usize) -> Result<FieldsPage> {
        self.pass("fields_page").await?;
        self.inner.fields_page(key, after, limit).await
    }
    async fn fields(&self, key: &str) -> Result<BTreeMap<String, String>> {
        self.pass("fields").await?;
        self.inner.fields(key).await
    }
    async fn remove_field(&self, key: &str, field: &str) -> Result<bool> {
        self.pass("remove_field").await?;
        self.inner.remove_field(key, field).await
    }
    async fn reader(&self) -> Result<Box<dyn Reader>> {
        self.pass("reader").await?;
        Ok(Box::new(FaultyReader { inner: self.inner.reader().await?, faults: self.faults.clone() }))
    }
}

struct FaultyReader {
    inner: Box<dyn Reader>,
    faults: Arc<Faults>,
}

#[async_trait]
impl Reader for FaultyReader {
    async fn inbox(
        &mut self,
        shard: ShardId,
        after: &InboxCursor,
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<InboxEntry>> {
        self.inner.inbox(shard, after, count, block_ms).await
    }
    async fn submissions(&mut self, consumer: &str, count: usize, block_ms: u64) -> Result<Vec<Entry>> {
        self.inner.submissions(consumer, count, block_ms).await
    }
    async fn pull(
        &mut self,
        worker: &WorkerId,
        agent_types: &[AgentType],
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<Delivery>> {
        self.faults.check()?;
        let pulled = self.inner.pull(worker, agent_types, count, block_ms.min(50)).await?;
        self.faults.wait_while_stuck("pull_reply").await;
        self.faults.check()?;
        Ok(pulled)
    }
    async fn log(&mut self, plan: &PlanId, after_seq: u64, limit: usize, block_ms: u64) -> Result<Vec<LogEntry>> {
        self.inner.log(plan, after_seq, limit, block_ms).await
    }
    async fn messages(&mut self, block_ms: u64) -> Result<Vec<Broadcast>> {
        self.faults.check()?;
        let messages = self.inner.messages(block_ms.min(50)).await?;
        self.faults.check()?;
        Ok(messages)
    }
    fn waker(&self) -> Arc<dyn Waker> {
        self.inner.waker()
    }
}
