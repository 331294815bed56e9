//! Back ends of `dev`: embedded, an existing Redis, or a private one.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{Broker, BrokerError};
use goalmill_common::clock::Clock;
use goalmill_common::config::{Settings, hide_password};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::args::DevArgs;
use crate::exit::{Exit, Failed};

/// The address that requests a private server.
pub const AUTO: &str = "auto";
/// Server programs, in order of preference.
const SERVERS: &[&str] = &["redis-server", "valkey-server"];
const STARTUP: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// An open back end.
pub struct Store {
    pub broker: Arc<dyn Broker>,
    /// Its address, for the banner.
    pub place: String,
    /// Its durability, for the banner.
    pub promise: String,
    /// Ends with this process.
    _server: Option<Server>,
}

/// A private server and its directory.
struct Server {
    child: Child,
    _dir: TempDir,
}

/// Opens the back end that the arguments ask for.
pub async fn open(args: &DevArgs, settings: &mut Settings, clock: &Clock) -> Result<Store, Failed> {
    match args.redis.as_deref() {
        None => {
            // Nothing to wait for outside of this process.
            settings.scheduler.spin_us = 0;
            let opened = goalmill_broker::embedded::open(args.data_dir.as_deref(), clock.clone());
            let broker = opened.map_err(|error| {
                let BrokerError::Unavailable(why) = error else { return error.into() };
                Failed::new(Exit::InvalidInput, format!("the data directory cannot be used: {why}"))
                    .help("name a writable directory by --data-dir, or omit --data-dir")
            })?;
            let (place, promise) = match &args.data_dir {
                Some(dir) => ("embedded".into(), format!("data is kept in {}", dir.display())),
                None => ("embedded".into(), "data is kept in memory only".into()),
            };
            Ok(Store { broker, place, promise, _server: None })
        }
        Some(AUTO) => {
            let (server, url) = start().await?;
            settings.redis.url.clone_from(&url);
            settings.redis.allow_unsafe = true;
            let broker = goalmill_broker::redis::connect(&settings.redis).await?;
            let place = format!("{url}  (started by goalmill, stops with it)");
            Ok(Store { broker, place, promise: "data is kept in memory only".into(), _server: Some(server) })
        }
        Some(_) => {
            let broker = goalmill_broker::redis::connect(&settings.redis).await?;
            let url = hide_password(&settings.redis.url);
            Ok(Store { broker, place: url, promise: "data is kept in Redis".into(), _server: None })
        }
    }
}

/// Starts the first installed server on its own socket.
async fn start() -> Result<(Server, String), Failed> {
    let dir = TempDir::with_prefix("goalmill-")?;
    let socket = dir.path().join("redis.sock");
    for name in SERVERS {
        let mut command = Command::new(name);
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"]);
        command.arg("--unixsocket").arg(&socket).arg("--dir").arg(dir.path());
        // A group of its own: Ctrl-C reaches this process only, which still needs the server to stop cleanly.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).process_group(0);
        match command.spawn() {
            Ok(child) => {
                let url = format!("redis+unix://{}", socket.display());
                let mut server = Server { child, _dir: dir };
                ready(&mut server, &socket, name).await?;
                return Ok((server, url));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failed::other(format!("`{name}` cannot be started: {error}"))),
        }
    }
    Err(Failed::new(Exit::Unreachable, "neither `redis-server` nor `valkey-server` is installed").help(
        "install one, or leave `--redis auto` out\n    apt-get install redis-server\n    brew install redis\n    \
         docker run -p 6379:6379 redis:7 --maxmemory-policy noeviction   (then: --redis redis://127.0.0.1:6379)",
    ))
}

async fn ready(server: &mut Server, socket: &std::path::Path, name: &str) -> Result<(), Failed> {
    let deadline = Instant::now() + STARTUP;
    while UnixStream::connect(socket).await.is_err() {
        if let Ok(Some(status)) = server.child.try_wait() {
            return Err(Failed::other(format!("`{name}` has ended: {status}")));
        }
        if Instant::now() > deadline {
            return Err(Failed::other(format!("`{name}` does not answer on {}", socket.display())));
        }
        sleep(LOOK).await;
    }
    Ok(())
}
