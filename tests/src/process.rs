//! Goalmill's own processes, started, signalled and killed from tests.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
pub use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::installation::http_client;
use crate::wait::until_some;

/// Until one question has an answer; then it is asked again.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// One role of the binary as a child process; killed when dropped.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `goalmill` with `arguments`; everything it prints goes to `log`.
    pub fn start(arguments: &[&str], log: &Path) -> Result<Self> {
        Self::spawn(Command::new(binary()).args(arguments), log)
    }

    /// Starts a command that was made with [`binary`], for those that need an environment or a directory.
    pub fn spawn(command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
        Ok(Self { child, log: log.into() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All that was printed so far.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// `kill -9`, and waits for the end.
    pub fn kill9(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }

    /// Asks the process to end.
    pub fn terminate(&self) -> Result<()> {
        signal(self.pid(), Signal::SIGTERM)
    }

    /// Suspends the process.
    pub fn stop_process(&self) -> Result<()> {
        signal(self.pid(), Signal::SIGSTOP)
    }

    /// Resumes a suspended process.
    pub fn cont(&self) -> Result<()> {
        signal(self.pid(), Signal::SIGCONT)
    }

    /// How the process ended; an error when it did not within `limit`.
    pub async fn wait_exit(&mut self, limit: Duration) -> Result<ExitStatus> {
        let ended = until_some(limit, async || self.child.try_wait().transpose()).await;
        ended
            .with_context(|| format!("the process did not end within {limit:?}: {}", self.output()))?
            .map_err(Into::into)
    }

    /// Waits for a printed line that contains `text`, and returns it; a line counts once its end is there.
    pub async fn wait_line(&mut self, text: &str, limit: Duration) -> Result<String> {
        let line = until_some(limit, async || {
            let ended = matches!(self.child.try_wait(), Ok(Some(_)));
            let output = self.output();
            let mut lines = output.split_inclusive('\n').filter(|line| ended || line.ends_with('\n'));
            let found = lines.find(|line| line.contains(text)).map(|line| line.trim_end().to_owned());
            found.map(Some).or(ended.then_some(None))
        });
        let line = line.await;
        line.flatten().with_context(|| format!("no line with `{text}` within {limit:?}: {}", self.output()))
    }

    /// Waits until `<base_url>/readyz` answers 200.
    pub async fn wait_ready(&mut self, base_url: &str, limit: Duration) -> Result<()> {
        let (url, client) = (format!("{base_url}/readyz"), http_client());
        let ready = until_some(limit, async || {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return Some(false);
            }
            let answer = client.get(&url).timeout(CALL_LIMIT).send().await.ok()?;
            answer.status().is_success().then_some(true)
        });
        ensure!(ready.await == Some(true), "`{url}` is not ready within {limit:?}: {}", self.output());
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// The `goalmill` that was built beside the running test.
///
/// # Panics
/// When it was not built: a test of processes is of no use without.
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let profile = test.ancestors().nth(2).expect("tests run from `target/<profile>/deps`");
    let binary = profile.join(format!("goalmill{}", std::env::consts::EXE_SUFFIX));
    assert!(binary.exists(), "`{}` is missing: run `cargo build -p goalmill` first", binary.display());
    binary
}

/// Sends a signal; `None` only checks whether the process exists.
pub fn signal(pid: u32, signal: impl Into<Option<Signal>>) -> Result<()> {
    let signal = signal.into();
    let sent = kill(Pid::from_raw(i32::try_from(pid)?), signal);
    sent.with_context(|| format!("{signal:?} did not reach process {pid}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{SOON, until};

    #[tokio::test]
    async fn a_process_is_read_held_and_ended() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"]);
        let mut process = Process::spawn(&mut shell, &log).unwrap();
        assert_eq!(process.wait_line("ready", SOON).await.unwrap(), "ready");
        process.stop_process().unwrap();
        process.cont().unwrap();
        process.terminate().unwrap();
        assert_eq!(process.wait_exit(SOON).await.unwrap().code(), Some(7));
        assert!(process.wait_line("never printed", SOON).await.is_err(), "a process that ended prints no more");
    }

    #[tokio::test]
    async fn a_dropped_process_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut sleep = Command::new("sleep");
        let process = Process::spawn(sleep.arg("600"), &dir.path().join("log")).unwrap();
        let pid = process.pid();
        drop(process);
        until(SOON, async || signal(pid, None).is_err()).await;
    }
}
