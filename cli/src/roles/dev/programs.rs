//! `dev --agent FILE`: programs with agents, beside the store of `dev`. Each is started again when its file changes, and
//! after a crash.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use goalmill_bridge::Bridge;
use goalmill_broker::Broker;
use goalmill_common::clock::Clock;
use goalmill_common::config::Settings;
use goalmill_worker::executor::command::ProcessGroup;
use tokio::net::UnixListener;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::exit::{Exit, Failed};
use crate::output::Screen;
use crate::roles::bridge;

/// How often a file is looked at.
const FILE_CHECK: Duration = Duration::from_millis(300);
/// How long a program may take to end.
const END_MAX: Duration = Duration::from_secs(4);
/// The first pause before a program that has crashed is started again, and the longest.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A program that ran for this long before it crashed waits for the first pause again.
const RAN_WELL: Duration = Duration::from_mins(1);
/// The interpreter of JavaScript.
const NODE: &str = "node";
/// The variable with the address of the socket: the packages connect to it and start no worker.
const BRIDGE: &str = "GOALMILL_BRIDGE";

/// A file of `--agent`, and the command that runs it.
struct ProgramFile {
    path: PathBuf,
    command: Vec<String>,
}

/// How one run of a program ended.
struct ProgramEnd {
    /// `None`: its file has changed, or all end.
    status: Option<ExitStatus>,
    /// It said which agents it serves.
    has_served: bool,
}

impl ProgramEnd {
    /// A program that cannot begin waits for a change of its file.
    fn is_crash(&self) -> bool {
        self.has_served && self.status.is_some_and(|status| !status.success())
    }
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

    /// Runs one program, and again whenever its file changes or it crashes.
    async fn keep(&self, screen: &Screen, n: usize, file: &ProgramFile) {
        let name = file.path.display();
        let mut pause = PAUSE;
        while !self.stop.is_cancelled() {
            let (seen, begun) = (modified(&file.path), Instant::now());
            let ended = self.run_once(screen, n, file, seen).await;
            if begun.elapsed() > RAN_WELL {
                pause = PAUSE;
            }
            let mut next = None;
            match ended {
                _ if self.stop.is_cancelled() => return,
                Ok(ProgramEnd { status: None, .. }) => screen.note(format!("{name} has changed and is started again")),
                Ok(end @ ProgramEnd { status: Some(status), .. }) if end.is_crash() => {
                    let seconds = pause.as_secs();
                    screen.note(format!("{name} has ended ({status}) and is started again in {seconds} s"));
                    next = Some(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Ok(ProgramEnd { status: Some(status), .. }) => {
                    screen.note(format!("{name} has ended ({status}); save it to start it again"));
                }
                Err(error) => screen.note(format!("{name} cannot be started: {error}")),
            }
            tokio::select! {
                () = changed(&file.path, seen) => {}
                () = self.stop.cancelled() => {}
                () = sleep(next.unwrap_or_default()), if next.is_some() => {}
            }
        }
    }

    /// Runs a program until it ends by itself, its file changes, or all end. Attempts of a program that is ended are
    /// released: they use no attempt.
    async fn run_once(
        &self,
        screen: &Screen,
        n: usize,
        file: &ProgramFile,
        seen: Option<SystemTime>,
    ) -> io::Result<ProgramEnd> {
        let place = self.folder.path().join(format!("{n}.sock"));
        drop(std::fs::remove_file(&place));
        let listener = UnixListener::bind(&place)?;
        let mut child = self.spawn(file, &place)?;
        let group = ProcessGroup::from_child(&child);
        let workers = ProgramWorkers::default();
        let status = {
            let mut waiting = std::pin::pin!(child.wait());
            let mut connecting = std::pin::pin!(self.accept(screen, &file.path, &listener, &workers));
            tokio::select! {
                status = &mut waiting => Some(status?),
                () = &mut connecting => None,
                () = changed(&file.path, seen) => None,
                () = self.stop.cancelled() => None,
            }
        };
        let has_served = workers.has_served.load(Ordering::Relaxed);
        if status.is_none() {
            workers.release.cancel();
            workers.running.close();
            drop(timeout(END_MAX, workers.running.wait()).await);
            group.ask_to_end();
            drop(timeout(END_MAX, child.wait()).await);
        }
        drop(group);
        Ok(ProgramEnd { status, has_served })
    }

    fn spawn(&self, file: &ProgramFile, place: &Path) -> io::Result<Child> {
        let line = goalmill_launcher::supervised(&file.command);
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).env(BRIDGE, place).env("GOALMILL_SERVER", &self.api).env("PYTHONUNBUFFERED", "1");
        command.process_group(0).kill_on_drop(goalmill_launcher::program().is_none());
        command.spawn()
    }

    /// Serves the workers of a program.
    async fn accept(&self, screen: &Screen, file: &Path, listener: &UnixListener, workers: &ProgramWorkers) {
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
            workers.has_served.store(true, Ordering::Relaxed);
            let release = workers.release.clone();
            workers.running.spawn(async move {
                match bridge::start(&bridge, settings, broker, clock).await {
                    Ok(running) => tokio::select! {
                        ended = bridge::serve(&bridge, &running, None) => drop(ended),
                        () = release.cancelled() => running.release_all().await,
                    },
                    Err(failed) => tracing::error!("a program cannot be served: {failed}"),
                }
            });
        }
    }
}

/// The workers of one run of a program.
#[derive(Default)]
struct ProgramWorkers {
    has_served: AtomicBool,
    running: TaskTracker,
    /// Releases what they run, and ends them.
    release: CancellationToken,
}

/// The Python that has installed this program with its package, else that on `PATH`.
fn python() -> String {
    // `VENV/lib/python3.11/site-packages/goalmill/bin/goalmill`
    let program = std::env::current_exe().unwrap_or_default();
    let own = program.ancestors().nth(6).map(|root| root.join("bin/python3"));
    let is_of_package = program.parent().is_some_and(|folder| folder.ends_with("goalmill/bin"));
    own.filter(|python| is_of_package && python.exists())
        .map_or_else(|| "python3".into(), |own| own.display().to_string())
}

/// How a file is run: by the interpreter of its language, or by itself.
async fn command(file: &Path) -> Result<Vec<String>, Failed> {
    let path = file.display().to_string();
    Ok(match file.extension().and_then(OsStr::to_str) {
        Some("py") => vec![python(), path],
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
