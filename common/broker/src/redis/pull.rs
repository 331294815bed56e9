//! Takes tasks for a worker: never more than it asked for, of any of its agent types.

use std::time::Duration;

use goalmill_common::id::{AgentType, WorkerId};
use goalmill_common::keys;
use goalmill_common::wire;
use redis::{Cmd, Value, cmd};
use tokio::time::Instant;

use super::error::is_no_group;
use super::functions::Function;
use super::reader::{RedisReader, block};
use super::tasks::delivery;
use super::{Result, reply};
use crate::{BrokerError, Delivery, Entry};

/// A queue whose key is no stream is tried again after so long.
const AVOID: Duration = Duration::from_secs(5);

/// The result of a pull that does not wait.
enum Pulled {
    Tasks(Vec<(String, Vec<Entry>)>),
    Nothing { tops: Vec<String> },
}

impl RedisReader {
    pub(super) async fn pull_tasks(
        &mut self,
        worker: &WorkerId,
        agent_types: &[AgentType],
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<Delivery>> {
        self.avoided.retain(|_, since| since.elapsed() < AVOID);
        let usable = |agent_type: &&AgentType| !self.avoided.contains_key(*agent_type);
        let agent_types: Vec<AgentType> = agent_types.iter().filter(usable).cloned().collect();
        if agent_types.is_empty() {
            tokio::time::sleep(Duration::from_millis(block_ms).min(AVOID)).await;
            return Ok(Vec::new());
        }
        match self.pull_from(worker, &agent_types, count, block_ms).await {
            Err(error @ (BrokerError::Corrupt(_) | BrokerError::WrongType(_))) => {
                if self.avoid_wrong_types(&agent_types).await? { Ok(Vec::new()) } else { Err(error) }
            }
            pulled => pulled,
        }
    }

    /// Keeps queues whose key is no stream out of the next pulls; whether there are any.
    async fn avoid_wrong_types(&mut self, agent_types: &[AgentType]) -> Result<bool> {
        let mut types = redis::pipe();
        for agent_type in agent_types {
            types.cmd("TYPE").arg(self.connections.task_stream(agent_type));
        }
        let types: Vec<String> = self.connections.ask_all(&types).await?;
        let wrong = agent_types.iter().zip(&types).filter(|(_, found)| !matches!(found.as_str(), "stream" | "none"));
        let mut is_any = false;
        for (agent_type, found) in wrong {
            tracing::warn!(
                "no tasks of `{agent_type}` are taken: `{}` is a {found}",
                self.connections.task_stream(agent_type)
            );
            self.avoided.insert(agent_type.clone(), Instant::now());
            self.opened.remove(agent_type);
            is_any = true;
        }
        Ok(is_any)
    }

    async fn pull_from(
        &mut self,
        worker: &WorkerId,
        agent_types: &[AgentType],
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<Delivery>> {
        self.open_queues(agent_types).await?;
        let mut turned = agent_types.to_vec();
        self.turn = self.turn.wrapping_add(1);
        turned.rotate_left(self.turn % agent_types.len());
        let found = match turned.len() {
            1 => self.wait_for_tasks(worker, &turned, count, block_ms).await?,
            _ => self.pull_several(worker, &turned, count, block_ms).await?,
        };
        let mut deliveries = Vec::new();
        for (stream, entries) in found {
            let Some(agent_type) = agent_types.iter().find(|t| self.connections.task_stream(t) == stream) else {
                continue;
            };
            deliveries.extend(entries.into_iter().map(|entry| pulled_delivery(agent_type, entry)));
        }
        Ok(deliveries)
    }

    /// Takes tasks of several agent types. One read over all streams could give up to `count` of each, so what is
    /// there is taken first, and the read that waits may give each stream its share only. Where not even one of
    /// each fits, the wait takes nothing.
    async fn pull_several(
        &mut self,
        worker: &WorkerId,
        agent_types: &[AgentType],
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<(String, Vec<Entry>)>> {
        let until = Instant::now() + Duration::from_millis(block_ms);
        loop {
            let tops = match self.pull_available(worker, agent_types, count).await? {
                Pulled::Tasks(tasks) => return Ok(tasks),
                Pulled::Nothing { tops } => tops,
            };
            let left_ms = u64::try_from(until.duration_since(Instant::now()).as_millis()).unwrap_or(0);
            if left_ms == 0 {
                return Ok(Vec::new());
            }
            if count >= agent_types.len() {
                return self.wait_for_tasks(worker, agent_types, count / agent_types.len(), left_ms).await;
            }
            if !self.wait_for_any(agent_types, &tops, left_ms).await? {
                return Ok(Vec::new());
            }
        }
    }

    /// Takes at most `count` tasks without waiting; without tasks, returns the id of each stream's last entry.
    async fn pull_available(&mut self, worker: &WorkerId, agent_types: &[AgentType], count: usize) -> Result<Pulled> {
        let mut call = Function::Pull.on(&self.streams(agent_types));
        let reply = self.read_tasks(call.arg(worker.as_str()).arg(count), agent_types, 0).await?;
        let items = reply::list(reply)?;
        if matches!(items.first(), Some(Value::Array(_))) {
            return Ok(Pulled::Tasks(reply::streams(Value::Array(items))?));
        }
        Ok(Pulled::Nothing { tops: items.into_iter().map(reply::text).collect::<Result<_>>()? })
    }

    /// Waits for tasks on all streams; `each` is the most that one of them may give.
    async fn wait_for_tasks(
        &mut self,
        worker: &WorkerId,
        agent_types: &[AgentType],
        each: usize,
        block_ms: u64,
    ) -> Result<Vec<(String, Vec<Entry>)>> {
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg(keys::WORKERS_GROUP).arg(worker.as_str()).arg("COUNT").arg(each);
        block(&mut read, block_ms);
        read.arg("STREAMS").arg(self.streams(agent_types));
        for _ in agent_types {
            read.arg(">");
        }
        reply::streams(self.read_tasks(&read, agent_types, block_ms).await?)
    }

    /// Waits for an entry after `tops` without taking it; `false` when there was none.
    async fn wait_for_any(&mut self, agent_types: &[AgentType], tops: &[String], block_ms: u64) -> Result<bool> {
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(1);
        block(&mut read, block_ms);
        read.arg("STREAMS").arg(self.streams(agent_types)).arg(tops);
        Ok(self.read_stream(&read, block_ms).await? != Value::Nil)
    }

    /// Sends a read of tasks. It is sent again when a queue was missing: then nothing was taken.
    async fn read_tasks(&mut self, cmd: &Cmd, agent_types: &[AgentType], block_ms: u64) -> Result<Value> {
        let mut reply = self.ask(cmd, block_ms).await?;
        if reply.as_ref().is_err_and(is_no_group) {
            self.opened.clear();
            self.open_queues(agent_types).await?;
            reply = self.ask(cmd, block_ms).await?;
        }
        self.nil_if_unblocked(reply).await
    }

    /// Opens the queues that this reader has not seen, if the server is still the one we knew.
    async fn open_queues(&mut self, agent_types: &[AgentType]) -> Result<()> {
        if agent_types.iter().all(|agent_type| self.opened.contains(agent_type)) {
            return Ok(());
        }
        self.connections.recognise_server().await?;
        if self.connections.task_streams.get().is_none() {
            self.connections.meta().await?;
        }
        for agent_type in agent_types {
            match self.connections.open_queue(agent_type).await {
                // It is missed later, if it is missing.
                Ok(()) | Err(BrokerError::OutOfMemory) => self.opened.insert(agent_type.clone()),
                Err(e) => return Err(e),
            };
        }
        Ok(())
    }

    fn streams(&self, agent_types: &[AgentType]) -> Vec<String> {
        agent_types.iter().map(|agent_type| self.connections.task_stream(agent_type)).collect()
    }
}

/// A task as a worker gets it. One of another version of the protocol has no data, so the worker ignores it.
fn pulled_delivery(agent_type: &AgentType, mut entry: Entry) -> Delivery {
    let is_known = entry.fields.iter().any(|(name, version)| name == "v" && version == wire::PROTOCOL.as_bytes());
    if !is_known {
        entry.fields.clear();
    }
    delivery(agent_type, entry)
}
