//! Task streams: opening, leases, trimming, and how full they are.
//!
//! A lease is trusted until `extension_sent_at + idle_ms`: Redis counts from when it handles the extension, which is
//! never before it was sent, so a worker that counts from the sending stops first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::Duration;

use goalmill_common::id::{AgentType, EntryId, WorkerId, is_id};
use goalmill_common::keys;
use redis::{Value, cmd};
use tokio::time::Instant;

use super::commit::is_entry_id;
use super::connections::Connections;
use super::error::{is_no_group, to_broker_error};
use super::functions::Function;
use super::{Result, reply};
use crate::{Delivery, Entry, KeyTypeMismatch, QueueState};

/// The consumer that holds reclaimed tasks.
const REAPER: &str = "reaper";
/// Entries claimed with one command: keeps the server from stalling.
const CLAIM_PORTION: usize = 100;
/// Commands of one search for idle entries; each looks at up to ten times [`CLAIM_PORTION`].
const CLAIM_ROUNDS: usize = 20;
/// Consumers that hold nothing are forgotten after so long, in milliseconds.
const CONSUMER_IDLE_MS: u64 = 3_600_000;
const PRUNE_EVERY: Duration = Duration::from_mins(1);
const PRUNE_PORTION: usize = 100;

/// Entries that changed hands.
pub(super) struct Claimed {
    pub(super) entries: Vec<Entry>,
    /// Entries that were pending but are gone.
    gone: Vec<EntryId>,
    /// Where to continue; `0-0` at the end.
    next: String,
}

impl Connections {
    pub(super) async fn open_queue(&self, agent_type: &AgentType) -> Result<()> {
        self.create_group(&self.task_stream(agent_type), keys::WORKERS_GROUP).await?;
        self.ask::<Value>(cmd("SADD").arg(self.keys.queues()).arg(agent_type.as_str())).await?;
        Ok(())
    }

    pub(super) async fn extend(&self, worker: &WorkerId, leases: &[(AgentType, EntryId)]) -> Result<Vec<bool>> {
        let mut by_type: BTreeMap<&AgentType, Vec<(usize, &EntryId)>> = BTreeMap::new();
        for (place, (agent_type, id)) in leases.iter().enumerate() {
            if is_entry_id(id) {
                by_type.entry(agent_type).or_default().push((place, id));
            }
        }
        let mut kept = vec![false; leases.len()];
        if by_type.is_empty() {
            return Ok(kept);
        }
        let streams: Vec<_> = by_type.keys().map(|agent_type| self.task_stream(agent_type)).collect();
        let mut call = Function::Extend.on(&streams);
        call.arg(worker.as_str());
        for ids in by_type.values() {
            call.arg(ids.len());
            for (_, id) in ids {
                call.arg(id.as_str());
            }
        }
        let answers: Vec<bool> = self.control.call(&call).await?;
        for ((place, _), answer) in by_type.into_values().flatten().zip(answers) {
            kept[place] = answer;
        }
        Ok(kept)
    }

    pub(super) async fn reclaim(&self, agent_type: &AgentType, idle_ms: u64, limit: usize) -> Result<Vec<Delivery>> {
        let stream = self.task_stream(agent_type);
        let start = self.sweeps.lock().unwrap_or_else(PoisonError::into_inner).remove(agent_type);
        let start = start.as_deref().unwrap_or("0-0");
        let claim = self.claim_idle(&stream, keys::WORKERS_GROUP, REAPER, idle_ms, limit, start).await?;
        if claim.next != "0-0" {
            let mut sweeps = self.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
            sweeps.insert(agent_type.clone(), claim.next);
        }
        let gone = claim.gone.into_iter().map(|id| Entry { id, fields: Vec::new() });
        Ok(claim.entries.into_iter().chain(gone).map(|entry| delivery(agent_type, entry)).collect())
    }

    pub(super) async fn tasks(&self, agent_type: &AgentType, after: &EntryId, limit: usize) -> Result<Vec<Delivery>> {
        let mut read = cmd("XRANGE");
        read.arg(self.task_stream(agent_type)).arg(format!("({after}")).arg("+").arg("COUNT").arg(limit);
        let entries = reply::entries(self.ask(&read).await?)?;
        Ok(entries.into_iter().map(|entry| delivery(agent_type, entry)).collect())
    }

    pub(super) async fn discard_tasks(&self, agent_type: &AgentType, entries: &[EntryId]) -> Result<u64> {
        let mut call = Function::Discard.on(&[self.task_stream(agent_type)]);
        call.arg(keys::WORKERS_GROUP).arg(REAPER);
        for id in entries.iter().filter(|id| is_entry_id(id)) {
            call.arg(id.as_str());
        }
        self.call(&call).await
    }

