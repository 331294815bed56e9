//! Reads that wait, each reader on a connection of its own.
//!
//! A connection that failed is dropped and the next call opens another. Nothing that was in flight is asked for
//! again: submissions come from the scheduler's own pending entries, tasks when their lease runs out.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::id::{AgentType, AttemptToken, EntryId, PlanId, ShardId, WorkerId};
use goalmill_common::keys;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, PushInfo, PushKind, RedisError, RedisResult, Value, cmd};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, timeout_at};

use super::fault::{fault, is_answer, is_no_group, is_unblocked, is_unknown_function};
use super::functions::{self, Function};
use super::link::Links;
use super::tasks::delivery;
use super::wait::Wait;
use super::{Result, reply};
use crate::{BrokerError, Delivery, Entry, LogEntry, Message, Reader, Waker};

/// A reply that is so much later than the wait is not awaited any longer.
const GRACE: Duration = Duration::from_secs(5);

pub(super) struct RedisReader {
    links: Arc<Links>,
    line: Option<MultiplexedConnection>,
    messages: Option<Subscription>,
    wait: Arc<Wait>,
    /// Where among the scheduler's own pending submissions to go on; `None` when they are read.
    own: Option<EntryId>,
    /// Which agent type is asked first.
    turn: usize,
    /// Whether a command is under way: still so at the next one when its future was dropped.
    asking: bool,
}

struct Subscription {
    /// Keeps the connection open.
    _line: MultiplexedConnection,
    pushes: UnboundedReceiver<PushInfo>,
}

impl RedisReader {
    pub(super) fn new(links: Arc<Links>) -> Self {
        let wait = Arc::new(Wait::new(links.clone()));
        Self {
            links,
            line: None,
            messages: None,
            wait,
            own: Some(EntryId::start()),
            turn: 0,
            asking: false,
        }
    }

    /// Sends one command and waits for `block_ms` and some grace.
    async fn ask(&mut self, cmd: &Cmd, block_ms: u64) -> Result<RedisResult<Value>> {
        if std::mem::replace(&mut self.asking, true) {
            self.disconnect();
        }
        let reply = self.ask_server(cmd, block_ms).await;
        self.asking = false;
        if !matches!(&reply, Ok(Ok(_))) && !matches!(&reply, Ok(Err(e)) if is_answer(e)) {
            self.disconnect();
        }
        reply
    }

    async fn ask_server(&mut self, cmd: &Cmd, block_ms: u64) -> Result<RedisResult<Value>> {
        let line = match &mut self.line {
            Some(line) => line,
            None => {
                let mut line = self.links.dialer.dial().await?;
                self.wait.connected(
                    redis::cmd("CLIENT").arg("ID").query_async(&mut line).await.map_err(fault)?,
                );
                self.line.insert(line)
            }
        };
        line.set_response_timeout(Duration::from_millis(block_ms) + GRACE);
        let reply = cmd.query_async(line).await;
        if reply.as_ref().is_err_and(is_unknown_function) {
            functions::load(line).await?;
            return Ok(cmd.query_async(line).await);
        }
        Ok(reply)
    }

    fn disconnect(&mut self) {
        self.line = None;
        self.own = Some(EntryId::start());
    }

    /// Sends a read; nothing when its stream went away.
    async fn read(&mut self, cmd: &Cmd, block_ms: u64) -> Result<Value> {
        match self.ask(cmd, block_ms).await? {
            Ok(reply) => Ok(reply),
            Err(e) => self.excuse(e, &[]).await,
        }
    }

    /// Makes good for streams and groups that went away, if the server is still the one we knew.
    async fn excuse(&self, error: RedisError, groups: &[(String, &str)]) -> Result<Value> {
        if !is_no_group(&error) && !is_unblocked(&error) {
            return Err(fault(error));
        }
        self.links.recognise_server().await?;
        for (stream, group) in groups {
            self.links.create_group(stream, group).await?;
        }
        Ok(Value::Nil)
    }

    /// Takes at most `count` tasks that are there; or else says for each stream what its last entry is.
    async fn take(&mut self, worker: &WorkerId, streams: &[String], count: usize) -> Result<Taken> {
        let mut call = Function::Pull.on(streams);
        let reply = self.ask(call.arg(worker.as_str()).arg(count), 0).await?;
        let Value::Array(items) = self.tasks(reply, streams).await? else {
            return Ok(Taken::Tasks(Vec::new()));
        };
        if matches!(items.first(), Some(Value::Array(_))) {
            return Ok(Taken::Tasks(reply::streams(Value::Array(items))?));
        }
        Ok(Taken::Nothing { tops: items.into_iter().map(reply::text).collect::<Result<_>>()? })
    }

