//! Changes of keys by a client with write access to Redis.

use anyhow::Result;
use goalmill_tests::cluster::Cluster;

/// Commands that spoil a key; each belongs to an agent type that no healthy plan uses.
const COMMANDS: &[&[&str]] = &[
    &["SET", "goalmill:steps:spoiled", "no stream"],
    &["SADD", "goalmill:queues", "spoiled"],
    &["SET", "goalmill:dead:spoiled", "no stream"],
    &["HSET", "goalmill:agents", "broken", "{"],
    &["HSET", "goalmill:agents", "other-name", r#"{"agent_type": "echo"}"#],
    &["HSET", "goalmill:agents", "rates", r#"{"agent_type": "rates", "success_rate": 7}"#],
    &["HSET", "goalmill:agents", "unknown", r#"{"agent_type": "unknown", "no_such_field": 1}"#],
    &["ZADD", "goalmill:workers", "99999999999999", "no worker"],
    &["ZADD", "goalmill:schedulers", "1", "no scheduler"],
    &["PUBLISH", "goalmill:cancel", "no token at all"],
    &["PUBLISH", "goalmill:agents:changed", "nothing of the kind"],
    &["SET", "goalmill:{s0}:poison", "{"],
    &["SET", "goalmill:goals:tries", "["],
];

pub(super) const COUNT: usize = COMMANDS.len();

pub(super) async fn break_all(cluster: &Cluster) -> Result<()> {
    let mut redis = cluster.redis.connection().await?;
    for command in COMMANDS {
        let mut call = redis::cmd(command[0]);
        call.arg(&command[1..]);
        call.query_async::<redis::Value>(&mut redis).await?;
    }
    // What was written to a stream's key is found when a plan needs the stream.
    Ok(())
}
