//! Starts the programs of a worker (executor `command`, MCP servers, programs of models) so that they end with it.
//!
//! `unsafe` code is forbidden, so nothing can run between `fork` and `exec`. Instead, the worker starts its own binary
//! with the hidden command `launch`, which prepares the process and then becomes, or supervises, the program:
//!
//! ```text
//! worker ─▶ launch supervise ─▶ launch start ─▶ program            ends with its worker, and with all that it started
//!                               sandbox.sh ─▶ launch confine ─▶ program       seccomp filter for programs of models
//! ```
//!
//! A role that is process 1 of a container runs below `supervise` as well, which reaps what is handed to process 1.

mod confine;
mod descendants;
mod supervise;

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

pub use supervise::run_as_init;

/// The hidden command of the binary.
const LAUNCH: &str = "launch";
/// Exit code if the program cannot be started, as in shells.
const NOT_STARTED: u8 = 127;
/// The running binary, also after its file has been replaced.
const SELF: &str = "/proc/self/exe";

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Sets the binary that has the command `launch`; the first call counts.
///
/// Without it (a worker that is embedded in another program) programs are started directly: they lead a process group that
/// is killed when the attempt ends, but they outlive a worker that is killed.
pub fn set_program(path: PathBuf) {
    PROGRAM.get_or_init(|| path);
}

/// The binary that has the command `launch`.
pub fn program() -> Option<&'static Path> {
    PROGRAM.get().map(PathBuf::as_path)
}

/// The command line that runs `argv` under a supervisor; `argv` itself if there is no launcher.
pub fn supervised(argv: &[String]) -> Vec<OsString> {
    let argv = argv.iter().map(OsString::from);
    match program() {
        None => argv.collect(),
        Some(program) => {
            let parent = std::process::id().to_string();
            let head = [program.as_os_str(), OsStr::new(LAUNCH), OsStr::new("supervise"), OsStr::new(&parent)];
            head.into_iter().map(OsString::from).chain(argv).collect()
        }
    }
}

/// Ends a program that was started with [`supervised`] as the leader of a process group, and everything below it.
///
/// - `leader`: the process that was started; it must not have been awaited yet.
pub fn end(leader: u32) -> std::io::Result<()> {
    use nix::sys::signal::{Signal, kill, killpg};
    let leader = nix::unistd::Pid::from_raw(i32::try_from(leader).map_err(std::io::Error::other)?);
    let ended = match program() {
        Some(_) => kill(leader, supervise::END),
        None => killpg(leader, Signal::SIGKILL),
    };
    match ended {
        Err(nix::errno::Errno::ESRCH) => Ok(()),
        ended => Ok(ended?),
    }
}

/// Runs the command `launch` if the arguments of this process ask for it. To be called before anything else.
pub fn launch(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let arguments: Vec<OsString> = arguments.skip(1).collect();
    let [launch, verb, rest @ ..] = arguments.as_slice() else { return None };
    if launch != LAUNCH {
        return None;
    }
    let done = match (verb.to_str(), rest) {
        (Some("supervise"), [parent, argv @ ..]) => {
            parse_pid(parent).and_then(|parent| supervise::supervise_program(parent, argv))
        }
        (Some("start"), [parent, argv @ ..]) => parse_pid(parent).and_then(|parent| start(parent, argv).map(never)),
        (Some("confine"), argv) => confine::exec_confined(argv).map(never),
        _ => {
            Err("usage: launch supervise PARENT PROGRAM…, launch start PARENT PROGRAM…, launch confine PROGRAM…".into())
        }
    };
    Some(done.unwrap_or_else(|reason| {
        complain(&reason);
        ExitCode::from(NOT_STARTED)
    }))
}

/// Becomes a program that ends when its parent ends.
fn start(parent: nix::unistd::Pid, argv: &[OsString]) -> Result<Infallible, String> {
    let set = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    set.map_err(|error| format!("the parent-death signal cannot be set: {error}"))?;
    if nix::unistd::getppid() != parent {
        return Err("the parent has ended".into());
    }
    become_program(argv)
}

/// Replaces this process by a program.
fn become_program(argv: &[OsString]) -> Result<Infallible, String> {
    let [name, arguments @ ..] = argv else { return Err("no program is given".into()) };
    let error = Command::new(name).args(arguments).exec();
    Err(format!("`{}` cannot be started: {error}", name.display()))
}

fn never(infallible: Infallible) -> ExitCode {
    match infallible {}
}

fn parse_pid(text: &OsStr) -> Result<nix::unistd::Pid, String> {
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.map(nix::unistd::Pid::from_raw).ok_or_else(|| "the parent must be a process id".into())
}

/// For calls about processes and descriptors that may be gone already.
fn ignore(_: nix::Result<()>) {}

fn complain(reason: &str) {
    use std::io::Write;
    // There may be no listener.
    drop(writeln!(std::io::stderr(), "goalmill launch: {reason}"));
}
