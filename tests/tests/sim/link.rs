//! One process's way to the server: the same verbs, with everything that a network can do to them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use goalmill_broker::{
    Broker, BrokerError, Claim, Commit, Committed, DeadLetter, Delivery, Entry, Health, Install, LogEntry, Meta,
    Ownership, QueueState, Reader, Registry,
};
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::{AgentType, AttemptToken, EntryId, PlanId, ShardId, WorkerId};
use goalmill_common::wire::Fields;

use crate::faults::Fate;
use crate::ground::Ground;
use crate::process::Process;
use crate::reader::LinkReader;

type Result<T> = std::result::Result<T, BrokerError>;

/// What a process holds instead of the server.
#[derive(Clone)]
pub struct Link {
    pub ground: Arc<Ground>,
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
    pub fn new(ground: &Arc<Ground>, process: &Arc<Process>) -> Self {
        process.begin_at(ground.epoch());
        Self { ground: ground.clone(), process: process.clone() }
    }

    async fn call<'a, T: Debug + Send>(
        &self,
        verb: &'static str,
        run: impl Fn(()) -> BoxFuture<'a, Result<T>> + Send,
        late: impl FnOnce() -> Option<BoxFuture<'static, ()>> + Send,
    ) -> Result<T> {
        self.process.pass().await;
        let (fate, delay_ms) = self.ground.fate();
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            self.process.pass().await;
        }
        let result = if self.process.notices(self.ground.epoch()) {
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
    /// The contract of [`Broker::open`] and [`Broker::check`] wants it. The embedded back end need not do it, since it
    /// cannot lose its installation without its process; here the server outlives the processes and can turn back.
    async fn recognise(&self) -> Result<()> {
        let meta = self.ground.broker.meta().await?;
        if self.process.misses_installation(meta.as_ref().map(|meta| meta.instance.as_str())) {
            return Err(BrokerError::DataLost("the simulation has turned the installation back".into()));
        }
        Ok(())
    }

    pub fn note<T: Debug>(&self, verb: &'static str, fate: Fate, result: &Result<T>) {
        let at_ms = self.ground.at_ms();
        self.ground.trace().note(format_args!("{at_ms} {} {verb} {fate:?} {result:?}", self.process.name));
    }
}

