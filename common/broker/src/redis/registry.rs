//! The registry of agent types, workers and schedulers; cancelled attempts.

use std::collections::BTreeMap;

use goalmill_common::agent::{Agent, SILENCE_MS_MAX, WorkerBeat};
use goalmill_common::card::read_card;
use goalmill_common::id::{AgentType, AttemptToken, ShardId, WorkerId};
use goalmill_common::number::whole_u64;
use goalmill_common::problem::Issue;
use goalmill_common::shard_load::Loads;
use redis::{Value, cmd, pipe};
use serde::de::DeserializeOwned;

use super::Result;
use super::connections::Connections;
use super::functions::Function;
use super::subscription::Subscription;
use crate::values::{LiveSchedulers, RefusedCard, Registry};
use crate::verbs::CANCELLED_MS;

/// Workers and schedulers that were not seen for so long are forgotten, in milliseconds.
const REMEMBER_MS: u64 = 24 * 3_600_000;

impl Connections {
    pub(super) async fn cancel(&self, tokens: &[AttemptToken]) -> Result<()> {
        if tokens.is_empty() {
            return Ok(());
        }
        let mut call = Function::Cancel.on(&[self.keys.cancelled()]);
        call.arg(self.keys.cancel()).arg(CANCELLED_MS);
        for token in tokens {
            call.arg(token.as_str());
        }
        self.call::<Value>(&call).await?;
        Ok(())
    }

    pub(super) async fn cancelled(&self) -> Result<Vec<AttemptToken>> {
        let tokens = self.recent(&self.keys.cancelled(), CANCELLED_MS).await?;
        Ok(tokens.into_iter().map(|(token, _)| AttemptToken::from(token)).collect())
    }

    pub(super) async fn register(&self, agent: &Agent) -> Result<()> {
        let agent_type = agent.agent_type.as_str();
        let mut pipe = pipe();
        pipe.cmd("HSET").arg(self.keys.agents()).arg(agent_type).arg(json(agent));
        pipe.cmd("PUBLISH").arg(self.keys.agents_changed()).arg(agent_type);
        self.ask_all::<Value>(&pipe).await?;
        Ok(())
    }

    pub(super) async fn agents(&self) -> Result<Registry> {
        let cards: Vec<(Vec<u8>, Vec<u8>)> = self.ask(cmd("HGETALL").arg(self.keys.agents())).await?;
        let mut registry = Registry::default();
        for (name, text) in cards {
            match parse_card(&name, &text) {
                Ok(agent) => registry.agents.push(agent),
                Err(issues) => {
                    registry.refused.push(RefusedCard { name: String::from_utf8_lossy(&name).into_owned(), issues });
                }
            }
        }
        registry.agents.sort_by(|a, b| a.agent_type.cmp(&b.agent_type));
        registry.refused.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(registry)
    }

    pub(super) async fn remove_agent_type(&self, agent_type: &AgentType, unused_ms: u64) -> Result<bool> {
        let (steps, dead) = (self.task_stream(agent_type), self.keys.dead_letters(agent_type));
        let mut call = Function::RemoveType.on(&[self.keys.queues(), self.keys.agents(), steps, dead]);
        call.arg(agent_type.as_str()).arg(json(&Agent::named(agent_type.clone()))).arg(unused_ms);
        self.call(&call).await
    }

    pub(super) async fn record_worker_heartbeat(&self, beat: &WorkerBeat) -> Result<u64> {
        let mut call = Function::RecordWorkerHeartbeat.on(&[self.keys.workers(), self.keys.worker_beats()]);
        self.call(call.arg(beat.worker.as_str()).arg(json(beat)).arg(REMEMBER_MS)).await
    }

    pub(super) async fn deregister_worker(&self, worker: &WorkerId) -> Result<()> {
        let mut pipe = pipe();
        pipe.cmd("ZREM").arg(self.keys.workers()).arg(worker.as_str());
        pipe.cmd("HDEL").arg(self.keys.worker_beats()).arg(worker.as_str());
        pipe.cmd("DEL").arg(self.keys.drain_request(worker));
        self.ask_all::<Value>(&pipe).await?;
        Ok(())
    }

    pub(super) async fn request_drain(&self, worker: &WorkerId) -> Result<()> {
        self.ask::<Value>(cmd("SET").arg(self.keys.drain_request(worker)).arg("1").arg("PX").arg(REMEMBER_MS)).await?;
        Ok(())
    }

    pub(super) async fn drain_requested(&self, worker: &WorkerId) -> Result<bool> {
        self.ask(cmd("EXISTS").arg(self.keys.drain_request(worker))).await
    }

    pub(super) async fn workers(&self, within_ms: u64) -> Result<Vec<WorkerBeat>> {
        let seen = self.recent(&self.keys.workers(), within_ms.max(SILENCE_MS_MAX)).await?;
        if seen.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = pipe();
        pipe.cmd("TIME").cmd("HMGET").arg(self.keys.worker_beats());
        for (worker, _) in &seen {
            pipe.arg(worker);
        }
        let (time, texts): ((u64, u64), Vec<Option<Vec<u8>>>) = self.ask_all(&pipe).await?;
        let now_ms = time.0 * 1_000 + time.1 / 1_000;
        let beats = seen.into_iter().zip(texts).filter_map(|((_, seen_ms), text)| {
            let beat = WorkerBeat { seen_ms, ..parse_entry(&self.keys.worker_beats(), &text?)? };
            beat.is_live(within_ms, now_ms).then_some(beat)
        });
        let mut beats: Vec<_> = beats.collect();
        beats.sort_by(|a, b| a.worker.cmp(&b.worker));
        Ok(beats)
    }

