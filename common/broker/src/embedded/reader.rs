//! Reads that wait, in Tokio's time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::id::{AgentType, PlanId, ShardId, WorkerId};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::core::Core;
use super::record::Write;
use super::signals::Topic;
use super::stream::Id;
use crate::{Broadcast, BrokerError, Delivery, Entry, InboxCursor, InboxEntry, LogEntry, Reader, Waker};

/// Longest wait; longer ones are cut, since the timer cannot hold them.
const WAIT_MS_MAX: u64 = 365 * 86_400_000;

pub(super) struct EmbeddedReader {
    core: Arc<Core>,
    number: u64,
    /// Something of interest was written.
    signalled: Arc<Notify>,
    /// Somebody ends the wait.
    woken: Arc<Wake>,
    history: History,
    /// Which agent type is asked first.
    turn: usize,
}

/// How far a reader of submissions got with those taken before it was opened.
enum History {
    After(Id),
    Done,
}

impl EmbeddedReader {
    pub(super) fn new(core: Arc<Core>) -> Self {
        let number = core.inspect(|store, _| store.signals.next_reader());
        let (signalled, woken) = (Arc::default(), Arc::default());
        Self { core, number, signalled, woken, history: History::After(Id::default()), turn: 0 }
    }

    /// Tries until there is something, the time is over, or somebody wakes the reader.
    async fn wait<T>(
        &self,
        topics: &[Topic],
        block_ms: u64,
        mut attempt: impl FnMut() -> Result<Vec<T>, BrokerError> + Send,
    ) -> Result<Vec<T>, BrokerError> {
        let first = attempt()?;
        if !first.is_empty() || block_ms == 0 {
            return Ok(first);
        }
        let _waiting = ReaderWait::begin(self, topics);
        let end = Instant::now() + Duration::from_millis(block_ms.min(WAIT_MS_MAX));
        loop {
            let found = attempt()?;
            if !found.is_empty() {
                return Ok(found);
            }
            tokio::select! {
                biased;
                () = self.woken.0.notified() => return Ok(Vec::new()),
                () = self.signalled.notified() => {}
                () = tokio::time::sleep_until(end) => return attempt(),
            }
        }
    }
}

impl Drop for EmbeddedReader {
    fn drop(&mut self) {
        self.core.inspect(|store, _| store.signals.unsubscribe(self.number));
    }
}