#[async_trait]
impl Broker for Link {
    async fn open(&self, install: &Install) -> Result<Meta> {
        through!(self, "open", async {
            self.recognise().await?;
            let meta = self.ground.broker.open(install).await?;
            self.process.opened(&meta.instance);
            Ok(meta)
        })
    }
    async fn meta(&self) -> Result<Option<Meta>> {
        through!(self, "meta", self.ground.broker.meta())
    }
    async fn check(&self) -> Result<Health> {
        through!(self, "check", async {
            self.recognise().await?;
            self.ground.broker.check().await
        })
    }
    async fn owner(&self, shard: ShardId) -> Result<Option<Ownership>> {
        through!(self, "owner", self.ground.broker.owner(shard))
    }
    async fn acquire(&self, shard: ShardId, claim: &Claim) -> Result<bool> {
        self.ground.watch().claims(&self.process.name, shard, &claim.token);
        through!(
            self,
            "acquire",
            self.ground.broker.acquire(shard, claim),
            late | link,
            claim | link.ground.broker.acquire(shard, &claim)
        )
    }
    async fn renew(&self, shard: ShardId, token: &str) -> Result<bool> {
        through!(
            self,
            "renew",
            self.ground.broker.renew(shard, token),
            late | link,
            token | link.ground.broker.renew(shard, &token)
        )
    }
    async fn release(&self, shard: ShardId, token: &str) -> Result<()> {
        through!(
            self,
            "release",
            self.ground.broker.release(shard, token),
            late | link,
            token | link.ground.broker.release(shard, &token)
        )
    }
    async fn commit(&self, commit: &Commit) -> Result<Committed> {
        let (at_ms, name) = (self.ground.at_ms(), &self.process.name);
        self.ground.trace().note(format_args!(
            "{at_ms} {name} writes {} {} {} {:?} {:?}",
            commit.shard, commit.token, commit.number, commit.cursor, commit.acknowledged
        ));
        for write in &commit.plans {
            let events = String::from_utf8_lossy(&write.events);
            self.ground.trace().note(format_args!("  {} {}..{} {events}", write.plan, write.base_seq, write.last_seq));
        }
        if let Some(ms) = self.ground.stops_in_commit() {
            self.process.pause(ms);
        }
        through!(self, "commit", self.ground.commit(commit), late | link, commit | link.ground.commit(&commit))
    }
    async fn cursor(&self, shard: ShardId) -> Result<EntryId> {
        through!(self, "cursor", self.ground.cursor(shard))
    }
    async fn active(&self, shard: ShardId) -> Result<Vec<PlanId>> {
        through!(self, "active", self.ground.broker.active(shard))
    }
    async fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<LogEntry>> {
        through!(self, "log", self.ground.broker.log(plan, after_seq, limit))
    }
    async fn summary(&self, plan: &PlanId) -> Result<BTreeMap<String, String>> {
        through!(self, "summary", self.ground.broker.summary(plan))
    }
    async fn plans(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>> {
        through!(self, "plans", self.ground.broker.plans(shard, before_ms, limit))
    }
    async fn sweep_index(&self, shard: ShardId, before_ms: u64) -> Result<u64> {
        through!(self, "sweep_index", self.ground.broker.sweep_index(shard, before_ms))
    }
    async fn submit(&self, fields: &Fields) -> Result<EntryId> {
        through!(
            self,
            "submit",
            self.ground.broker.submit(fields),
            late | link,
            fields | link.ground.broker.submit(&fields)
        )
    }
    async fn reclaim_submissions(&self, consumer: &str, idle_ms: u64, limit: usize) -> Result<Vec<Entry>> {
        through!(self, "reclaim_submissions", self.ground.broker.reclaim_submissions(consumer, idle_ms, limit))
    }
    async fn acknowledge_submissions(&self, ids: &[EntryId]) -> Result<()> {
        through!(
            self,
            "acknowledge_submissions",
            self.ground.broker.acknowledge_submissions(ids),
            late | link,
            ids | link.ground.broker.acknowledge_submissions(&ids)
        )
    }
    async fn answer(&self, answers: &[(String, String)]) -> Result<()> {
        through!(
            self,
            "answer",
            self.ground.broker.answer(answers),
            late | link,
            answers | link.ground.broker.answer(&answers)
        )
    }
    async fn answers(&self, ids: &[String]) -> Result<Vec<Option<String>>> {
        through!(self, "answers", self.ground.broker.answers(ids))
    }
    async fn send(&self, shard: ShardId, fields: &Fields) -> Result<()> {
        through!(self, "send", self.ground.send(shard, fields), late | link, fields | link.ground.send(shard, &fields))
    }
    async fn open_queue(&self, agent_type: &AgentType) -> Result<()> {
        through!(self, "open_queue", self.ground.broker.open_queue(agent_type))
    }
    async fn extend(&self, worker: &WorkerId, leases: &[(AgentType, EntryId)]) -> Result<Vec<bool>> {
        through!(
            self,
            "extend",
            self.ground.broker.extend(worker, leases),
            late | link,
            worker,
            leases | link.ground.broker.extend(&worker, &leases)
        )
    }
    async fn reclaim(&self, agent_type: &AgentType, idle_ms: u64, limit: usize) -> Result<Vec<Delivery>> {
        through!(self, "reclaim", async {
            let taken = self.ground.broker.reclaim(agent_type, idle_ms, limit).await?;
            self.ground.delivered(&taken);
            Ok(taken)
        })
    }
    async fn tasks(&self, agent_type: &AgentType, after: &EntryId, limit: usize) -> Result<Vec<Delivery>> {
        through!(self, "tasks", self.ground.broker.tasks(agent_type, after, limit))
    }
    async fn discard_tasks(&self, agent_type: &AgentType, entries: &[EntryId]) -> Result<u64> {
        through!(self, "discard_tasks", self.ground.broker.discard_tasks(agent_type, entries))
    }
    async fn trim(&self, agent_type: &AgentType) -> Result<()> {
        through!(
            self,
            "trim",
            self.ground.broker.trim(agent_type),
            late | link,
            agent_type | link.ground.broker.trim(&agent_type)
        )
    }
    async fn queues(&self) -> Result<Vec<QueueState>> {
        through!(self, "queues", self.ground.broker.queues())
    }
    async fn pause_queue(&self, agent_type: &AgentType, paused: bool) -> Result<()> {
        through!(self, "pause_queue", self.ground.broker.pause_queue(agent_type, paused))
    }
    async fn paused_queues(&self) -> Result<BTreeSet<AgentType>> {
        through!(self, "paused_queues", self.ground.broker.paused_queues())
    }
    async fn cancel(&self, tokens: &[AttemptToken]) -> Result<()> {
        through!(
            self,
            "cancel",
            self.ground.broker.cancel(tokens),
            late | link,
            tokens | link.ground.broker.cancel(&tokens)
        )
    }
    async fn cancelled(&self) -> Result<Vec<AttemptToken>> {
        through!(self, "cancelled", self.ground.broker.cancelled())
    }
    async fn register(&self, agent: &Agent) -> Result<()> {
        through!(self, "register", self.ground.broker.register(agent))
    }
    async fn agents(&self) -> Result<Registry> {
        through!(self, "agents", self.ground.broker.agents())
    }
    async fn forget_agent_type(&self, agent_type: &AgentType, unused_ms: u64) -> Result<bool> {
        through!(self, "forget_agent_type", self.ground.broker.forget_agent_type(agent_type, unused_ms))
    }
    async fn beat_worker(&self, beat: &WorkerBeat) -> Result<()> {
        self.ground.watch().beat(&beat.worker, beat.slots);
        through!(
            self,
            "beat_worker",
            self.ground.broker.beat_worker(beat),
            late | link,
            beat | link.ground.broker.beat_worker(&beat)
        )
    }
    async fn forget_worker(&self, worker: &WorkerId) -> Result<()> {
        through!(self, "forget_worker", self.ground.broker.forget_worker(worker))
    }
    async fn request_drain(&self, worker: &WorkerId) -> Result<()> {
        through!(self, "request_drain", self.ground.broker.request_drain(worker))
    }
    async fn drain_requested(&self, worker: &WorkerId) -> Result<bool> {
        through!(self, "drain_requested", self.ground.broker.drain_requested(worker))
    }
    async fn workers(&self, within_ms: u64) -> Result<Vec<WorkerBeat>> {
        through!(self, "workers", self.ground.broker.workers(within_ms))
    }
    async fn beat_scheduler(&self, id: &str, within_ms: u64) -> Result<Vec<String>> {
        through!(self, "beat_scheduler", self.ground.broker.beat_scheduler(id, within_ms))
    }
    async fn forget_scheduler(&self, id: &str) -> Result<()> {
        through!(self, "forget_scheduler", self.ground.broker.forget_scheduler(id))
    }
    async fn bury(&self, letter: &DeadLetter) -> Result<()> {
        through!(self, "bury", self.ground.broker.bury(letter), late | link, letter | link.ground.broker.bury(&letter))
    }
    async fn dead_letters(&self, agent_type: &AgentType, limit: usize) -> Result<Vec<(EntryId, DeadLetter)>> {
        through!(self, "dead_letters", self.ground.broker.dead_letters(agent_type, limit))
    }
    async fn discard_dead_letter(&self, agent_type: &AgentType, entry: &EntryId) -> Result<bool> {
        through!(self, "discard_dead_letter", self.ground.broker.discard_dead_letter(agent_type, entry))
    }
    async fn put_blob(&self, key: &str, bytes: &[u8], ttl_ms: u64) -> Result<()> {
        through!(self, "put_blob", self.ground.broker.put_blob(key, bytes, ttl_ms))
    }
    async fn get_blob(&self, key: &str) -> Result<Option<Vec<u8>>> {
        through!(self, "get_blob", self.ground.broker.get_blob(key))
    }
    async fn reader(&self) -> Result<Box<dyn Reader>> {
        self.process.pass().await;
        let inner = self.ground.broker.reader().await?;
        Ok(Box::new(LinkReader::new(self.clone(), inner)))
    }
}
