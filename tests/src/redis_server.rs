//! A private `redis-server` with its own port and directory; stopped when dropped.

use std::fs::File;
use std::net::TcpListener;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use goalmill_common::config::RedisSettings;
use goalmill_common::random::Random;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError, Value};
use tempfile::TempDir;

use crate::process::{Signal, signal};
use crate::wait::{SOON, until_some};

const START_LIMIT: Duration = Duration::from_mins(1);
/// Until a plain connection is made, and until one command has answered.
const PLAIN_LIMIT: Duration = Duration::from_mins(1);
/// Two tests may be given the same free port; the second one to use it tries another.
const PORT_ATTEMPTS: u32 = 5;
/// Below the ports that systems hand out by themselves: what connects to a server that is away for a moment must
/// neither be given its port nor meet itself there, and nobody else may listen on it meanwhile.
const PORTS: Range<u16> = 15_000..32_000;

/// When a write is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// Within a second: Goalmill's recommendation.
    EverySecond,
    /// Before it is answered.
    Always,
    /// Never: no append-only file at all.
    Off,
}

/// How the server is started.
#[derive(Clone, Debug)]
pub struct Options {
    pub fsync: Fsync,
    /// `maxmemory` in bytes; 0 is no limit.
    pub memory_bytes_max: u64,
    pub eviction: &'static str,
    /// An ACL file's text; users as Redis has them without one otherwise.
    pub users: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { fsync: Fsync::EverySecond, memory_bytes_max: 0, eviction: "noeviction", users: None }
    }
}

/// A running (or killed) server.
pub struct RedisServer {
    dir: TempDir,
    port: u16,
    options: Options,
    child: Option<Child>,
}

impl RedisServer {
    /// Starts one as an operator should: append-only file, no eviction.
    pub async fn start() -> Result<Self> {
        Self::start_with(Options::default()).await
    }

    pub async fn start_with(options: Options) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("goalmill-redis-").tempdir()?;
        let mut server = Self { dir, port: 0, options, child: None };
        for attempt in 1.. {
            server.port = free_port()?;
            match server.restart().await {
                Ok(()) => break,
                Err(e) if attempt == PORT_ATTEMPTS => return Err(e),
                Err(_) => {}
            }
        }
        Ok(server)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The directory with the server's files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Settings that reach this server, and are patient: the machine may be busy with other tests.
    pub fn settings(&self) -> RedisSettings {
        RedisSettings { url: self.url(), connect_ms: 60_000, response_ms: 60_000, ..RedisSettings::default() }
    }

    /// A plain connection, for looking at keys.
    pub async fn connection(&self) -> Result<MultiplexedConnection> {
        let client = redis::Client::open(self.url())?;
        let patient = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PLAIN_LIMIT))
            .set_response_timeout(Some(PLAIN_LIMIT));
        Ok(client.get_multiplexed_async_connection_with_config(&patient).await?)
    }

    /// Ends the server at once, as `kill -9` does; its files stay.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Starts the server over its files, on the same port, and waits until it answers.
    pub async fn restart(&mut self) -> Result<()> {
        self.kill9();
        self.child = Some(self.spawn()?);
        let answered = until_some(START_LIMIT, async || {
            if let Some(child) = &mut self.child
                && let Ok(Some(status)) = child.try_wait()
            {
                return Some(Err(status));
            }
            self.is_ours().await.unwrap_or(false).then_some(Ok(()))
        });
        match answered.await {
            Some(Ok(())) => Ok(()),
            Some(Err(status)) => bail!("redis-server ended with {status}: {}", self.log_tails()),
            None => {
                bail!("redis-server did not answer within {START_LIMIT:?}: {}", self.log_tails())
            }
        }
    }

    /// Whether it is this server that answers at the port, and not one of another test that was faster.
    async fn is_ours(&self) -> Result<bool> {
        let mut connection = self.connection().await?;
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut connection).await?;
        let ours = format!("process_id:{}", self.pid()?);
        Ok(info.lines().any(|line| line == ours))
    }

    /// Waits until all that was answered has been handed to the system: while the disk is behind, `everysec` answers
    /// before.
    pub async fn await_written(&self) -> Result<()> {
        let mut connection = self.connection().await?;
        let written = until_some(SOON, async || {
            let info: String = redis::cmd("INFO").arg("persistence").query_async(&mut connection).await.ok()?;
            info.lines().any(|line| line == "aof_buffer_length:0").then_some(())
        });
        written.await.context("the append-only file was not written")
    }

    /// Ends the server and deletes its files: the next [`Self::restart`] starts an empty one.
    pub fn lose_everything(&mut self) -> Result<()> {
        self.kill9();
        for file in std::fs::read_dir(self.dir.path())? {
            let path = file?.path();
            if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
        }
        Ok(())
    }

    /// Suspends the process (SIGSTOP): connections stay open without answers.
    pub fn stop_process(&self) -> Result<()> {
        signal(self.pid()?, Signal::SIGSTOP)
    }

    /// Resumes a suspended process.
    pub fn cont(&self) -> Result<()> {
        signal(self.pid()?, Signal::SIGCONT)
    }

    fn pid(&self) -> Result<u32> {
        Ok(self.child.as_ref().context("redis-server is not running")?.id())
    }

    fn spawn(&self) -> Result<Child> {
        let (append, fsync) = match self.options.fsync {
            Fsync::EverySecond => ("yes", "everysec"),
            Fsync::Always => ("yes", "always"),
            Fsync::Off => ("no", "no"),
        };
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let mut command = Command::new(server_program());
        if let Some(users) = &self.options.users {
            let file = self.dir.path().join("users.acl");
            std::fs::write(&file, users)?;
            command.arg("--aclfile").arg(file);
        }
        command
            .args(["--bind", "127.0.0.1", "--protected-mode", "yes", "--save", ""])
            .args(["--port", &self.port.to_string()])
            .arg("--dir")
            .arg(self.dir.path())
            .args(["--appendonly", append, "--appendfsync", fsync])
            .args(["--maxmemory", &self.options.memory_bytes_max.to_string()])
            .args(["--maxmemory-policy", self.options.eviction])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context(
                "`redis-server` 7.0 or newer must be on PATH: `apt-get install redis-server`, `brew install redis`",
            )
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("redis.log")
    }

    fn log_tails(&self) -> String {
        let log = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// The server that tests run: `REDIS_SERVER` names another one than that on PATH.
pub fn server_program() -> std::ffi::OsString {
    std::env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into())
}

/// Sends a command that is written as on a command line.
pub async fn send(connection: &mut MultiplexedConnection, line: &str) -> Result<Value, RedisError> {
    let mut words = line.split_whitespace();
    let mut command = redis::cmd(words.next().unwrap_or_default());
    words.for_each(|word| {
        command.arg(word);
    });
    command.query_async(connection).await
}

/// A port that nobody listens on at this moment.
pub fn free_port() -> Result<u16> {
    let random = Random::system();
    for _ in 0..1_000 {
        let port = PORTS.start + u16::try_from(random.below(PORTS.len() as u64))?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port of {PORTS:?} is free")
}
