//! `command`: runs a program; the task as JSON on its standard input, the outputs as JSON on its standard output.
//!
//! `{"kind": "command", "argv": ["python3", "agent.py"], "env": ["PATH", "HOME"], "set": {"LANG": "C"}, "dir": "/srv"}`
//!
//! There is no shell. The environment is empty but for what `env` lets through and `set` sets, and `TRACEPARENT` when
//! the task has a trace. The program runs under a supervisor (package `launcher`) in a process group of its own. When the
//! attempt ends, in whatever way, everything that the program started is killed, and so it is when the worker is killed.
//! At a time limit or a cancellation the group gets `SIGTERM` a moment before.
//!
//! | exit | failure class | code |
//! |---|---|---|
//! | 0, also without an answer: then there are no outputs | none | |
//! | 75 (`EX_TEMPFAIL` of sysexits.h) | transient | `EXIT_75` |
//! | another code | permanent | `EXIT_<code>` |
//! | killed by a signal | transient | `SIGNAL_<number>` |
//! | cannot be started | permanent | `COMMAND_NOT_STARTED` |
//!
//! An answer `{"error": {…}}` on standard output wins over the code; the end of standard error is in the message.
//! With `"answer": "raw"` the output is never read as an envelope.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use async_trait::async_trait;
use goalmill_common::config::environment;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::limits::Limits;
use goalmill_common::task::Task;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};
use tokio_util::sync::CancellationToken;

use super::{AnswerForm, ExecutionResult, Executor, Progress, call, clip};

/// Bytes of an answer besides the outputs.
const FRAME_BYTES_MAX: usize = 64 << 10;
/// Bytes of standard error that are kept, from its end.
const TAIL_BYTES_MAX: usize = 4 << 10;
/// The limit of memory of a container (cgroup v2), in bytes.
const MEMORY_LIMIT: &str = "/sys/fs/cgroup/memory.max";
/// `EX_TEMPFAIL`: try again later.
const TEMPFAIL: i32 = 75;

/// Which program does the work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandSettings {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables of the worker's environment that the program gets too.
    #[serde(default)]
    pub env: Vec<String>,
    /// Variables set for the program.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Where it runs; the worker's directory when missing.
    #[serde(default)]
    pub dir: Option<PathBuf>,
    /// Whether answers are envelopes (`envelope`, unless given) or bare JSON (`raw`).
    #[serde(default)]
    pub answer: AnswerForm,
}

/// Runs one program per attempt.
pub struct CommandExecutor {
    settings: CommandSettings,
    answer_bytes_max: usize,
}

impl CommandExecutor {
    /// Checks the settings; the error is a sentence for people.
    pub fn new(settings: CommandSettings, limits: &Limits) -> Result<Self, String> {
        if settings.argv.first().is_none_or(String::is_empty) {
            return Err("`argv` is empty: give the program and its arguments as a list".into());
        }
        Ok(Self { settings, answer_bytes_max: limits.payload_bytes_max + FRAME_BYTES_MAX })
    }

    fn spawn(&self, task: &Task) -> io::Result<Child> {
        let CommandSettings { argv, env, set, .. } = &self.settings;
        let mut command = program(argv, env.iter().map(String::as_str), set);
        if let Some(traceparent) = task.safe_traceparent() {
            command.env("TRACEPARENT", traceparent);
        }
        if let Some(dir) = &self.settings.dir {
            command.current_dir(dir);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    }
}

/// A program of the settings: supervised, in a process group of its own, with the variables that it is given and no others.
///
/// - `argv`: the program and its arguments, at least the first.
/// - `names`: variables of this process that it gets too.
/// - `set`: variables set for it.
pub fn program<'a>(
    argv: &[String],
    names: impl Iterator<Item = &'a str>,
    set: &BTreeMap<String, String>,
) -> tokio::process::Command {
    let line = goalmill_launcher::supervised(argv);
    let mut command = tokio::process::Command::new(&line[0]);
    command.args(&line[1..]).env_clear();
    command.envs(names.filter_map(|name| Some((name, environment(name)?))));
    // A supervisor ends by itself, after everything below it.
    command.envs(set).process_group(0).kill_on_drop(goalmill_launcher::program().is_none());
    command
}

#[async_trait]
impl Executor for CommandExecutor {
    async fn execute(
        &self,
        task: &Task,
        _: &Progress,
        cancelled: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        let mut child = self.spawn(task).map_err(|e| self.not_started(&e))?;
        let group = ProcessGroup::from_child(&child);
        let leader = group.leader();
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let ended = async { group.wait(&mut child).await.map_err(|e| broken(&e)) };
        let feeding = async {
            feed(stdin, call::encode_request(task)).await;
            Ok(())
        };
        let tailing = async { Ok(tail(stderr).await) };
        let working = async { tokio::try_join!(feeding, self.answer(stdout), tailing, ended) };
        let ((), answer, tail, status) = tokio::select! {
            biased;
            done = working => done?,
            never = ask_to_end(leader, cancelled) => match never {},
        };
        // Programs that have nothing to say end with 0 and without a word.
        if status.success() && answer.trim_ascii().is_empty() {
            return Ok(ExecutionResult::default());
        }
        if status.success() {
            return call::parse_answer(&answer, self.settings.answer, &task.step);
        }
        let (class, code) = class_of(status);
        let said = String::from_utf8_lossy(&tail);
        let (program, said) = (&self.settings.argv[0], clip(&said));
        let said = if said.is_empty() { said } else { format!(": {said}") };
        let message = format!("`{program}` ended with {status}{}{said}", killed_hint(status));
        Err(match call::parse_error(&answer, self.settings.answer) {
            Some(error) => error.into_failure(class, &code, &message),
            // A program that was killed says nothing about its work.
            None if status.code().is_none() => Failure::new(class, code, message).with_unknown_outcome(),
            None => Failure::new(class, code, message),
        })
    }
}