    pub(super) async fn trim(&self, agent_type: &AgentType) -> Result<()> {
        let stream = self.task_stream(agent_type);
        self.call::<Value>(Function::Trim.on(&[&stream]).arg(keys::WORKERS_GROUP)).await?;
        if self.is_time_to_prune(agent_type) {
            let mut call = Function::Prune.on(&[&stream]);
            call.arg(keys::WORKERS_GROUP).arg(CONSUMER_IDLE_MS).arg(PRUNE_PORTION);
            self.call::<Value>(&call).await?;
        }
        Ok(())
    }

    /// Agent types with a queue or a card. Any client may have written the names; no plan can use one that is no id.
    async fn queue_names(&self) -> Result<BTreeSet<AgentType>> {
        let (queues, agents) = (self.keys.queues(), self.keys.agents());
        let mut names = self.ask_names(cmd("SMEMBERS").arg(&queues), &queues).await?;
        names.extend(self.ask_names(cmd("HKEYS").arg(&agents), &agents).await?);
        Ok(names.into_iter().filter(|name| is_id(name)).map(AgentType::from).collect())
    }

    pub(super) async fn queues(&self) -> Result<Vec<QueueState>> {
        let agent_types: Vec<AgentType> = self.queue_names().await?.into_iter().collect();
        let streams: Vec<_> =
            agent_types.iter().flat_map(|t| [self.task_stream(t), self.keys.dead_letters(t)]).collect();
        let counts: Vec<(u64, u64, u64, String)> = self.call(&Function::Queues.on(&streams)).await?;
        let states =
            agent_types.into_iter().zip(counts).map(|(agent_type, (waiting, pending, dead_letters, found))| {
                let wrong_type = (!found.is_empty()).then(|| self.no_stream(&agent_type, found));
                QueueState { agent_type, waiting, pending, dead_letters, wrong_type }
            });
        Ok(states.collect())
    }

    pub(super) async fn pause_queue(&self, agent_type: &AgentType, paused: bool) -> Result<()> {
        let verb = if paused { "SADD" } else { "SREM" };
        self.ask::<Value>(cmd(verb).arg(self.keys.queues_paused()).arg(agent_type.as_str())).await?;
        Ok(())
    }

    pub(super) async fn paused_queues(&self) -> Result<BTreeSet<AgentType>> {
        let key = self.keys.queues_paused();
        let names = self.ask_names(cmd("SMEMBERS").arg(&key), &key).await?;
        Ok(names.into_iter().map(AgentType::from).collect())
    }

    /// Gives `consumer` at most `limit` entries that no consumer touched for `idle_ms`, searching from `start`.
    pub(super) async fn claim_idle(
        &self,
        stream: &str,
        group: &str,
        consumer: &str,
        idle_ms: u64,
        limit: usize,
        start: &str,
    ) -> Result<Claimed> {
        let mut claimed = Claimed { entries: Vec::new(), gone: Vec::new(), next: start.to_owned() };
        for _ in 0..CLAIM_ROUNDS {
            let left = limit.saturating_sub(claimed.entries.len() + claimed.gone.len());
            if left == 0 {
                break;
            }
            let mut claim = cmd("XAUTOCLAIM");
            claim.arg(stream).arg(group).arg(consumer).arg(idle_ms).arg(&claimed.next);
            claim.arg("COUNT").arg(left.min(CLAIM_PORTION));
            let reply = match self.try_ask::<Value>(&claim).await? {
                Ok(reply) => reply,
                Err(e) if is_no_group(&e) => {
                    self.recognise_server().await?;
                    self.create_group(stream, group).await?;
                    break;
                }
                Err(e) => return Err(to_broker_error(e)),
            };
            let mut parts = reply::list(reply)?.into_iter();
            claimed.next = reply::text(parts.next().unwrap_or_default())?;
            claimed.entries.extend(reply::entries(parts.next().unwrap_or_default())?);
            for id in reply::list(parts.next().unwrap_or_default())? {
                claimed.gone.push(EntryId::from(reply::text(id)?));
            }
            if claimed.next == "0-0" {
                break;
            }
        }
        Ok(claimed)
    }

    fn no_stream(&self, agent_type: &AgentType, found: String) -> KeyTypeMismatch {
        KeyTypeMismatch { key: self.task_stream(agent_type), found, wanted: "stream".into() }
    }

    /// Listing consumers is expensive where there were many: once a minute is enough.
    fn is_time_to_prune(&self, agent_type: &AgentType) -> bool {
        let mut pruned = self.pruned.lock().unwrap_or_else(PoisonError::into_inner);
        if pruned.get(agent_type).is_some_and(|last| last.elapsed() < PRUNE_EVERY) {
            return false;
        }
        pruned.insert(agent_type.clone(), Instant::now());
        true
    }
}

/// An entry of a task stream as a worker gets it.
pub(super) fn delivery(agent_type: &AgentType, mut entry: Entry) -> Delivery {
    let data = reply::take_field(&mut entry.fields, "data");
    Delivery { agent_type: agent_type.clone(), entry: entry.id, data }
}
