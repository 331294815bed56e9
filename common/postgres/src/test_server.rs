//! A private PostgreSQL server with its own port and directory; stopped when dropped.

use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio_postgres::NoTls;

/// The user `nobody`: the server refuses to run as root.
const NOBODY: u32 = 65_534;
const PASSWORD: &str = "open-sesame";
/// How often a start is looked at, and for how long.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS_MAX: u32 = 3_000;

/// A server with an empty database.
pub struct PostgresServer {
    dir: TempDir,
    programs: PathBuf,
    port: u16,
    process: Option<Child>,
}

/// The directory of the server's programs; `None` if they are not installed.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    places.extend(versions.map(|version| version.path().join("bin")));
    places.into_iter().find(|place| place.join("initdb").is_file() && place.join("postgres").is_file())
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Whether a process runs; one that has ended and is not awaited yet does not.
fn is_running(process: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

impl PostgresServer {
    /// Starts a server with an empty database; `None`, with a message, if it is not installed.
    pub async fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            eprintln!("skipped: PostgreSQL is not installed; bash tests/run installs it");
            return None;
        };
        let dir = tempfile::tempdir().expect("a directory can be made");
        std::fs::write(dir.path().join("password"), PASSWORD).expect("a file can be written");
        if is_root() {
            chown(dir.path(), Some(NOBODY), Some(NOBODY)).expect("root may do that");
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.expect("a port is free").port();
        let mut server = Self { dir, programs, port, process: None };
        let mut init = server.command("initdb");
        init.args(["--username=goalmill", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        init.arg(format!("--pwfile={}", server.dir.path().join("password").display()));
        init.arg("-D").arg(server.data());
        let made = init.output().expect("initdb can be started");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        server.restart().await;
        Some(server)
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir(Path::new("/")).stdin(Stdio::null());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Starts it again on its port, and waits until it answers. It refuses to start while processes of a killed server
    /// still run, so it is started until it stays.
    pub async fn restart(&mut self) {
        for _ in 0..LOOKS_MAX {
            let is_up = self.process.as_mut().is_some_and(|process| matches!(process.try_wait(), Ok(None)));
            if !is_up {
                self.spawn();
            }
            if tokio_postgres::connect(&self.url(), NoTls).await.is_ok() {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
        panic!("the server does not answer");
    }

    fn spawn(&mut self) {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.dir.path());
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-c", "fsync=off"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(command.spawn().expect("the server can be started"));
    }

    /// Ends it immediately, with the processes that serve its connections: it recovers at the next start.
    pub fn kill9(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let id = process.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let children: Vec<i32> = children.split_whitespace().filter_map(|child| child.parse().ok()).collect();
        drop(process.kill());
        drop(process.wait());
        for _ in 0..LOOKS_MAX {
            let running: Vec<i32> = children.iter().copied().filter(|&child| is_running(child)).collect();
            if running.iter().all(|&child| kill(Pid::from_raw(child), Signal::SIGKILL).is_err()) {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    pub fn url(&self) -> String {
        self.url_with(PASSWORD)
    }

    /// Its address, with this password.
    pub fn url_with(&self, password: &str) -> String {
        format!("postgres://goalmill:{password}@127.0.0.1:{}/postgres", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address by way of a proxy on this port of the machine.
    pub fn url_through(&self, port: u16) -> String {
        format!("postgres://goalmill:{PASSWORD}@127.0.0.1:{port}/postgres")
    }

    /// Runs statements as another program.
    pub async fn execute(&self, statements: &str) {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.expect("the server answers");
        let ((), done) = tokio::join!(async { drop(connection.await) }, async {
            let done = client.batch_execute(statements).await;
            drop(client);
            done
        });
        done.expect("the statements are right");
    }

    /// The first column of the first row of a query, as text.
    pub async fn query(&self, query: &str) -> String {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.expect("the server answers");
        let ((), row) = tokio::join!(async { drop(connection.await) }, async {
            let row = client.query_one(query, &[]).await;
            drop(client);
            row
        });
        row.expect("the query is right").get(0)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill9();
    }
}