impl CommandExecutor {
    fn not_started(&self, error: &io::Error) -> Failure {
        let message = format!("`{}` cannot be started: {error}", self.settings.argv[0]);
        Failure::new(FailureClass::Permanent, "COMMAND_NOT_STARTED", message)
    }

    async fn answer(&self, stdout: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, Failure> {
        let mut answer = Vec::new();
        let Some(stdout) = stdout else { return Ok(answer) };
        let limit = self.answer_bytes_max;
        let cap = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        stdout.take(cap).read_to_end(&mut answer).await.map_err(|e| broken(&e))?;
        if answer.len() > limit {
            let message = format!("`{}` wrote more than {limit} bytes", self.settings.argv[0]);
            return Err(Failure::new(FailureClass::Permanent, "OUTPUT_TOO_LARGE", message));
        }
        Ok(answer)
    }
}

/// Writes the question; a program need not read it.
async fn feed(stdin: Option<ChildStdin>, question: Vec<u8>) {
    if let Some(mut stdin) = stdin
        && let Err(e) = stdin.write_all(&question).await
    {
        tracing::debug!("a command did not read its input: {e}");
    }
}

/// The last bytes of a stream.
async fn tail(stream: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut stream) = stream else { return kept };
    let mut buffer = [0; 4_096];
    while let Ok(n) = stream.read(&mut buffer).await {
        if n == 0 {
            break;
        }
        kept.extend_from_slice(&buffer[..n]);
        kept.drain(..kept.len().saturating_sub(TAIL_BYTES_MAX));
    }
    kept
}

fn class_of(status: ExitStatus) -> (FailureClass, String) {
    match (status.code(), status.signal()) {
        (Some(TEMPFAIL), _) => (FailureClass::Transient, format!("EXIT_{TEMPFAIL}")),
        (Some(code), _) => (FailureClass::Permanent, format!("EXIT_{code}")),
        (None, Some(signal)) => (FailureClass::Transient, format!("SIGNAL_{signal}")),
        (None, None) => (FailureClass::Transient, "EXIT_UNKNOWN".into()),
    }
}

/// The likely reason of a killed program: memory is the usual reason, and the limit of it if there is one.
fn killed_hint(status: ExitStatus) -> String {
    if status.signal() != Some(Signal::KILL.as_raw()) {
        return String::new();
    }
    let limit = std::fs::read_to_string(MEMORY_LIMIT).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let limit = limit.map(|bytes| format!("; the limit of this worker's container is {} MiB", bytes >> 20));
    format!(" (perhaps it took more memory than there is{})", limit.unwrap_or_default())
}

fn broken(error: &io::Error) -> Failure {
    let message = format!("the program's pipes are broken: {error}");
    Failure::new(FailureClass::Transient, "COMMAND_BROKEN", message).with_unknown_outcome()
}

/// Passes a cancellation on; the program may still finish in its own way.
async fn ask_to_end(leader: Option<Pid>, cancelled: &CancellationToken) -> Infallible {
    cancelled.cancelled().await;
    terminate(leader);
    std::future::pending().await
}

/// Sends SIGTERM to a process group.
fn terminate(leader: Option<Pid>) {
    if let Some(group) = leader
        && let Err(e) = kill_process_group(group, Signal::TERM)
    {
        tracing::debug!("a command's process group cannot be asked to end: {e}");
    }
}

/// A program of [`program`] that ends with this value, and with it everything that the program started.
pub struct ProcessGroup(Option<u32>);

impl ProcessGroup {
    /// The group that a program of [`program`] leads.
    pub fn from_child(child: &Child) -> Self {
        Self(child.id())
    }

    /// Asks the program to end, by SIGTERM.
    pub fn ask_to_end(&self) {
        terminate(self.leader());
    }

    fn leader(&self) -> Option<Pid> {
        self.0.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
    }

    /// Waits for the end of the program, and ends what it left behind, which would keep its pipes open.
    pub async fn wait(mut self, child: &mut Child) -> io::Result<ExitStatus> {
        let ended = child.wait().await;
        if goalmill_launcher::program().is_some() {
            // The supervisor has ended everything before itself.
            self.0 = None;
        }
        ended
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(Err(e)) = self.0.map(goalmill_launcher::end) {
            tracing::warn!("a command cannot be ended: {e}");
        }
    }
}
