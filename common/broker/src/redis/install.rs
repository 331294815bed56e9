//! Start-up checks: version, configuration, instance id, health.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use goalmill_common::id::{AgentType, ShardId};
use goalmill_common::keys::{self, Keys, TaskStreams};
use goalmill_common::limits::TaskLimits;
use goalmill_common::wire;
use redis::{Value, cmd, pipe};
use tokio::time::Instant;

use super::Result;
use super::commit::{shard_keys, type_mismatches};
use super::connections::Connections;
use super::functions::{self, Function};
use crate::{BrokerError, Health, Install, KeyTypeMismatch, Meta};

/// Above this share of `maxmemory` new submissions are refused.
pub(super) const MEMORY_USED_MAX: f64 = 0.8;
/// Above this share there is a warning: the alert `GoalmillMemoryHigh` has the same.
const MEMORY_USED_WARNED: f64 = 0.75;
/// For so long a reading of the memory is good enough.
const MEMORY_READ_EVERY: Duration = Duration::from_secs(1);
/// The field of the meta key with the limits that workers apply.
const LIMITS: &str = "limits";
/// Functions exist since this version.
const VERSION_MIN: u32 = 7;

/// Keys that all shards share, and their types.
fn shared_keys(keys: &Keys) -> [(String, &'static str); 10] {
    [
        (keys.meta(), "hash"),
        (keys.goals(), "stream"),
        (keys.agents(), "hash"),
        (keys.queues(), "set"),
        (keys.queues_paused(), "set"),
        (keys.workers(), "zset"),
        (keys.worker_beats(), "hash"),
        (keys.schedulers(), "zset"),
        (keys.scheduler_formats(), "hash"),
        (keys.cancelled(), "zset"),
    ]
}

impl Connections {
    pub(super) async fn open(&self, install: &Install) -> Result<Meta> {
        let info = Info(self.ask(&cmd("INFO")).await?);
        self.refuse_unfit(&info)?;
        self.load_functions().await?;
        let meta = match self.meta_of_the_known_installation().await? {
            Some(meta) => meta,
            None => self.install(install).await?,
        };
        let meta = self.write_limits(meta, install.limits).await?;
        match self.create_group(&self.keys.goals(), keys::SCHEDULERS).await {
            // The group is made when it is missed.
            Ok(()) | Err(BrokerError::OutOfMemory) => Ok(meta),
            Err(e) => Err(e),
        }
    }

    pub(super) async fn meta(&self) -> Result<Option<Meta>> {
        let mut read = cmd("HMGET");
        read.arg(self.keys.meta()).arg(&["instance", "protocol", "shards", "streams", LIMITS]);
        let [instance, protocol, shards, streams, limits]: [Option<String>; 5] = self.ask(&read).await?;
        let Some(instance) = instance else { return Ok(None) };
        let limits = limits.map_or(Ok(TaskLimits::default()), |limits| serde_json::from_str(&limits));
        let limits = limits.map_err(|error| {
            BrokerError::Corrupt(format!("`{LIMITS}` of `{}` cannot be read: {error}", self.keys.meta()))
        })?;
        let shards = shards.unwrap_or_default();
        let shards = shards.parse().map_err(|_| {
            BrokerError::Corrupt(format!(
                "`{}` says `{shards}` shards, which is no number up to 65535",
                self.keys.meta()
            ))
        })?;
        let streams = streams.unwrap_or_default();
        let layout = TaskStreams::parse(&streams).ok_or_else(|| {
            let meta = self.keys.meta();
            BrokerError::Unsupported(format!(
                "`streams` of `{meta}` is `{streams}`, a layout that this version does not know"
            ))
        })?;
        self.task_streams.get_or_init(|| layout);
        Ok(Some(Meta { instance, protocol: protocol.unwrap_or_default(), shards, limits }))
    }

    /// The task stream of an agent type: by the installation's layout, once that was read.
    pub(super) fn task_stream(&self, agent_type: &AgentType) -> String {
        self.task_streams.get().map_or_else(|| self.keys.steps(agent_type), |streams| streams.stream(agent_type))
    }

    pub(super) async fn check_health(&self) -> Result<Health> {
        let mut pipe = pipe();
        pipe.cmd("PING").cmd("HGET").arg(self.keys.meta()).arg("instance").cmd("TIME").cmd("INFO");
        let (_pong, instance, time, info): (Value, Option<String>, (u64, u64), String) = self.ask_all(&pipe).await?;
        self.recognise(instance.as_deref())?;
        let info = Info(info);
        self.refuse_unfit(&info)?;
        self.remember_memory(info.memory_used());
        // The field is there only when `min-replicas-to-write` is set.
        self.needs_replicas.store(!info.text("min_slaves_good_slaves").is_empty(), Ordering::Relaxed);
        Ok(Health {
            version: info.version(),
            memory_used: info.memory_used(),
            warnings: info.warnings(),
            time_ms: time.0 * 1_000 + time.1 / 1_000,
        })
    }

    pub(super) async fn probe(&self, shards: u16) -> Result<()> {
        let (shared, types): (Vec<_>, Vec<_>) = shared_keys(&self.keys).into_iter().unzip();
        let mut touched = vec![self.keys.probe()];
        touched.extend((0..shards).flat_map(|shard| shard_keys(&self.keys, ShardId(shard))));
        touched.extend(shared);
        let mut call = Function::Probe.on(&touched);
        call.arg(types);
        let answer: String = self.call(&call).await?;
        match answer.split_once(' ') {
            None => Ok(()),
            Some(("TYPE", found)) => Err(BrokerError::WrongType(type_mismatches(found, &touched))),
            Some((_, command)) => Err(BrokerError::refused("NOPERM", format!("this user may not use {command}"))),
        }
    }

    /// Refuses a server that answers with other data than before.
    pub(super) async fn recognise_server(&self) -> Result<()> {
        let mut read = cmd("HGET");
        let instance: Option<String> = self.ask(read.arg(self.keys.meta()).arg("instance")).await?;
        self.recognise(instance.as_deref())
    }

    /// Refuses while memory is short. Reads it at most once a second.
    pub(super) async fn refuse_when_memory_is_short(&self) -> Result<()> {
        let known = *self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let used = match known {
            Some((at, used)) if at.elapsed() < MEMORY_READ_EVERY => used,
            _ => {
                let used = Info(self.ask(cmd("INFO").arg("memory")).await?).memory_used();
                self.remember_memory(used);
                used
            }
        };
        if used > MEMORY_USED_MAX { Err(BrokerError::OutOfMemory) } else { Ok(()) }
    }

    /// Makes the stream and its group, from the stream's start, unless they exist.
    pub(super) async fn create_group(&self, stream: &str, group: &str) -> Result<()> {
        let mut create = cmd("XGROUP");
        create.arg("CREATE").arg(stream).arg(group).arg("0").arg("MKSTREAM");
        match self.try_ask::<Value>(&create).await? {
            Ok(_) => Ok(()),
            Err(e) if e.code() == Some("BUSYGROUP") => Ok(()),
            Err(e) if e.code() == Some("WRONGTYPE") || e.to_string().contains("WRONGTYPE") => {
                let found: String = self.ask(cmd("TYPE").arg(stream)).await?;
                Err(BrokerError::WrongType(vec![KeyTypeMismatch {
                    key: stream.into(),
                    found,
                    wanted: "stream".into(),
                }]))
            }
            Err(e) => Err(super::error::to_broker_error(e)),
        }
    }

    async fn install(&self, install: &Install) -> Result<Meta> {
        let mut call = Function::Install.on(&[self.keys.meta()]);
        call.arg("instance").arg(&install.instance).arg("protocol").arg(wire::PROTOCOL);
        call.arg("shards").arg(install.shards).arg("streams").arg(self.keys.steps_pattern());
        let _created: bool = self.call(&call).await?;
        let meta = self.meta_of_the_known_installation().await?;
        meta.ok_or_else(|| BrokerError::DataLost(format!("`{}` went away while it was made", self.keys.meta())))
    }

    /// Writes the limits of this scheduler's settings for workers. While memory is short, the known ones stay.
    async fn write_limits(&self, meta: Meta, limits: TaskLimits) -> Result<Meta> {
        let mut write = cmd("HSET");
        write.arg(self.keys.meta()).arg(LIMITS).arg(serde_json::json!(limits).to_string());
        match self.ask::<Value>(&write).await {
            Ok(_) => Ok(Meta { limits, ..meta }),
            Err(BrokerError::OutOfMemory) => Ok(meta),
            Err(error) => Err(error),
        }
    }

    async fn meta_of_the_known_installation(&self) -> Result<Option<Meta>> {
        let meta = self.meta().await?;
        self.recognise(meta.as_ref().map(|meta| meta.instance.as_str()))?;
        if let Some(meta) = &meta {
            self.instance.get_or_init(|| meta.instance.clone());
        }
        Ok(meta)
    }

    fn recognise(&self, found: Option<&str>) -> Result<()> {
        match (self.instance.get(), found) {
            (None, _) => Ok(()),
            (Some(known), Some(found)) if known == found => Ok(()),
            (Some(known), Some(found)) => {
                Err(BrokerError::DataLost(format!("the installation is `{found}`, it was `{known}`")))
            }
            (Some(known), None) => Err(BrokerError::DataLost(format!(
                "the installation `{known}` is gone; restore the data, or restart Goalmill to start over"
            ))),
        }
    }

    fn refuse_unfit(&self, info: &Info) -> Result<()> {
        let version = info.text("redis_version");
        if version.split('.').next().and_then(|major| major.parse().ok()).is_none_or(|major: u32| major < VERSION_MIN) {
            return Err(BrokerError::Unsupported(format!("the version is `{version}`; install Redis 7.0 or later")));
        }
        if info.text("cluster_enabled") == "1" {
            return Err(BrokerError::Unsupported(
                "the server is a node of a Redis Cluster, and Goalmill's keys are not spread over nodes; \
                 use one primary with replicas, found by Sentinel: `redis+sentinel://HOST:PORT,HOST:PORT/SERVICE`"
                    .into(),
            ));
        }
        if info.text("role") == "slave" {
            let (host, port) = (info.text("master_host"), info.text("master_port"));
            let why = format!("this server is a replica and takes no writes; its primary is {host}:{port}");
            return Err(BrokerError::refused("READONLY", why));
        }
        match info.eviction() {
            Some(policy) if !self.allow_unsafe => Err(BrokerError::Unsafe(format!(
                "`maxmemory-policy` is `{policy}`, which evicts plans; set it to `noeviction`"
            ))),
            _ => Ok(()),
        }
    }

    fn remember_memory(&self, used: f64) {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), used));
    }

    async fn load_functions(&self) -> Result<()> {
        functions::load(&mut self.dialer.dial().await?).await
    }
}

