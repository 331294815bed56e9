//! Reads that wait, each reader on a connection of its own.
//!
//! A connection that failed is dropped and the next call opens another. Nothing that was in flight is asked for
//! again: submissions come from the scheduler's own pending entries, tasks when their lease runs out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::id::{AgentType, EntryId, PlanId, ShardId, WorkerId};
use goalmill_common::keys;
use goalmill_common::wire::InboxStream;
use redis::{Cmd, RedisResult, Value, cmd};
use tokio::time::Instant;

use super::connection::Connection;
use super::connections::Connections;
use super::error::{is_answer, is_no_group, is_unblocked, is_unknown_function, to_broker_error};
use super::functions;
use super::subscription::Subscription;
use super::wait::Wait;
use super::{Result, reply};
use crate::inbox::sort_by_time;
use crate::{Broadcast, Delivery, Entry, InboxCursor, InboxEntry, LogEntry, Reader, Waker};

/// A reply that is so much later than the wait is not awaited any longer.
const GRACE: Duration = Duration::from_secs(5);

pub(super) struct RedisReader {
    pub(super) connections: Arc<Connections>,
    connection: Option<Connection>,
    messages: Option<Subscription>,
    wait: Arc<Wait>,
    /// Where among the scheduler's own pending submissions to continue; `None` when they are read.
    own: Option<EntryId>,
    /// Which agent type is asked first.
    pub(super) turn: usize,
    /// Agent types whose queue is there, as far as is known.
    pub(super) opened: BTreeSet<AgentType>,
    /// Agent types whose queue is no stream, and since when that is known.
    pub(super) avoided: BTreeMap<AgentType, Instant>,
    /// Whether a command is under way: still so at the next one when its future was dropped.
    asking: bool,
}

impl RedisReader {
    pub(super) fn new(connections: Arc<Connections>) -> Self {
        let wait = Arc::new(Wait::new(connections.clone()));
        Self {
            connections,
            connection: None,
            messages: None,
            wait,
            own: Some(EntryId::start()),
            turn: 0,
            opened: BTreeSet::new(),
            avoided: BTreeMap::new(),
            asking: false,
        }
    }

    /// Sends one command and waits for `block_ms` and some grace.
    pub(super) async fn ask(&mut self, cmd: &Cmd, block_ms: u64) -> Result<RedisResult<Value>> {
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
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => {
                let mut connection = self.connections.dialer.dial().await?;
                self.wait.connected(
                    redis::cmd("CLIENT").arg("ID").query_async(&mut connection).await.map_err(to_broker_error)?,
                );
                self.connection.insert(connection)
            }
        };
        connection.set_response_timeout(Duration::from_millis(block_ms) + GRACE);
        let reply = cmd.query_async(connection).await;
        if reply.as_ref().is_err_and(is_unknown_function) {
            functions::load(connection).await?;
            return Ok(cmd.query_async(connection).await);
        }
        Ok(reply)
    }

    fn disconnect(&mut self) {
        self.connection = None;
        self.own = Some(EntryId::start());
    }

    /// Sends a read; nil when its stream went away.
    pub(super) async fn read_stream(&mut self, cmd: &Cmd, block_ms: u64) -> Result<Value> {
        let reply = self.ask(cmd, block_ms).await?;
        self.nil_if_unblocked(reply).await
    }

    /// Turns the error of a stream that went away during the wait into nil, if the server still has the same installation.
    pub(super) async fn nil_if_unblocked(&self, reply: RedisResult<Value>) -> Result<Value> {
        match reply {
            Ok(reply) => Ok(reply),
            Err(e) if is_unblocked(&e) => {
                self.connections.recognise_server().await?;
                Ok(Value::Nil)
            }
            Err(e) => Err(to_broker_error(e)),
        }
    }

    /// Reads submissions after `id`: own pending ones, or with `>` new ones.
    async fn read_submissions(&mut self, consumer: &str, count: usize, id: &str, block_ms: u64) -> Result<Vec<Entry>> {
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg(keys::SCHEDULERS).arg(consumer).arg("COUNT").arg(count);
        block(&mut read, block_ms);
        read.arg("STREAMS").arg(self.connections.keys.goals()).arg(id);
        let mut reply = self.ask(&read, block_ms).await?;
        if reply.as_ref().is_err_and(is_no_group) {
            self.connections.recognise_server().await?;
            self.connections.create_group(&self.connections.keys.goals(), keys::SCHEDULERS).await?;
            reply = self.ask(&read, block_ms).await?;
        }
        reply::only_stream(self.nil_if_unblocked(reply).await?)
    }
}

#[async_trait]
impl Reader for RedisReader {
    async fn inbox(
        &mut self,
        shard: ShardId,
        after: &InboxCursor,
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<InboxEntry>> {
        let _waiting = self.wait.begin();
        let keys = &self.connections.keys;
        let (reports, requests) = (keys.reports(shard), keys.requests(shard));
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(count.max(1));
        block(&mut read, block_ms);
        read.arg("STREAMS").arg(&reports).arg(&requests).arg(after.reports.as_str()).arg(after.requests.as_str());
        let mut entries = Vec::new();
        for (key, found) in reply::streams(self.read_stream(&read, block_ms).await?)? {
            let stream = if key == requests { InboxStream::Requests } else { InboxStream::Reports };
            entries.extend(found.into_iter().map(|Entry { id, fields }| InboxEntry { stream, id, fields }));
        }
        sort_by_time(&mut entries);
        Ok(entries)
    }

    async fn submissions(&mut self, consumer: &str, count: usize, block_ms: u64) -> Result<Vec<Entry>> {
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
        self.pull_tasks(worker, agent_types, count, block_ms).await
    }

    async fn log(&mut self, plan: &PlanId, after_seq: u64, limit: usize, block_ms: u64) -> Result<Vec<LogEntry>> {
        let _waiting = self.wait.begin();
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(limit.max(1));
        block(&mut read, block_ms);
        read.arg("STREAMS").arg(self.connections.keys.events(plan)).arg(format!("{after_seq}-0"));
        let entries = reply::only_stream(self.read_stream(&read, block_ms).await?)?;
        Ok(entries.into_iter().map(reply::log_entry).collect())
    }

    async fn messages(&mut self, block_ms: u64) -> Result<Vec<Broadcast>> {
        let wait = self.wait.clone();
        let woken = wait.woken();
        tokio::pin!(woken);
        woken.as_mut().enable();
        let Some(subscription) = &mut self.messages else {
            self.messages = Some(Subscription::open(&self.connections.dialer, &self.connections.keys).await?);
            return Ok(Vec::new());
        };
        let messages = subscription.listen(block_ms, woken).await;
        if messages.is_err() {
            self.messages = None;
        }
        messages
    }

    fn waker(&self) -> Arc<dyn Waker> {
        self.wait.clone()
    }
}

/// Makes a read wait. Redis takes 0 as for ever; here it means not at all.
pub(super) fn block(read: &mut Cmd, block_ms: u64) {
    if block_ms > 0 {
        read.arg("BLOCK").arg(block_ms);
    }
}
