//! A private Sentinel with one primary and its replicas; stopped when dropped.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use redis::Value;
use tempfile::TempDir;

use crate::redis_server::{RedisServer, free_port, server_program};
use crate::wait::until_some;

/// Name of the primary.
const SERVICE: &str = "plans";
const START_LIMIT: Duration = Duration::from_mins(1);

/// A running Sentinel.
pub struct Sentinel {
    child: Child,
    port: u16,
    dir: TempDir,
}

impl Sentinel {
    /// Starts one over a primary that has a replica, and waits until it knows both.
    ///
    /// It treats a second of silence as a failure.
    pub async fn over(primary: &RedisServer) -> Result<Self> {
        let (port, watched) = (free_port()?, primary.port());
        let dir = tempfile::Builder::new().prefix("goalmill-sentinel-").tempdir()?;
        // Sentinel rewrites its file.
        let file = dir.path().join("sentinel.conf");
        let home = dir.path().display();
        let settings = format!(
            "port {port}\nbind 127.0.0.1\ndir {home}\nsentinel monitor {SERVICE} 127.0.0.1 {watched} 1\n\
             sentinel down-after-milliseconds {SERVICE} 1000\nsentinel failover-timeout {SERVICE} 6000\n"
        );
        std::fs::write(&file, settings)?;
        let log = File::create(log_path(&dir))?;
        let mut command = Command::new(server_program());
        command.arg(&file).arg("--sentinel").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("`redis-server` 7.0 or newer must be on PATH")?;
        let sentinel = Self { child, port, dir };
        let known = until_some(START_LIMIT, async || {
            let replicas = sentinel.ask(&["REPLICAS", SERVICE]).await.ok()?;
            // `master-link-status` alone can be so.
            holds(&replicas, b"ok").then_some(())
        });
        ensure!(known.await.is_some(), "the sentinel does not know the replica: {}", sentinel.log_tails());
        Ok(sentinel)
    }

    /// URL of Redis for the processes.
    pub fn url(&self) -> String {
        format!("redis+sentinel://127.0.0.1:{}/{SERVICE}", self.port)
    }

    /// Sends `SENTINEL words…`.
    pub async fn ask(&self, words: &[&str]) -> Result<Value> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port))?;
        let mut line = client.get_multiplexed_async_connection().await?;
        Ok(redis::cmd("SENTINEL").arg(words).query_async(&mut line).await?)
    }

    /// Has a replica promoted, as for maintenance of the primary.
    pub async fn fail_over(&self) -> Result<()> {
        self.ask(&["FAILOVER", SERVICE]).await.map(drop)
    }

    /// The port of the primary.
    pub async fn primary(&self) -> Result<u16> {
        let (_host, port): (String, u16) =
            redis::from_redis_value(self.ask(&["GET-MASTER-ADDR-BY-NAME", SERVICE]).await?)?;
        Ok(port)
    }

    /// How many replicas follow the primary.
    pub async fn linked(&self) -> Result<usize> {
        let replicas: Vec<BTreeMap<String, String>> = redis::from_redis_value(self.ask(&["REPLICAS", SERVICE]).await?)?;
        let follows = |replica: &&BTreeMap<String, String>| {
            let is = |field: &str, value: &str| replica.get(field).is_some_and(|found| found == value);
            is("flags", "slave") && is("master-link-status", "ok") && is("role-reported", "slave")
        };
        Ok(replicas.iter().filter(follows).count())
    }

    pub fn log_tails(&self) -> String {
        std::fs::read_to_string(log_path(&self.dir)).unwrap_or_default()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn log_path(dir: &TempDir) -> PathBuf {
    dir.path().join("sentinel.log")
}

/// Whether a reply has this text anywhere.
fn holds(value: &Value, text: &[u8]) -> bool {
    if let Value::Array(items) = value {
        return items.iter().any(|item| holds(item, text));
    }
    matches!(value, Value::BulkString(bytes) if bytes == text)
}