#[async_trait]
impl Reader for EmbeddedReader {
    async fn inbox(
        &mut self,
        shard: ShardId,
        after: &InboxCursor,
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<InboxEntry>, BrokerError> {
        let attempt = || self.core.read_store(|store, _| store.inbox(shard, after, count));
        self.wait(&[Topic::Inbox(shard)], block_ms, attempt).await
    }

    async fn submissions(&mut self, consumer: &str, count: usize, block_ms: u64) -> Result<Vec<Entry>, BrokerError> {
        let consumer = WorkerId::from(consumer);
        if let History::After(after) = self.history {
            let record = |taken: &Vec<Entry>| {
                (!taken.is_empty()).then(|| Write::RetakeSubmissions(consumer.clone(), after, count))
            };
            let taken = self.core.write(|store, now| store.retake_submissions(&consumer, after, count, now), record)?;
            if let Some(last) = taken.last() {
                self.history = History::After(Id::parse(&last.id));
                return Ok(taken);
            }
            self.history = History::Done;
        }
        let record =
            |taken: &Vec<Entry>| (!taken.is_empty()).then(|| Write::TakeSubmissions(consumer.clone(), taken.len()));
        let attempt = || self.core.write(|store, now| store.take_submissions(&consumer, count, now), record);
        self.wait(&[Topic::Submissions], block_ms, attempt).await
    }

    async fn pull(
        &mut self,
        worker: &WorkerId,
        agent_types: &[AgentType],
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<Delivery>, BrokerError> {
        if agent_types.is_empty() || count == 0 {
            return Ok(Vec::new());
        }
        for agent_type in agent_types {
            if self.core.read_store(|store, _| !store.queue_exists(agent_type))? {
                let record = |(): &()| Some(Write::OpenQueue(agent_type.clone()));
                self.core.write(|store, _| store.open_queue(agent_type), record)?;
            }
        }
        // A full stream must not starve the others.
        self.turn = self.turn.wrapping_add(1);
        let first = self.turn % agent_types.len();
        let mut agent_types = agent_types.to_vec();
        agent_types.rotate_left(first);
        let agent_types = agent_types.as_slice();
        let topics: Vec<Topic> = agent_types.iter().cloned().map(Topic::Tasks).collect();
        let record =
            |taken: &Vec<Delivery>| (!taken.is_empty()).then(|| Write::Pull(worker.clone(), agent_types.into(), count));
        let attempt = || self.core.write(|store, now| store.pull(worker, agent_types, count, now), record);
        self.wait(&topics, block_ms, attempt).await
    }

    async fn log(
        &mut self,
        plan: &PlanId,
        after_seq: u64,
        limit: usize,
        block_ms: u64,
    ) -> Result<Vec<LogEntry>, BrokerError> {
        let attempt = || self.core.read_store(|store, _| store.log(plan, after_seq, limit));
        self.wait(&[Topic::Log(plan.clone())], block_ms, attempt).await
    }

    async fn messages(&mut self, block_ms: u64) -> Result<Vec<Broadcast>, BrokerError> {
        if self.core.inspect(|store, _| store.signals.subscribe(self.number)) {
            return Ok(Vec::new());
        }
        let attempt = || self.core.read_store(|store, _| store.signals.take_messages(self.number));
        self.wait(&[Topic::Messages], block_ms, attempt).await
    }

    fn waker(&self) -> Arc<dyn Waker> {
        Arc::clone(&self.woken) as Arc<dyn Waker>
    }
}

/// Ends a wait; when there is none, the next one, so that a wake between two reads is not lost.
#[derive(Default)]
struct Wake(Notify);

#[async_trait]
impl Waker for Wake {
    async fn wake(&self) {
        self.0.notify_one();
    }
}

/// A reader's place among those who wait, given up also when its future is dropped.
struct ReaderWait<'a> {
    reader: &'a EmbeddedReader,
    topics: &'a [Topic],
}

impl<'a> ReaderWait<'a> {
    fn begin(reader: &'a EmbeddedReader, topics: &'a [Topic]) -> Self {
        reader.core.inspect(|store, _| {
            for topic in topics {
                store.signals.wait(topic, reader.number, &reader.signalled);
            }
        });
        Self { reader, topics }
    }
}

impl Drop for ReaderWait<'_> {
    fn drop(&mut self) {
        self.reader.core.inspect(|store, _| {
            for topic in self.topics {
                store.signals.stop_waiting(topic, self.reader.number);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use goalmill_common::clock::Clock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_passes_in_virtual_time() {
        let broker = crate::embedded::open(None, Clock::from_fn(|| 5)).unwrap();
        let mut reader = broker.reader().await.unwrap();
        let begun = Instant::now();
        assert!(reader.submissions("one", 9, 3_600_000).await.unwrap().is_empty());
        assert_eq!(begun.elapsed(), Duration::from_hours(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_before_the_wait_is_not_lost() {
        let broker = crate::embedded::open(None, Clock::from_fn(|| 5)).unwrap();
        let mut reader = broker.reader().await.unwrap();
        reader.waker().wake().await;
        let begun = Instant::now();
        assert!(reader.submissions("one", 9, 3_600_000).await.unwrap().is_empty());
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_wait_takes_nothing_with_it() {
        let broker = crate::embedded::open(None, Clock::from_fn(|| 5)).unwrap();
        let mut reader = broker.reader().await.unwrap();
        let wait = reader.submissions("one", 9, 3_600_000);
        assert!(tokio::time::timeout(Duration::from_secs(1), wait).await.is_err());
        let id = broker.submit(&vec![("id".into(), b"r1".to_vec())]).await.unwrap();
        assert_eq!(reader.submissions("one", 9, 0).await.unwrap()[0].id, id);
    }
}
