//! Looks for what is set up wrong around a server, for `doctor`.

use std::collections::BTreeMap;

use goalmill_common::agent::{SILENCE_MS_MAX, WorkerBeat};
use goalmill_common::clock::Clock;
use goalmill_common::config::RedisSettings;
use goalmill_common::id::AgentType;
use goalmill_common::{keys, wire};
use redis::{Value, cmd, pipe};

use super::Result;
use super::install::Info;
use super::link::Links;

/// Clocks that differ by more are told of, in milliseconds.
const SKEW_MS_MAX: u64 = 2_000;
/// Task streams that are looked at.
const STREAMS_MAX: usize = 1_000;

/// Something that is set up wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong, and what follows from it.
    pub detail: String,
    /// What to do about it.
    pub fix: String,
    /// Whether plans stand still because of it.
    pub stops_plans: bool,
}

fn stops_plans(detail: String, fix: impl Into<String>) -> Finding {
    Finding { detail, fix: fix.into(), stops_plans: true }
}

fn misleads(detail: String, fix: impl Into<String>) -> Finding {
    Finding { detail, fix: fix.into(), stops_plans: false }
}

/// Looks at protocol, role, clocks, and the groups of task streams. Reads only.
///
/// # Errors
/// The server cannot be asked, or refuses one of the reads.
pub async fn inspect(settings: &RedisSettings, clock: &Clock) -> Result<Vec<Finding>> {
    let links = Links::new(settings)?;
    let mut found = Vec::new();
    let mut pipe = pipe();
    pipe.cmd("HGET").arg(keys::META).arg("protocol").cmd("TIME").cmd("INFO");
    let (protocol, time, info): (Option<String>, (u64, u64), String) = links.ask_all(&pipe).await?;
    let local_ms = clock.now_ms();
    found.extend(protocol.and_then(|protocol| foreign_protocol(&protocol)));
    found.extend(read_only(&Info(info)));
    let server_ms = time.0 * 1_000 + time.1 / 1_000;
    if server_ms.abs_diff(local_ms) > SKEW_MS_MAX {
        let seconds = server_ms.abs_diff(local_ms) as f64 / 1_000.0;
        let detail = format!("the clocks of this machine and of Redis differ by {seconds:.1} s");
        found.push(misleads(detail, "let both machines follow a time server (NTP)"));
    }
    found.extend(links.workers(SILENCE_MS_MAX).await?.iter().filter_map(early));
    found.extend(links.unseen_queues().await?);
    Ok(found)
}

fn foreign_protocol(protocol: &str) -> Option<Finding> {
    let detail = format!("the installation speaks protocol {protocol}, this program {}", wire::PROTOCOL);
    (protocol != wire::PROTOCOL)
        .then(|| stops_plans(detail, "use the release that the schedulers run, or another Redis"))
}

fn read_only(info: &Info) -> Option<Finding> {
    let detail = "this server is a replica and takes no writes".to_owned();
    let fix = format!(
        "put the primary ({}:{}) into `redis.url`, or use `redis+sentinel://`",
        info.text("master_host"),
        info.text("master_port")
    );
    (info.text("role") == "slave").then(|| stops_plans(detail, fix))
}

/// A worker that began after its last heartbeat was seen.
fn early(beat: &WorkerBeat) -> Option<Finding> {
    let ahead_ms = beat.started_ms.saturating_sub(beat.seen_ms);
    let (worker, host) = (beat.worker.as_str(), beat.host.as_str());
    let detail = format!("the clock of worker {worker} on {host} is at least {:.1} s ahead", ahead_ms as f64 / 1_000.0);
    (ahead_ms > SKEW_MS_MAX).then(|| misleads(detail, format!("let {host} follow a time server (NTP)")))
}

impl Links {
    /// Task streams of which Redis cannot say how much waits: autoscalers that read Redis see nothing there.
    async fn unseen_queues(&self) -> Result<Vec<Finding>> {
        let names: Vec<String> = self.ask(cmd("SMEMBERS").arg(keys::QUEUES)).await?;
        let mut found = Vec::new();
        for name in names.into_iter().take(STREAMS_MAX) {
            let key = keys::steps(&AgentType::from(name.as_str()));
            // A queue without a stream, or with a key of a wrong type, is told of elsewhere.
            let Ok(groups) = self.try_ask::<Vec<BTreeMap<String, Value>>>(cmd("XINFO").arg("GROUPS").arg(&key)).await?
            else {
                continue;
            };
            let is_workers = |group: &&BTreeMap<String, Value>| matches!(group.get("name"), Some(Value::BulkString(name)) if name == keys::WORKERS_GROUP.as_bytes());
            match groups.iter().find(is_workers) {
                None => found.push(stops_plans(
                    format!("`{key}` has no group `{}`: no worker can read it", keys::WORKERS_GROUP),
                    format!("redis-cli XGROUP CREATE {key} {} 0", keys::WORKERS_GROUP),
                )),
                Some(group) if matches!(group.get("lag"), Some(Value::Nil)) => found.push(misleads(
                    format!("Redis has lost count of `{key}`: KEDA's trigger `redis-streams` cannot see what waits"),
                    "it counts again once workers have taken what is there; until then scale on \
                     `/v1/scaling/AGENT_TYPE`. Let nobody delete entries (XDEL)",
                )),
                Some(_) => {}
            }
        }
        Ok(found)
    }
}
