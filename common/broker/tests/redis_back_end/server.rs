//! A private `redis-server` on a free port, gone with its owner.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{Broker, Install};
use goalmill_common::config::RedisSettings;

/// How long anything in these tests may take.
pub const DEADLINE: Duration = Duration::from_secs(90);

pub struct Server {
    child: Option<Child>,
    port: u16,
    dir: tempfile::TempDir,
    options: Vec<String>,
}

impl Server {
    /// Starts a server with an append-only file, and further options as on its command line.
    pub async fn start(options: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut server = Self { child: None, port, dir: tempfile::tempdir().unwrap(), options };
        server.resume().await;
        server
    }

    /// Starts the server again, with the data it had.
    pub async fn resume(&mut self) {
        let dir = self.dir.path().to_str().unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--dir", dir, "--save", ""]);
        command.args(["--unixsocket", &format!("{dir}/redis.sock"), "--unixsocketperm", "700"]);
        command.args(["--appendonly", "yes", "--appendfsync", "everysec"]).args(&self.options);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.expect("`redis-server` is installed"));
        let client = redis::Client::open(self.settings().url).unwrap();
        eventually("the server answers", async || {
            let Ok(mut line) = client.get_multiplexed_async_connection().await else { return false };
            redis::cmd("PING").query_async::<()>(&mut line).await.is_ok()
        })
        .await;
    }

    /// Kills the server as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn settings(&self) -> RedisSettings {
        let url = format!("redis://127.0.0.1:{}", self.port);
        RedisSettings { url, connect_ms: 1_000, response_ms: 5_000, pool_size: 4, ..RedisSettings::default() }
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
        redis::Client::open(self.settings().url).unwrap().get_multiplexed_async_connection().await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn install() -> Install {
    Install { instance: "test".into(), shards: 4 }
}

/// Waits until `condition` holds.
pub async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let until = tokio::time::Instant::now() + DEADLINE;
    while !condition().await {
        assert!(tokio::time::Instant::now() < until, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
