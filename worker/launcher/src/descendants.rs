//! The processes below this one, also those that left its process group or session.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::ignore;

/// How long killed processes may take to disappear.
const LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// Kills and reaps everything below this process. As the subreaper of its descendants, this process gets those whose parents
/// have ended.
pub(crate) fn end_all() {
    #[expect(clippy::disallowed_methods, reason = "this process ends here: nothing of it is simulated or replayed")]
    let began = Instant::now();
    while reap_ended(|_, _| ()) && began.elapsed() < LIMIT {
        for process in below(nix::unistd::getpid()) {
            // It may have ended in the meantime.
            ignore(kill(process, Signal::SIGKILL));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Reaps all children that have ended. Returns whether there are others.
///
/// - `ended`: gets the process and its status as an exit code or a signal.
pub(crate) fn reap_ended(mut ended: impl FnMut(Pid, ExitCause)) -> bool {
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(process, code)) => ended(process, ExitCause::Code(code)),
            Ok(WaitStatus::Signaled(process, signal, _)) => ended(process, ExitCause::Signal(signal)),
            Ok(WaitStatus::StillAlive) => return true,
            // Stops of traced processes.
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExitCause {
    Code(i32),
    Signal(Signal),
}

/// All processes below one.
fn below(root: Pid) -> Vec<Pid> {
    let mut children = BTreeMap::<i32, Vec<i32>>::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some(parent) = parse_parent(&stat) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![root.as_raw()];
    while let Some(parent) = open.pop() {
        for process in children.remove(&parent).into_iter().flatten() {
            open.push(process);
            found.push(Pid::from_raw(process));
        }
    }
    found
}

/// The parent in `/proc/<pid>/stat`: the second field after the name, which stands in brackets and may contain any of both.
fn parse_parent(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_read_behind_any_name() {
        assert_eq!(parse_parent("12 (a) b ) S 7 12 12 0"), Some(7));
        assert_eq!(parse_parent("12 (sh"), None);
    }

    #[test]
    fn children_are_below_their_parent() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("`sleep` can be started");
        let process = Pid::from_raw(i32::try_from(child.id()).expect("process ids fit"));
        assert!(below(nix::unistd::getpid()).contains(&process));
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }
}