/// The reply of `INFO`.
pub(super) struct Info(pub(super) String);

impl Info {
    /// The value of a field; empty when the server does not tell it.
    pub(super) fn text(&self, name: &str) -> &str {
        let found = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_default().trim_end()
    }

    pub(super) fn number(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(0.0)
    }

    fn version(&self) -> String {
        match self.text("valkey_version") {
            "" => format!("redis {}", self.text("redis_version")),
            valkey => format!("valkey {valkey}"),
        }
    }

    fn memory_used(&self) -> f64 {
        let limit = self.number("maxmemory");
        if limit > 0.0 { self.number("used_memory") / limit } else { 0.0 }
    }

    /// The policy, when it evicts.
    fn eviction(&self) -> Option<&str> {
        Some(self.text("maxmemory_policy")).filter(|policy| !matches!(*policy, "" | "noeviction"))
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(policy) = self.eviction() {
            warnings.push(format!("`maxmemory-policy` is `{policy}`, which evicts plans; set it to `noeviction`"));
        }
        if self.text("aof_enabled") == "0" {
            warnings.push("the append-only file is off: a restart loses plans; set `appendonly yes`".into());
        }
        for (field, what) in [("aof_last_write_status", "append-only file"), ("rdb_last_bgsave_status", "snapshot")] {
            if !matches!(self.text(field), "" | "ok") {
                warnings.push(format!("the last write of the {what} failed; look at the disk of Redis"));
            }
        }
        let used = self.memory_used();
        if used > MEMORY_USED_MAX {
            warnings.push(format!(
                "{:.0} % of `maxmemory` is in use, new submissions are refused; raise `maxmemory`, or wait for running \
                 plans to end",
                used * 100.0
            ));
        } else if used > MEMORY_USED_WARNED {
            warnings.push(format!(
                "{:.0} % of `maxmemory` is in use, above {:.0} % new submissions are refused; raise `maxmemory`, or keep \
                 finished plans for a shorter time (`scheduler.retention_ms`)",
                used * 100.0,
                MEMORY_USED_MAX * 100.0
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read() {
        let info =
            Info("# Server\r\nredis_version:7.0.15\r\nused_memory:50\r\nmaxmemory:100\r\naof_enabled:0\r\n".into());
        assert_eq!((info.version().as_str(), info.memory_used()), ("redis 7.0.15", 0.5));
        assert_eq!(info.eviction(), None);
        assert_eq!(info.warnings().len(), 1, "{:?}", info.warnings());
    }

    #[test]
    fn memory_is_warned_of_from_the_alert_on() {
        let warned = |used: u32| Info(format!("used_memory:{used}\r\nmaxmemory:100\r\naof_enabled:1\r\n")).warnings();
        assert_eq!(warned(75), Vec::<String>::new());
        for (used, part) in [(76, "above 80 % new submissions are refused"), (81, "new submissions are refused; raise")]
        {
            let warnings = warned(used);
            assert!(warnings.len() == 1 && warnings[0].contains(part), "{used}: {warnings:?}");
        }
    }
}
