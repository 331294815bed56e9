//! The link of one process to the server: the broker's calls with network faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use goalmill_broker::{
    Broker, BrokerError, Claim, Commit, Committed, DeadLetter, Delivery, Entry, FieldsPage, Health, InboxCursor,
    Install, Keeping, KeptEvent, KeptHead, LiveSchedulers, LogEntry, Meta, Ownership, ParkMark, QueueState, Reader,
    Registry,
};
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::{AgentType, AttemptToken, EntryId, Namespace, PlanId, ShardId, WorkerId};
use goalmill_common::keys::Keys;
use goalmill_common::wire::Fields;

use crate::environment::{Environment, NetworkBug};
use crate::faults::Fate;
use crate::process::Process;
use crate::reader::LinkReader;

type Result<T> = std::result::Result<T, BrokerError>;

/// The broker of one process.
#[derive(Clone)]
pub struct Link {
    pub env: Arc<Environment>,
    pub process: Arc<Process>,
}

pub fn lost(what: &str) -> BrokerError {
    BrokerError::Unavailable(format!("the simulation has lost the {what}"))
}

/// Calls through the network: the verb, and what happens when a lost call arrives later after all.
macro_rules! through {
    ($self:ident, $verb:literal, $call:expr) => {
        $self.call($verb, |_| Box::pin($call), || None).await
    };
    ($self:ident, $verb:literal, $call:expr, late |$link:ident, $($owned:ident),*| $later:expr) => {
        $self
            .call($verb, |_| Box::pin($call), || {
                let $link = $self.clone();
                $(let $owned = $owned.to_owned();)*
                Some(Box::pin(async move { drop($later.await) }))
            })
            .await
    };
}

impl Link {
    pub fn new(env: &Arc<Environment>, process: &Arc<Process>) -> Self {
        process.begin_at(env.epoch());
        Self { env: env.clone(), process: process.clone() }
    }

    async fn call<'a, T: Debug + Send>(
        &self,
        verb: &'static str,
        run: impl Fn(()) -> BoxFuture<'a, Result<T>> + Send,
        late: impl FnOnce() -> Option<BoxFuture<'static, ()>> + Send,
    ) -> Result<T> {
        self.process.pass().await;
        let (fate, delay_ms) = self.env.fate();
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            self.process.pass().await;
        }
        let result = if self.process.notices(self.env.epoch()) {
            Err(lost("connection"))
        } else {
            match fate {
                Fate::Well => run(()).await,
                Fate::LostRequest => Err(lost("request")),
                Fate::LostReply => {
                    drop(run(()).await);
                    Err(lost("reply"))
                }
                Fate::Twice => {
                    let first = run(()).await;
                    drop(run(()).await);
                    first
                }
                Fate::Late(ms) => {
                    if let Some(later) = late() {
                        tokio::spawn(async move {
                            tokio::time::sleep(Duration::from_millis(ms)).await;
                            later.await;
                        });
                    }
                    Err(lost("request, for a while"))
                }
            }
        };
        self.note(verb, fate, &result);
        self.process.pass().await;
        result
    }

    /// Refuses another installation than the one that the process has opened, or none.
    ///
    /// The contract of [`Broker::open`] and [`Broker::check_health`] wants it. The embedded back end need not do it, since it
    /// cannot lose its installation without its process; here the server outlives the processes and can turn back.
    async fn check_installation(&self) -> Result<()> {
        let meta = self.env.broker.meta().await?;
        if self.process.misses_installation(meta.as_ref().map(|meta| meta.instance.as_str())) {
            return Err(BrokerError::DataLost("the simulation has turned the installation back".into()));
        }
        Ok(())
    }

    pub fn note<T: Debug>(&self, verb: &'static str, fate: Fate, result: &Result<T>) {
        let at_ms = self.env.at_ms();
        self.env.trace().note(format_args!("{at_ms} {} {verb} {fate:?} {result:?}", self.process.name));
    }
}