    pub(super) async fn record_scheduler_heartbeat(
        &self,
        id: &str,
        format: u32,
        within_ms: u64,
    ) -> Result<LiveSchedulers> {
        let keys = [self.keys.schedulers(), self.keys.scheduler_formats()];
        let mut call = Function::RecordSchedulerHeartbeat.on(&keys);
        call.arg(id).arg(format).arg(within_ms).arg(REMEMBER_MS);
        let (formats, before, now): (BTreeMap<Vec<u8>, Vec<u8>>, String, String) = self.call(&call).await?;
        let names = self.readable(&self.keys.schedulers(), formats.keys().cloned().collect());
        let (before_ms, now_ms) = (before.parse().ok().map(whole_u64), now.parse().ok());
        let mut live = LiveSchedulers { before_ms, now_ms, ..LiveSchedulers::default() };
        for name in names {
            // Only builds write it: what is no number is of none that this one knows.
            let text = formats.get(name.as_bytes()).and_then(|text| std::str::from_utf8(text).ok());
            match text.and_then(|text| text.parse().ok()).unwrap_or(0) {
                its_format if its_format == format => live.sharing.push(name),
                its_format => live.others.push((name, its_format)),
            }
        }
        Ok(live)
    }

    /// Subscribes to the scheduler's own channel at the current primary, unless it is.
    pub(super) async fn announce_presence(&self, id: &str) -> Result<()> {
        let mut presence = self.presence.lock().await;
        if presence.get_mut(id).is_none_or(Subscription::is_broken) {
            let subscription = Subscription::open_presence(&self.dialer, &self.keys, id).await?;
            presence.insert(id.to_owned(), subscription);
        }
        Ok(())
    }

    pub(super) async fn are_present(&self, ids: &[String]) -> Result<Vec<bool>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let channels: Vec<String> = ids.iter().map(|id| self.keys.presence(id)).collect();
        let counts: Vec<(String, u64)> = self.ask(cmd("PUBSUB").arg("NUMSUB").arg(channels)).await?;
        Ok(counts.into_iter().map(|(_, subscribers)| subscribers > 0).collect())
    }

    pub(super) async fn deregister_scheduler(&self, id: &str) -> Result<()> {
        let mut pipe = pipe();
        pipe.cmd("ZREM").arg(self.keys.schedulers()).arg(id);
        pipe.cmd("HDEL").arg(self.keys.scheduler_formats()).arg(id);
        self.ask_all::<Value>(&pipe).await?;
        Ok(())
    }

    pub(super) async fn share_loads(&self, loads: &[(ShardId, Loads)]) -> Result<()> {
        if loads.is_empty() {
            return Ok(());
        }
        let mut hset = cmd("HSET");
        hset.arg(self.keys.loads());
        for (shard, loads) in loads {
            hset.arg(shard.0).arg(json(loads));
        }
        self.ask::<Value>(&hset).await?;
        Ok(())
    }

    pub(super) async fn loads(&self) -> Result<BTreeMap<ShardId, Loads>> {
        let texts: Vec<(Vec<u8>, Vec<u8>)> = self.ask(cmd("HGETALL").arg(self.keys.loads())).await?;
        let load = |(shard, text): (Vec<u8>, Vec<u8>)| {
            let shard = std::str::from_utf8(&shard).ok()?.parse().ok()?;
            Some((ShardId(shard), parse_entry(&self.keys.loads(), &text)?))
        };
        Ok(texts.into_iter().filter_map(load).collect())
    }

    /// Members of a ZSET of times that are younger than `within_ms`, with their times.
    async fn recent(&self, key: &str, within_ms: u64) -> Result<Vec<(String, u64)>> {
        let found: Vec<(Vec<u8>, f64)> = self.call(Function::Recent.on(&[key]).arg(within_ms)).await?;
        let text = |(member, score)| Some((String::from_utf8(member).ok()?, whole_u64(score)));
        Ok(found.into_iter().filter_map(text).collect())
    }
}

/// Parses a card, which must stand under its own name.
fn parse_card(name: &[u8], text: &[u8]) -> std::result::Result<Agent, Vec<Issue>> {
    let agent = read_card(text)?;
    if agent.agent_type.as_str().as_bytes() == name {
        return Ok(agent);
    }
    Err(vec![Issue {
        code: "CONFLICTING_FIELDS".into(),
        pointer: "/agent_type".into(),
        detail: format!("the card says `{}`, and stands under another name", agent.agent_type),
        hint: "give the card the name of its field in the hash".into(),
    }])
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("a registration always has a JSON text")
}

/// Parses an entry that any client may have written; `None` when it cannot be parsed.
fn parse_entry<T: DeserializeOwned>(key: &str, text: &[u8]) -> Option<T> {
    serde_json::from_slice(text).inspect_err(|e| tracing::warn!("an entry of `{key}` cannot be read: {e}")).ok()
}
