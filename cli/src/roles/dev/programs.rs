//! `dev --agent FILE`: programs with agents, beside the store of `dev`. Each is started again when its file changes.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use goalmill_bridge::Bridge;
use goalmill_broker::Broker;
use goalmill_common::clock::Clock;
use goalmill_common::config::Settings;
use goalmill_worker::executor::command::ProcessGroup;
use tokio::net::UnixListener;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::exit::{Exit, Failed};
use crate::output::Screen;
use crate::roles::bridge;

/// How often a file is looked at.
const FILE_CHECK: Duration = Duration::from_millis(300);
/// How long a program may take to end.
const END_MAX: Duration = Duration::from_secs(4);
/// The interpreter of JavaScript.
const NODE: &str = "node";
/// The variable with the address of the socket: the packages connect to it and start no worker.
const BRIDGE: &str = "GOALMILL_BRIDGE";

/// A file of `--agent`, and the command that runs it.
struct ProgramFile {
    path: PathBuf,
    command: Vec<String>,
}

/// The programs of `--agent`.
pub struct Programs {
    files: Vec<ProgramFile>,
    settings: Settings,
    broker: Arc<dyn Broker>,
    clock: Clock,
    /// Address of the API.
    api: String,
    /// The sockets.
    folder: tempfile::TempDir,
    stop: CancellationToken,
    workers: TaskTracker,
}

impl Programs {
    /// Checks the files, and finds their interpreters.
    pub async fn new(
        files: &[PathBuf],
        settings: &Settings,
        broker: Arc<dyn Broker>,
        clock: &Clock,
        api: &str,
    ) -> Result<Self, Failed> {
        if let Some(missing) = files.iter().find(|file| !file.is_file()) {
            let message = format!("there is no file `{}`", missing.display());
            return Err(Failed::new(Exit::Usage, message).help("name a program with agents: --agent worker.py"));
        }
        let mut found = Vec::new();
        for path in files {
            found.push(ProgramFile { path: path.clone(), command: command(path).await? });
        }
        Ok(Self {
            files: found,
            settings: settings.clone(),
            broker,
            clock: clock.clone(),
            api: api.to_owned(),
            folder: tempfile::tempdir()?,
            stop: CancellationToken::new(),
            workers: TaskTracker::new(),
        })
    }

    /// Runs the programs until [`Programs::stop`].
    pub async fn run(&self, screen: &Screen) {
        join_all(self.files.iter().enumerate().map(|(n, file)| self.keep(screen, n, file))).await;
    }

    /// Ends the programs.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Runs one program, and again whenever its file changes.
    async fn keep(&self, screen: &Screen, n: usize, file: &ProgramFile) {
        let name = file.path.display();
        while !self.stop.is_cancelled() {
            let seen = modified(&file.path);
            let ended = self.run_once(screen, n, file, seen).await;
            match ended {
                _ if self.stop.is_cancelled() => return,
                Ok(None) => screen.note(format!("{name} has changed and is started again")),
                Ok(Some(status)) => screen.note(format!("{name} has ended ({status}); save it to start it again")),
                Err(error) => screen.note(format!("{name} cannot be started: {error}")),
            }
            tokio::select! {
                () = changed(&file.path, seen) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    /// Runs a program until it ends by itself, which gives its status, its file changes, or all end.
    async fn run_once(
        &self,
        screen: &Screen,
        n: usize,
        file: &ProgramFile,
        seen: Option<SystemTime>,
    ) -> io::Result<Option<ExitStatus>> {
        let place = self.folder.path().join(format!("{n}.sock"));
        drop(std::fs::remove_file(&place));
        let listener = UnixListener::bind(&place)?;
        let mut child = self.spawn(file, &place)?;
        let group = ProcessGroup::from_child(&child);
        let status = {
            let mut waiting = std::pin::pin!(child.wait());
            let mut connecting = std::pin::pin!(self.accept(screen, &file.path, &listener));
            tokio::select! {
                status = &mut waiting => Some(status?),
                () = &mut connecting => None,
                () = changed(&file.path, seen) => None,
                () = self.stop.cancelled() => None,
            }
        };
        if status.is_none() {
            group.ask_to_end();
            drop(timeout(END_MAX, child.wait()).await);
        }
        drop(group);
        Ok(status)
    }

    fn spawn(&self, file: &ProgramFile, place: &Path) -> io::Result<Child> {
        let line = goalmill_launcher::supervised(&file.command);
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).env(BRIDGE, place).env("GOALMILL_SERVER", &self.api).env("PYTHONUNBUFFERED", "1");
        command.process_group(0).kill_on_drop(goalmill_launcher::program().is_none());
        command.spawn()
    }

    /// Serves the workers of a program.
    async fn accept(&self, screen: &Screen, file: &Path, listener: &UnixListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let (input, output) = stream.into_split();
            let bridge = match Bridge::connect(input, output).await {
                Ok(bridge) => bridge,
                Err(error) => {
                    screen.note(format!("{} cannot be served: {error}", file.display()));
                    continue;
                }
            };
            let (settings, broker, clock) = (self.settings.clone(), self.broker.clone(), self.clock.clone());
            let agents: Vec<&str> = bridge.hello.agents.iter().map(|card| card.agent_type.as_str()).collect();
            screen.note(format!("{} serves {}", file.display(), agents.join(", ")));
            self.workers.spawn(async move {
                match bridge::start(&bridge, settings, broker, clock).await {
                    Ok(running) => drop(bridge::serve(&bridge, &running, None).await),
                    Err(failed) => tracing::error!("a program cannot be served: {failed}"),
                }
            });
        }
    }
}

/// How a file is run: by the interpreter of its language, or by itself.
async fn command(file: &Path) -> Result<Vec<String>, Failed> {
    let path = file.display().to_string();
    Ok(match file.extension().and_then(OsStr::to_str) {
        Some("py") => vec!["python3".into(), path],
        Some("js" | "mjs" | "cjs") => vec![NODE.into(), path],
        Some("ts" | "mts") => [type_stripping_node(&path).await?, vec![path]].concat(),
        Some(_) | None if path.contains('/') => vec![path],
        Some(_) | None => vec![format!("./{path}")],
    })
}

/// Node.js as a command that runs TypeScript: by itself since 22.18 and 23.6, with an option since 22.6.
async fn type_stripping_node(file: &str) -> Result<Vec<String>, Failed> {
    let output = Command::new(NODE).arg("--version").output().await;
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let mut parts = version.trim_start_matches('v').split('.').map_while(|part| part.parse::<u32>().ok());
    let number = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if number < (22, 6) {
        let found = if version.is_empty() { "there is no `node`".into() } else { format!("`node` is {version}") };
        let message = format!("`{file}` needs Node.js 22.6 or later, which runs TypeScript, and {found}");
        return Err(Failed::new(Exit::Usage, message)
            .help("compile the file, and name the one in JavaScript: --agent worker.mjs"));
    }
    let is_option = number < (22, 18) || ((23, 0)..(23, 6)).contains(&number);
    Ok(if is_option { vec![NODE.into(), "--experimental-strip-types".into()] } else { vec![NODE.into()] })
}

fn modified(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).and_then(|found| found.modified()).ok()
}

/// Waits until a file has another time than it had.
async fn changed(file: &Path, seen: Option<SystemTime>) {
    while modified(file).is_none_or(|now| Some(now) == seen) {
        tokio::time::sleep(FILE_CHECK).await;
    }
}
