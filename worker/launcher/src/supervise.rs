//! `launch supervise`: runs a program, and ends it with everything that it started.
//!
//! The supervisor is the subreaper of the program's descendants, so none can leave it. It ends them when the program has
//! ended, when it gets the signal `END`, and when its own parent has ended. It passes the program's exit code or signal on.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::{Pid, getppid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGURG, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::descendants::{ExitCause, end_all, reap_ended};
use crate::{LAUNCH, SELF, ignore};

/// Asks a supervisor to end the program and everything that it started.
pub(crate) const END: Signal = Signal::SIGUSR1;
/// Sent by the kernel when a thread of the parent ends; it means something only if the parent is gone.
const PARENT_DIED: i32 = SIGURG;
/// Exit codes of signals, as in shells.
const SIGNAL_BASE: i32 = 128;

/// Runs a program to its end.
///
/// - `parent`: the worker; the program ends with it.
pub(crate) fn supervise_program(parent: Pid, argv: &[OsString]) -> Result<ExitCode, String> {
    close_inherited();
    let failed = |what: &'static str| move |error: nix::errno::Errno| format!("{what} cannot be set: {error}");
    prctl::set_child_subreaper(true).map_err(failed("the subreaper"))?;
    // The program is in this process group: it gets signals to the group by itself.
    let signals = [SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, PARENT_DIED];
    let mut signals = Signals::new(signals).map_err(|error| format!("signals cannot be received: {error}"))?;
    prctl::set_pdeathsig(Signal::SIGURG).map_err(failed("the parent-death signal"))?;
    if getppid() != parent {
        return Err("the worker has ended".into());
    }
    let own = std::process::id().to_string();
    let child = Command::new(SELF).args([LAUNCH, "start", &own]).args(argv).spawn();
    let leader = child.map_err(|error| format!("the program cannot be started: {error}"))?.id();
    let mut ended = None;
    for signal in signals.forever() {
        match signal {
            SIGCHLD => {
                reap_ended(|process, status| {
                    if i32::try_from(leader) == Ok(process.as_raw()) {
                        ended = Some(status);
                    }
                });
                if ended.is_some() {
                    break;
                }
            }
            SIGUSR1 => break,
            PARENT_DIED if getppid() != parent => break,
            _ => {}
        }
    }
    end_all();
    Ok(end_like(ended.unwrap_or(ExitCause::Signal(Signal::SIGKILL))))
}

/// Ends this process as the program has ended.
fn end_like(ended: ExitCause) -> ExitCode {
    match ended {
        ExitCause::Code(code) => exit_code(code),
        ExitCause::Signal(signal) => {
            // One memory dump of a crash is enough: that of the program.
            ignore(nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0));
            if signal == Signal::SIGKILL {
                ignore(raise(signal));
            } else {
                drop(emulate_default_handler(signal as i32));
            }
            exit_code(SIGNAL_BASE + signal as i32)
        }
    }
}

fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Closes what this process has inherited besides standard input, output and error.
fn close_inherited() {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|&descriptor| descriptor > 2) {
        // The one that listed them is closed already.
        ignore(nix::unistd::close(descriptor));
    }
}

/// Runs this program again below a process that does what process 1 must do: it passes signals on and reaps every
/// process that is handed to it. Does nothing unless this process is process 1, such as in a container without an init.
///
/// Returns how the program ended.
pub fn run_as_init() -> Option<ExitCode> {
    if std::process::id() != 1 {
        return None;
    }
    let passed_on = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];
    let mut signals = Signals::new(passed_on.iter().copied().chain([SIGCHLD])).ok()?;
    // In a group of its own, so that a terminal sends a signal once.
    let child = Command::new(SELF).args(std::env::args_os().skip(1)).process_group(0).spawn().ok()?;
    let leader = Pid::from_raw(i32::try_from(child.id()).ok()?);
    let mut ended = None;
    loop {
        reap_ended(|process, status| ended = if process == leader { Some(status) } else { ended });
        match ended {
            // The kernel ends all other processes of the container with this one.
            Some(ExitCause::Code(code)) => return Some(exit_code(code)),
            Some(ExitCause::Signal(signal)) => return Some(exit_code(SIGNAL_BASE + signal as i32)),
            None => {}
        }
        for signal in signals.wait().filter(|&signal| signal != SIGCHLD) {
            if let Ok(signal) = Signal::try_from(signal) {
                // The program may have ended.
                ignore(kill(leader, signal));
            }
        }
    }
}