    /// A reply about task streams; nothing when one had to be made.
    async fn tasks(&self, reply: RedisResult<Value>, streams: &[String]) -> Result<Value> {
        match reply {
            Ok(reply) => Ok(reply),
            Err(e) => {
                let groups: Vec<_> =
                    streams.iter().map(|stream| (stream.clone(), keys::WORKERS_GROUP)).collect();
                self.excuse(e, &groups).await
            }
        }
    }

    /// Waits for tasks on all streams; `each` is the most that one of them may give.
    async fn wait_for_tasks(
        &mut self,
        worker: &WorkerId,
        streams: &[String],
        each: usize,
        block_ms: u64,
    ) -> Result<Vec<(String, Vec<Entry>)>> {
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg(keys::WORKERS_GROUP).arg(worker.as_str()).arg("COUNT").arg(each);
        block(&mut read, block_ms);
        read.arg("STREAMS").arg(streams);
        for _ in streams {
            read.arg(">");
        }
        let reply = self.ask(&read, block_ms).await?;
        reply::streams(self.tasks(reply, streams).await?)
    }

    /// Waits for an entry after `tops` without taking it; `false` when there was none.
    async fn wait_for_any(
        &mut self,
        streams: &[String],
        tops: &[String],
        block_ms: u64,
    ) -> Result<bool> {
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(1);
        block(&mut read, block_ms);
        read.arg("STREAMS").arg(streams).arg(tops);
        Ok(self.read(&read, block_ms).await? != Value::Nil)
    }

