//! Reads permissions and settings of a server for `doctor`. Nothing is changed.

use std::collections::BTreeMap;

use goalmill_common::config::RedisSettings;
use goalmill_common::id::AgentType;
use goalmill_common::number::whole_u64;
use redis::{Cmd, Value, cmd};

use super::Result;
use super::connections::Connections;
use super::error::to_broker_error;
use super::install::Info;

/// A name that no agent type, shard or worker has.
const ABSENT: &str = "%doctor";

/// A server as `doctor` sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Commands that the user may not use, although a scheduler does.
    pub refused: Vec<String>,
    /// Seconds after which the server ends idle connections, 0 for never; `None` if the user may not ask.
    pub idle_timeout_s: Option<u64>,
    /// `appendfsync`; `None` if the user may not ask.
    pub fsync: Option<String>,
    /// `maxmemory` in bytes; 0 is no limit.
    pub memory_bytes_max: u64,
    /// Of a server that has replicas, or that Sentinels watch.
    pub replication: Option<ReplicationSettings>,
}

/// The settings of a server that decide what a failover loses, and how long it stops writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicationSettings {
    /// Replicas that follow now.
    pub replicas: u64,
    /// `min-replicas-to-write`.
    pub replicas_min: u64,
    /// `min-replicas-max-lag`, in seconds; 0 switches the former off. `None` if the user may not ask.
    pub lag_s_max: Option<u64>,
    /// `repl-diskless-sync-delay`, in seconds; `None` if the user may not ask.
    pub sync_delay_s: Option<u64>,
    /// `repl-backlog-size`.
    pub backlog_bytes: u64,
}

/// Looks at the rights of the user in `redis.url`, who should be that of schedulers, and at the settings of the server.
///
/// # Errors
/// The server cannot be asked.
pub async fn inspect(settings: &RedisSettings) -> Result<Inspection> {
    let connections = Connections::new(settings)?;
    let mut refused = Vec::new();
    for (name, command) in commands(&connections) {
        if is_refused(&connections, &command).await? {
            refused.push(name.to_owned());
        }
    }
    let found = read_settings(&connections).await?;
    let number = |name: &str| found.as_ref()?.get(name)?.parse().ok();
    let idle_timeout_s = number("timeout");
    let fsync = found.as_ref().and_then(|found| found.get("appendfsync").cloned());
    let memory = Info(connections.ask(cmd("INFO").arg("memory")).await?);
    let memory_bytes_max = whole_u64(memory.number("maxmemory"));
    let info = Info(connections.ask(cmd("INFO").arg("replication")).await?);
    let replicas = whole_u64(info.number("connected_slaves"));
    let is_replicated = replicas > 0 || settings.url.contains("+sentinel://");
    // Every user who may use INFO knows whether writes need a replica, and the size of the backlog.
    let needs_replicas = u64::from(!info.text("min_slaves_good_slaves").is_empty());
    let replication = is_replicated.then(|| ReplicationSettings {
        replicas,
        replicas_min: number("min-replicas-to-write").unwrap_or(needs_replicas),
        lag_s_max: number("min-replicas-max-lag"),
        sync_delay_s: number("repl-diskless-sync-delay"),
        backlog_bytes: number("repl-backlog-size").unwrap_or_else(|| whole_u64(info.number("repl_backlog_size"))),
    });
    Ok(Inspection { refused, idle_timeout_s, fsync, memory_bytes_max, replication })
}

/// The settings that are looked at; `None` if the user may not ask.
async fn read_settings(connections: &Connections) -> Result<Option<BTreeMap<String, String>>> {
    let mut read = cmd("CONFIG");
    read.arg("GET")
        .arg("timeout")
        .arg("appendfsync")
        .arg("min-replicas-*")
        .arg("repl-diskless-sync-delay")
        .arg("repl-backlog-size");
    Ok(connections.try_ask(&read).await?.ok())
}

async fn is_refused(connections: &Connections, command: &Cmd) -> Result<bool> {
    match connections.try_ask::<Value>(command).await? {
        Ok(_) => Ok(false),
        Err(error) if error.code() == Some("NOPERM") => Ok(true),
        // The server looks at the rights before it looks at keys, groups and arguments.
        Err(error) if error.code().is_some() => Ok(false),
        Err(error) => Err(to_broker_error(error)),
    }
}

/// Commands of a scheduler beyond those of a commit. None has an effect: their keys do not exist, and their channel has no
/// subscribers. `Broker::probe` checks the commands of a commit.
fn commands(connections: &Connections) -> Vec<(&'static str, Cmd)> {
    let keys = &connections.keys;
    let (steps, other, channel) = (keys.steps(&AgentType::from(ABSENT)), keys.answer(ABSENT), keys.presence(ABSENT));
    let words = |words: &[&str]| {
        let mut command = cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        command
    };
    vec![
        ("XADD", words(&["XADD", &steps, "NOMKSTREAM", "*", "f", "v"])),
        ("XREADGROUP", words(&["XREADGROUP", "GROUP", ABSENT, ABSENT, "COUNT", "1", "STREAMS", &steps, ">"])),
        ("XGROUP CREATE", words(&["XGROUP", "CREATE", &steps, ABSENT, "0"])),
        ("XAUTOCLAIM", words(&["XAUTOCLAIM", &steps, ABSENT, ABSENT, "1000", "0"])),
        ("XPENDING", words(&["XPENDING", &steps, ABSENT])),
        ("XINFO GROUPS", words(&["XINFO", "GROUPS", &steps])),
        ("XRANGE", words(&["XRANGE", &steps, "-", "+", "COUNT", "1"])),
        ("XACK", words(&["XACK", &steps, ABSENT, "0-1"])),
        ("XDEL", words(&["XDEL", &steps, "0-1"])),
        ("DEL", words(&["DEL", &other])),
        ("EXISTS", words(&["EXISTS", &other])),
        ("GET", words(&["GET", &other])),
        ("SET", words(&["SET", &other, "v", "XX"])),
        ("HGETALL", words(&["HGETALL", &other])),
        ("HDEL", words(&["HDEL", &other, "f"])),
        ("SMEMBERS", words(&["SMEMBERS", &other])),
        ("ZRANGEBYSCORE", words(&["ZRANGEBYSCORE", &other, "0", "1"])),
        ("ZADD", words(&["ZADD", &other, "XX", "1", "v"])),
        ("PEXPIRE", words(&["PEXPIRE", &other, "1000"])),
        ("PUBLISH", words(&["PUBLISH", &channel, "v"])),
        ("CLIENT UNBLOCK", words(&["CLIENT", "UNBLOCK", "0"])),
        ("FUNCTION LIST", words(&["FUNCTION", "LIST", "LIBRARYNAME", ABSENT])),
    ]
}
