//! A private `redis-server` on a free port, gone with its owner.

use std::net::TcpListener;
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{Broker, Install};
use goalmill_common::config::RedisSettings;
use goalmill_common::limits::TaskLimits;
use goalmill_common::random::Random;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redis::{AsyncConnectionConfig, cmd};

/// How long anything in these tests may take.
pub const DEADLINE: Duration = Duration::from_secs(90);
/// Two tests may be given the same free port; the second one to use it tries another.
const PORT_ATTEMPTS: u32 = 5;
/// Below the ports that systems hand out by themselves: what connects to a server that was killed must neither be
/// given its port nor meet itself there.
const PORTS: Range<u16> = 15_000..32_000;

pub struct Server {
    child: Option<Child>,
    port: u16,
    dir: tempfile::TempDir,
    options: Vec<String>,
}

impl Server {
    /// Starts a server with an append-only file, and further options as on its command line.
    pub async fn start(options: &[&str]) -> Self {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut server = Self { child: None, port: 0, dir: tempfile::tempdir().unwrap(), options };
        for _ in 0..PORT_ATTEMPTS {
            server.port = free_port();
            if server.begin().await {
                return server;
            }
        }
        panic!("no port could be had")
    }

    /// Starts the server again, with the data it had.
    pub async fn resume(&mut self) {
        assert!(self.begin().await, "the server ended at once");
    }

    /// Starts the process; false when it ended, because its port was taken.
    async fn begin(&mut self) -> bool {
        let dir = self.dir.path().to_str().unwrap();
        let mut command = Command::new(server_program());
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--dir", dir, "--save", ""]);
        command.args(["--unixsocket", &format!("{dir}/redis.sock"), "--unixsocketperm", "700"]);
        command.args(["--appendonly", "yes", "--appendfsync", "everysec"]).args(&self.options);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("`redis-server` is installed");
        let pid = child.id();
        let until = tokio::time::Instant::now() + DEADLINE;
        // One of another test may answer at the port, and ours be about to end.
        while !self.is_answering(pid).await {
            if matches!(child.try_wait(), Ok(Some(_))) {
                return false;
            }
            assert!(tokio::time::Instant::now() < until, "the server does not answer");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.child = Some(child);
        true
    }

    /// Whether the server of that process answers, with its data read.
    async fn is_answering(&self, pid: u32) -> bool {
        let Ok(mut raw) = self.try_raw().await else { return false };
        let info: String = cmd("INFO").arg("everything").query_async(&mut raw).await.unwrap_or_default();
        let says = |what: &str| info.lines().any(|line| line == what);
        says(&format!("process_id:{pid}")) && says("loading:0")
    }

    /// The name that a function of this build has.
    pub async fn function(&self, name: &str) -> String {
        let list: redis::Value = cmd("FUNCTION").arg("LIST").query_async(&mut self.raw().await).await.unwrap();
        let list = format!("{list:?}");
        let at = list.find(&format!("{name}_")).expect("the build's own library is loaded");
        list[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    }

    /// Kills the server as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Holds the process: connections stay open and get no answers.
    pub fn hold(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets a held process go on.
    pub fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.as_ref().unwrap().id();
        kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
    }

    /// Where the server's files are.
    pub fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn settings(&self) -> RedisSettings {
        let url = format!("redis://127.0.0.1:{}", self.port);
        RedisSettings { url, connect_ms: 60_000, response_ms: 60_000, pool_size: 4, ..RedisSettings::default() }
    }

    /// The same server through its socket file.
    pub fn socket_settings(&self) -> RedisSettings {
        let url = format!("redis+unix://{}/redis.sock", self.dir.path().display());
        RedisSettings { url, ..self.settings() }
    }

    /// A back end of an open installation.
    pub async fn open(&self) -> Arc<dyn Broker> {
        let broker = goalmill_broker::redis::connect(&self.settings()).await.unwrap();
        broker.open(&install()).await.unwrap();
        broker
    }

    /// A connection of its own, to look at the keys and to break them.
    pub async fn raw(&self) -> redis::aio::MultiplexedConnection {
        self.try_raw().await.unwrap()
    }

    /// The same, while the server may be cutting its clients.
    pub async fn try_raw(&self) -> redis::RedisResult<redis::aio::MultiplexedConnection> {
        let patient =
            AsyncConnectionConfig::new().set_connection_timeout(Some(DEADLINE)).set_response_timeout(Some(DEADLINE));
        redis::Client::open(self.settings().url)?.get_multiplexed_async_connection_with_config(&patient).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that nobody listens on at this moment.
fn free_port() -> u16 {
    let random = Random::system();
    let any = || PORTS.start + u16::try_from(random.below(PORTS.len() as u64)).unwrap();
    std::iter::repeat_with(any).take(1_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

/// The server that tests run: `REDIS_SERVER` names another one than that on PATH.
pub fn server_program() -> std::ffi::OsString {
    std::env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into())
}

pub fn install() -> Install {
    Install { instance: "test".into(), shards: 4, limits: TaskLimits::default() }
}

/// Waits until `condition` holds.
pub async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let until = tokio::time::Instant::now() + DEADLINE;
    while !condition().await {
        assert!(tokio::time::Instant::now() < until, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