    /// Takes tasks of several agent types. One read over all streams could give up to `count` of each, so what is
    /// there is taken first, and the read that waits may give each stream its share only. Where not even one of
    /// each fits, the wait takes nothing.
    async fn pull_several(
        &mut self,
        worker: &WorkerId,
        streams: &[String],
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<(String, Vec<Entry>)>> {
        let until = Instant::now() + Duration::from_millis(block_ms);
        loop {
            let tops = match self.take(worker, streams, count).await? {
                Taken::Tasks(tasks) => return Ok(tasks),
                Taken::Nothing { tops } => tops,
            };
            let left_ms =
                u64::try_from(until.duration_since(Instant::now()).as_millis()).unwrap_or(0);
            if left_ms == 0 {
                return Ok(Vec::new());
            }
            if count >= streams.len() {
                return self.wait_for_tasks(worker, streams, count / streams.len(), left_ms).await;
            }
            if !self.wait_for_any(streams, &tops, left_ms).await? {
                return Ok(Vec::new());
            }
        }
    }

    /// Reads submissions after `id`: own pending ones, or with `>` new ones.
    async fn read_submissions(
        &mut self,
        consumer: &str,
        count: usize,
        id: &str,
        block_ms: u64,
    ) -> Result<Vec<Entry>> {
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg(keys::SCHEDULERS).arg(consumer).arg("COUNT").arg(count);
        block(&mut read, block_ms);
        read.arg("STREAMS").arg(keys::GOALS).arg(id);
        let reply = match self.ask(&read, block_ms).await? {
            Ok(reply) => reply,
            Err(e) => self.excuse(e, &[(keys::GOALS.to_owned(), keys::SCHEDULERS)]).await?,
        };
        reply::only_stream(reply)
    }

    async fn subscribe(&mut self) -> Result<()> {
        let (sender, pushes) = unbounded_channel();
        let mut line = self.links.dialer.dial_messages(sender).await?;
        line.subscribe(&[keys::CANCEL, keys::AGENTS_CHANGED]).await.map_err(fault)?;
        self.messages = Some(Subscription { _line: line, pushes });
        Ok(())
    }
}

enum Taken {
    Tasks(Vec<(String, Vec<Entry>)>),
    Nothing { tops: Vec<String> },
}

#[async_trait]
impl Reader for RedisReader {
    async fn inbox(
        &mut self,
        shard: ShardId,
        after: &EntryId,
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<Entry>> {
        let _waiting = self.wait.begin();
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(count.max(1));
        block(&mut read, block_ms);
        read.arg("STREAMS").arg(keys::reports(shard)).arg(after.as_str());
        reply::only_stream(self.read(&read, block_ms).await?)
    }

    async fn submissions(
        &mut self,
        consumer: &str,
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<Entry>> {
        let _waiting = self.wait.begin();
        let count = count.max(1);
        if let Some(after) = self.own.clone() {
            let entries = self.read_submissions(consumer, count, after.as_str(), 0).await?;
            self.own = entries.last().map(|entry| entry.id.clone());
            if !entries.is_empty() {
                return Ok(entries);
            }
        }
        self.read_submissions(consumer, count, ">", block_ms).await
    }

    async fn pull(
        &mut self,
        worker: &WorkerId,
        agent_types: &[AgentType],
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<Delivery>> {
        if agent_types.is_empty() || count == 0 {
            return Ok(Vec::new());
        }
        let wait = self.wait.clone();
        let _waiting = wait.begin();
        self.turn = self.turn.wrapping_add(1);
        let streams: Vec<String> = (0..agent_types.len())
            .map(|place| {
                keys::steps(&agent_types[self.turn.wrapping_add(place) % agent_types.len()])
            })
            .collect();
        let found = match streams.len() {
            1 => self.wait_for_tasks(worker, &streams, count, block_ms).await?,
            _ => self.pull_several(worker, &streams, count, block_ms).await?,
        };
        let mut deliveries = Vec::new();
        for (stream, entries) in found {
            let Some(agent_type) = agent_types.iter().find(|t| keys::steps(t) == stream) else {
                continue;
            };
            deliveries.extend(entries.into_iter().map(|entry| delivery(agent_type, entry)));
        }
        Ok(deliveries)
    }

    async fn log(
        &mut self,
        plan: &PlanId,
        after_seq: u64,
        limit: usize,
        block_ms: u64,
    ) -> Result<Vec<LogEntry>> {
        let _waiting = self.wait.begin();
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(limit.max(1));
        block(&mut read, block_ms);
        read.arg("STREAMS").arg(keys::events(plan)).arg(format!("{after_seq}-0"));
        let entries = reply::only_stream(self.read(&read, block_ms).await?)?;
        Ok(entries.into_iter().map(reply::log_entry).collect())
    }

    async fn messages(&mut self, block_ms: u64) -> Result<Vec<Message>> {
        let wait = self.wait.clone();
        let woken = wait.woken();
        tokio::pin!(woken);
        woken.as_mut().enable();
        let Some(subscription) = &mut self.messages else {
            self.subscribe().await?;
            return Ok(Vec::new());
        };
        let until = Instant::now() + Duration::from_millis(block_ms);
        let mut said = Vec::new();
        loop {
            let push = match subscription.pushes.try_recv() {
                Ok(push) => push,
                Err(_) if !said.is_empty() || block_ms == 0 => return Ok(said),
                Err(_) => {
                    let next = async {
                        tokio::select! {
                            biased;
                            push = subscription.pushes.recv() => Some(push),
                            () = &mut woken => None,
                        }
                    };
                    match timeout_at(until, next).await {
                        Ok(Some(push)) => push.unwrap_or(PushInfo {
                            kind: PushKind::Disconnection,
                            data: Vec::new(),
                        }),
                        Ok(None) | Err(_) => return Ok(said),
                    }
                }
            };
            if push.kind == PushKind::Disconnection {
                self.messages = None;
                return Err(BrokerError::Unavailable("the connection for messages broke".into()));
            }
            said.extend(message(push));
        }
    }

    fn waker(&self) -> Arc<dyn Waker> {
        self.wait.clone()
    }
}

/// Makes a read wait. Redis takes 0 as for ever; here it means not at all.
fn block(read: &mut Cmd, block_ms: u64) {
    if block_ms > 0 {
        read.arg("BLOCK").arg(block_ms);
    }
}

/// Reads a push; `None` when it is not a message of ours.
fn message(push: PushInfo) -> Option<Message> {
    if push.kind != PushKind::Message {
        return None;
    }
    let mut data = push.data.into_iter();
    let channel = reply::text(data.next()?).ok()?;
    let payload = reply::text(data.next()?).ok()?;
    match channel.as_str() {
        keys::CANCEL => {
            Some(Message::Cancel(payload.split_whitespace().map(AttemptToken::from).collect()))
        }
        keys::AGENTS_CHANGED => Some(Message::AgentsChanged(AgentType::from(payload))),
        _ => None,
    }
}