#[async_trait]
impl Broker for Link {
    fn keys(&self) -> &Keys {
        self.env.broker.keys()
    }
    async fn open(&self, install: &Install) -> Result<Meta> {
        through!(self, "open", async {
            self.check_installation().await?;
            let meta = self.env.broker.open(install).await?;
            self.process.opened(&meta.instance);
            Ok(meta)
        })
    }
    async fn meta(&self) -> Result<Option<Meta>> {
        through!(self, "meta", self.env.broker.meta())
    }
    async fn check_health(&self) -> Result<Health> {
        through!(self, "check", async {
            self.check_installation().await?;
            self.env.broker.check_health().await
        })
    }
    async fn owner(&self, shard: ShardId) -> Result<Option<Ownership>> {
        through!(self, "owner", self.env.broker.owner(shard))
    }
    async fn acquire(&self, shard: ShardId, claim: &Claim) -> Result<bool> {
        self.env.auditor().claims(&self.process.name, shard, &claim.token);
        through!(
            self,
            "acquire",
            self.env.broker.acquire(shard, claim),
            late | link,
            claim | link.env.broker.acquire(shard, &claim)
        )
    }
    async fn renew(&self, shard: ShardId, token: &str) -> Result<bool> {
        through!(
            self,
            "renew",
            self.env.broker.renew(shard, token),
            late | link,
            token | link.env.broker.renew(shard, &token)
        )
    }
    async fn release(&self, shard: ShardId, token: &str) -> Result<()> {
        through!(
            self,
            "release",
            self.env.broker.release(shard, token),
            late | link,
            token | link.env.broker.release(shard, &token)
        )
    }
    async fn commit(&self, commit: &Commit) -> Result<Committed> {
        let (at_ms, name) = (self.env.at_ms(), &self.process.name);
        self.env.trace().note(format_args!(
            "{at_ms} {name} writes {} {} {} {:?} {:?} {:?}",
            commit.shard, commit.token, commit.number, commit.cursor, commit.requests_cursor, commit.acknowledged
        ));
        for write in &commit.plans {
            let events = String::from_utf8_lossy(&write.events);
            self.env.trace().note(format_args!("  {} {}..{} {events}", write.plan, write.base_seq, write.last_seq));
        }
        if let Some(ms) = self.env.stops_in_commit() {
            self.process.pause(ms);
        }
        through!(self, "commit", self.env.commit(commit), late | link, commit | link.env.commit(&commit))
    }
    async fn cursor(&self, shard: ShardId) -> Result<InboxCursor> {
        through!(self, "cursor", self.env.cursor(shard))
    }
    async fn active(&self, shard: ShardId) -> Result<Vec<PlanId>> {
        through!(self, "active", self.env.broker.active(shard))
    }
    async fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<LogEntry>> {
        through!(self, "log", self.env.broker.log(plan, after_seq, limit))
    }
    async fn summary(&self, plan: &PlanId) -> Result<BTreeMap<String, String>> {
        through!(self, "summary", self.env.broker.summary(plan))
    }
    async fn park_marks(&self, plans: &[PlanId]) -> Result<Vec<Option<(ParkMark, Namespace)>>> {
        if self.env.network_bug != Some(NetworkBug::OutdatedMark) {
            return through!(self, "park_marks", self.env.broker.park_marks(plans));
        }
        let mut marks = Vec::new();
        for plan in plans {
            let summary = self.summary(plan).await?;
            let mark = summary.get(ParkMark::FIELD).and_then(|text| ParkMark::parse(text));
            marks.push(mark.map(|mark| (mark, Namespace::default())));
        }
        Ok(marks)
    }
    async fn plans(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>> {
        through!(self, "plans", self.env.broker.plans(shard, before_ms, limit))
    }
    async fn plans_since(&self, shard: ShardId, from_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>> {
        through!(self, "plans_since", self.env.broker.plans_since(shard, from_ms, limit))
    }
    async fn expire_plans(&self, plans: &[(PlanId, u64)]) -> Result<()> {
        through!(self, "expire_plans", self.env.broker.expire_plans(plans))
    }
    async fn sweep_index(&self, shard: ShardId, before_ms: u64) -> Result<u64> {
        through!(self, "sweep_index", self.env.broker.sweep_index(shard, before_ms))
    }
    async fn submit(&self, fields: &Fields) -> Result<EntryId> {
        through!(self, "submit", self.env.broker.submit(fields), late | link, fields | link.env.broker.submit(&fields))
    }
    async fn reclaim_submissions(&self, consumer: &str, idle_ms: u64, limit: usize) -> Result<Vec<Entry>> {
        through!(self, "reclaim_submissions", self.env.broker.reclaim_submissions(consumer, idle_ms, limit))
    }
    async fn acknowledge_submissions(&self, ids: &[EntryId]) -> Result<()> {
        through!(
            self,
            "acknowledge_submissions",
            self.env.broker.acknowledge_submissions(ids),
            late | link,
            ids | link.env.broker.acknowledge_submissions(&ids)
        )
    }
    async fn answer(&self, answers: &[(String, String)]) -> Result<()> {
        through!(
            self,
            "answer",
            self.env.broker.answer(answers),
            late | link,
            answers | link.env.broker.answer(&answers)
        )
    }
    async fn answers(&self, ids: &[String]) -> Result<Vec<Option<String>>> {
        through!(self, "answers", self.env.broker.answers(ids))
    }
    async fn send(&self, shard: ShardId, fields: &Fields) -> Result<()> {
        through!(self, "send", self.env.send(shard, fields), late | link, fields | link.env.send(shard, &fields))
    }
    async fn send_request(&self, shard: ShardId, fields: &Fields) -> Result<()> {
        through!(
            self,
            "send_request",
            self.env.broker.send_request(shard, fields),
            late | link,
            fields | link.env.broker.send_request(shard, &fields)
        )
    }
    async fn open_queue(&self, agent_type: &AgentType) -> Result<()> {
        through!(self, "open_queue", self.env.broker.open_queue(agent_type))
    }
    async fn extend(&self, worker: &WorkerId, leases: &[(AgentType, EntryId)]) -> Result<Vec<bool>> {
        through!(
            self,
            "extend",
            self.env.extend(worker, leases),
            late | link,
            worker,
            leases | link.env.extend(&worker, &leases)
        )
    }
    async fn reclaim(&self, agent_type: &AgentType, idle_ms: u64, limit: usize) -> Result<Vec<Delivery>> {
        through!(self, "reclaim", async {
            let taken = self.env.broker.reclaim(agent_type, idle_ms, limit).await?;
            self.env.delivered(&taken);
            Ok(taken)
        })
    }
    async fn tasks(&self, agent_type: &AgentType, after: &EntryId, limit: usize) -> Result<Vec<Delivery>> {
        through!(self, "tasks", self.env.broker.tasks(agent_type, after, limit))
    }
    async fn discard_tasks(&self, agent_type: &AgentType, entries: &[EntryId]) -> Result<u64> {
        through!(self, "discard_tasks", self.env.broker.discard_tasks(agent_type, entries))
    }
    async fn trim(&self, agent_type: &AgentType) -> Result<()> {
        through!(
            self,
            "trim",
            self.env.broker.trim(agent_type),
            late | link,
            agent_type | link.env.broker.trim(&agent_type)
        )
    }
    async fn queues(&self) -> Result<Vec<QueueState>> {
        through!(self, "queues", self.env.broker.queues())
    }
    async fn pause_queue(&self, agent_type: &AgentType, paused: bool) -> Result<()> {
        through!(self, "pause_queue", self.env.broker.pause_queue(agent_type, paused))
    }
    async fn paused_queues(&self) -> Result<BTreeSet<AgentType>> {
        through!(self, "paused_queues", self.env.broker.paused_queues())
    }
    async fn cancel(&self, tokens: &[AttemptToken]) -> Result<()> {
        through!(self, "cancel", self.env.broker.cancel(tokens), late | link, tokens | link.env.broker.cancel(&tokens))
    }
    async fn cancelled(&self) -> Result<Vec<AttemptToken>> {
        through!(self, "cancelled", self.env.broker.cancelled())
    }
    async fn register(&self, agent: &Agent) -> Result<()> {
        through!(self, "register", self.env.broker.register(agent))
    }
    async fn agents(&self) -> Result<Registry> {
        through!(self, "agents", self.env.broker.agents())
    }
    async fn remove_agent_type(&self, agent_type: &AgentType, unused_ms: u64) -> Result<bool> {
        through!(self, "remove_agent_type", self.env.broker.remove_agent_type(agent_type, unused_ms))
    }
    async fn record_worker_heartbeat(&self, beat: &WorkerBeat) -> Result<u64> {
        self.env.auditor().beat(&beat.worker, beat.slots);
        through!(
            self,
            "record_worker_heartbeat",
            self.env.broker.record_worker_heartbeat(beat),
            late | link,
            beat | link.env.broker.record_worker_heartbeat(&beat)
        )
    }
    async fn deregister_worker(&self, worker: &WorkerId) -> Result<()> {
        through!(self, "deregister_worker", self.env.broker.deregister_worker(worker))
    }
    async fn request_drain(&self, worker: &WorkerId) -> Result<()> {
        through!(self, "request_drain", self.env.broker.request_drain(worker))
    }
    async fn drain_requested(&self, worker: &WorkerId) -> Result<bool> {
        through!(self, "drain_requested", self.env.broker.drain_requested(worker))
    }
    async fn workers(&self, within_ms: u64) -> Result<Vec<WorkerBeat>> {
        through!(self, "workers", self.env.broker.workers(within_ms))
    }
    async fn record_scheduler_heartbeat(&self, id: &str, format: u32, within_ms: u64) -> Result<LiveSchedulers> {
        through!(self, "record_scheduler_heartbeat", self.env.broker.record_scheduler_heartbeat(id, format, within_ms))
    }
    async fn deregister_scheduler(&self, id: &str) -> Result<()> {
        through!(self, "deregister_scheduler", self.env.broker.deregister_scheduler(id))
    }
    async fn add_dead_letter(&self, letter: &DeadLetter) -> Result<()> {
        through!(
            self,
            "add_dead_letter",
            self.env.broker.add_dead_letter(letter),
            late | link,
            letter | link.env.broker.add_dead_letter(&letter)
        )
    }
    async fn dead_letters(&self, agent_type: &AgentType, limit: usize) -> Result<Vec<(EntryId, DeadLetter)>> {
        through!(self, "dead_letters", self.env.broker.dead_letters(agent_type, limit))
    }
    async fn discard_dead_letter(&self, agent_type: &AgentType, entry: &EntryId) -> Result<bool> {
        through!(self, "discard_dead_letter", self.env.broker.discard_dead_letter(agent_type, entry))
    }
    async fn put_blob(&self, key: &str, bytes: &[u8], ttl_ms: u64) -> Result<()> {
        through!(self, "put_blob", self.env.broker.put_blob(key, bytes, ttl_ms))
    }
    async fn get_blob(&self, key: &str) -> Result<Option<Vec<u8>>> {
        through!(self, "get_blob", self.env.broker.get_blob(key))
    }
    async fn remove_blob(&self, key: &str) -> Result<()> {
        through!(self, "remove_blob", self.env.broker.remove_blob(key))
    }
    async fn keep_event(&self, event: &KeptEvent) -> Result<Keeping> {
        through!(self, "keep_event", self.env.broker.keep_event(event))
    }
    async fn kept_events(
        &self,
        namespace: &Namespace,
        topic: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<KeptHead>> {
        through!(self, "kept_events", self.env.broker.kept_events(namespace, topic, after, limit))
    }
    async fn kept_event(&self, namespace: &Namespace, topic: &str, head: &KeptHead) -> Result<Option<String>> {
        through!(self, "kept_event", self.env.broker.kept_event(namespace, topic, head))
    }
    async fn earlier_events(&self, event: &KeptEvent, within_ms: u64, limit: usize) -> Result<Vec<KeptHead>> {
        through!(self, "earlier_events", self.env.broker.earlier_events(event, within_ms, limit))
    }
    async fn take_event(&self, event: &KeptEvent) -> Result<()> {
        through!(self, "take_event", self.env.broker.take_event(event))
    }
    async fn forget_event(&self, event: &KeptEvent) -> Result<()> {
        through!(self, "forget_event", self.env.broker.forget_event(event))
    }
    async fn count_kept_events(&self, namespace: &Namespace) -> Result<u64> {
        through!(self, "count_kept_events", self.env.broker.count_kept_events(namespace))
    }
    async fn put_field(&self, key: &str, field: &str, value: &str) -> Result<()> {
        through!(self, "put_field", self.env.broker.put_field(key, field, value))
    }
    async fn add_field(&self, key: &str, field: &str, value: &str) -> Result<bool> {
        through!(self, "add_field", self.env.broker.add_field(key, field, value))
    }
    async fn get_field(&self, key: &str, field: &str) -> Result<Option<String>> {
        through!(self, "get_field", self.env.broker.get_field(key, field))
    }
    async fn fields(&self, key: &str) -> Result<BTreeMap<String, String>> {
        through!(self, "fields", self.env.broker.fields(key))
    }
    async fn fields_page(&self, key: &str, after: &str, limit: usize) -> Result<FieldsPage> {
        through!(self, "fields_page", self.env.broker.fields_page(key, after, limit))
    }
    async fn remove_field(&self, key: &str, field: &str) -> Result<bool> {
        through!(self, "remove_field", self.env.broker.remove_field(key, field))
    }
    async fn reader(&self) -> Result<Box<dyn Reader>> {
        self.process.pass().await;
        let inner = self.env.broker.reader().await?;
        Ok(Box::new(LinkReader::new(self.clone(), inner)))
    }
}
