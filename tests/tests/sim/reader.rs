//! Reads that wait, over a network that fails.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use goalmill_broker::{Broadcast, BrokerError, Delivery, Entry, InboxCursor, InboxEntry, LogEntry, Reader, Waker};
use goalmill_common::id::{AgentType, PlanId, ShardId, WorkerId};

use crate::faults::Fate;
use crate::link::{Link, lost};

type Result<T> = std::result::Result<T, BrokerError>;

/// A reader of one process; of no use once the server has turned back.
pub struct LinkReader {
    link: Link,
    epoch: u64,
    /// Whether an inbox was read: the first read begins where the journal said.
    has_read: bool,
    inner: Box<dyn Reader>,
}

/// How a read ends.
enum ReadFate {
    Go { loses_reply: bool },
    Fail,
}

impl LinkReader {
    pub fn new(link: Link, inner: Box<dyn Reader>) -> Self {
        let epoch = link.env.epoch();
        Self { link, epoch, has_read: false, inner }
    }

    async fn read<T: Debug + Send>(
        &mut self,
        verb: &'static str,
        run: impl for<'b> FnOnce(&'b mut dyn Reader) -> BoxFuture<'b, Result<Vec<T>>> + Send,
    ) -> Result<Vec<T>> {
        let (fate, way) = self.draw_fate().await;
        let result = match way {
            ReadFate::Fail => Err(lost("request")),
            ReadFate::Go { loses_reply } => {
                let found = run(self.inner.as_mut()).await;
                if loses_reply || self.epoch != self.link.env.epoch() { Err(lost("reply")) } else { found }
            }
        };
        if !matches!(&result, Ok(found) if found.is_empty()) {
            self.link.note(verb, fate, &result);
        }
        self.link.process.pass().await;
        result
    }

    async fn draw_fate(&mut self) -> (Fate, ReadFate) {
        self.link.process.pass().await;
        let (fate, delay_ms) = self.link.env.fate();
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            self.link.process.pass().await;
        }
        let way = match fate {
            _ if self.epoch != self.link.env.epoch() => ReadFate::Fail,
            Fate::LostRequest | Fate::Late(_) => ReadFate::Fail,
            Fate::LostReply => ReadFate::Go { loses_reply: true },
            Fate::Well | Fate::Twice => ReadFate::Go { loses_reply: false },
        };
        (fate, way)
    }
}

#[async_trait]
impl Reader for LinkReader {
    async fn inbox(
        &mut self,
        shard: ShardId,
        after: &InboxCursor,
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<InboxEntry>> {
        if !std::mem::replace(&mut self.has_read, true) {
            self.link.env.auditor().begins_to_read(&self.link.process.name, shard, after);
        }
        let (after, from) = (after.clone(), after.clone());
        let found = self
            .read("inbox", |reader| Box::pin(async move { reader.inbox(shard, &from, count, block_ms).await }))
            .await?;
        if !found.is_empty() {
            let mut read_to = after;
            read_to.advance_past(&found);
            self.link.env.auditor().has_read(shard, &read_to);
        }
        Ok(found)
    }

    async fn submissions(&mut self, consumer: &str, count: usize, block_ms: u64) -> Result<Vec<Entry>> {
        let consumer = consumer.to_owned();
        self.read("submissions", |reader| Box::pin(async move { reader.submissions(&consumer, count, block_ms).await }))
            .await
    }

    async fn pull(
        &mut self,
        worker: &WorkerId,
        agent_types: &[AgentType],
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<Delivery>> {
        let (worker, agent_types, env) = (worker.clone(), agent_types.to_vec(), self.link.env.clone());
        self.read("pull", |reader| {
            Box::pin(async move {
                let found = reader.pull(&worker, &agent_types, count, block_ms).await?;
                env.delivered(&found);
                Ok(found)
            })
        })
        .await
    }

    async fn log(&mut self, plan: &PlanId, after_seq: u64, limit: usize, block_ms: u64) -> Result<Vec<LogEntry>> {
        let plan = plan.clone();
        self.read("follow_log", |reader| Box::pin(async move { reader.log(&plan, after_seq, limit, block_ms).await }))
            .await
    }

    async fn messages(&mut self, block_ms: u64) -> Result<Vec<Broadcast>> {
        self.read("messages", |reader| Box::pin(async move { reader.messages(block_ms).await })).await
    }

    fn waker(&self) -> Arc<dyn Waker> {
        self.inner.waker()
    }
}
