//! Runs a program that a model wrote, isolated from the rest of the machine.
//!
//! The program is started through `timeout`, `unshare`, `setpriv` and `prlimit` of the system. It has namespaces of its
//! own: no network, no other processes, and a root directory with the system's programs (read-only) and the files of
//! the plan. A filter of system calls leaves no sockets but pairs and no further namespaces (package `launcher`). When the
//! first process ends, all others in its namespace end.

use std::collections::BTreeMap;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use goalmill_common::id::PlanId;
use goalmill_common::text::shorten;
use goalmill_worker::executor::command::{ProcessGroup, program};
use rustix::process::geteuid;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Child;

use super::workspace::{WorkspaceLimits, Workspaces};

/// The script that sets up the namespaces.
const ISOLATE: &str = include_str!("sandbox.sh");
/// The same without namespaces and filter: limits only.
const LIMIT: &str = "directory=$1 limits=$4; shift 5; while [ \"$1\" != -- ]; do shift; done; shift; cd \"$directory\"; \
                     echo ready; exec prlimit $limits -- \"$@\"";
/// The text that the scripts write before the program starts.
const READY: &[u8] = b"ready\n";
/// Where system programs are.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The user id of programs if the worker is root.
const NOBODY: &str = "65534";
/// How often the size of the files is checked.
const CHECK: Duration = Duration::from_millis(250);
/// Characters of a program's output in an error.
const SHOWN_CHARS_MAX: usize = 2_000;

/// Fields of the tools `python` and `shell` in the settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ProgramSettings {
    /// The interpreter; `python3` or `sh` if missing.
    pub program: Option<String>,
    isolation: Isolation,
    /// Files and directories outside of the plan that the program may read, besides those of the system.
    read_paths: Vec<PathBuf>,
    /// Milliseconds of one run.
    timeout_ms: u64,
    /// Bytes of standard output, and of standard error, that are kept.
    output_bytes_max: usize,
    /// Bytes of memory that one process may address.
    memory_bytes_max: u64,
    /// Maximum number of processes and threads at the same time.
    processes_max: u32,
    /// Bytes of one file.
    file_bytes_max: u64,
    /// Bytes of all files of a plan.
    bytes_max: u64,
}

impl Default for ProgramSettings {
    fn default() -> Self {
        Self {
            program: None,
            isolation: Isolation::Required,
            read_paths: Vec::new(),
            timeout_ms: 30_000,
            output_bytes_max: 12 << 10,
            memory_bytes_max: 1 << 30,
            processes_max: 64,
            file_bytes_max: 16 << 20,
            bytes_max: 64 << 20,
        }
    }
}

impl ProgramSettings {
    /// The violated condition, as a sentence that begins with the field.
    fn violation(&self) -> Option<&'static str> {
        let checks = [
            (self.program.as_ref().is_none_or(|name| !name.is_empty()), "`program` must not be empty"),
            (self.read_paths.iter().all(|path| path.is_absolute()), "`read_paths` must be absolute"),
            ((100..=3_600_000).contains(&self.timeout_ms), "`timeout_ms` must be within 100 and 3600000"),
            ((256..=1 << 20).contains(&self.output_bytes_max), "`output_bytes_max` must be within 256 and 1048576"),
            (self.memory_bytes_max >= 16 << 20, "`memory_bytes_max` must be at least 16777216"),
            ((2..=10_000).contains(&self.processes_max), "`processes_max` must be within 2 and 10000"),
        ];
        checks.iter().find(|(holds, _)| !holds).map(|(_, text)| *text)
    }
}

/// Whether a program is isolated from the rest of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Isolation {
    /// Programs do not run if the kernel does not allow isolation.
    Required,
    /// Limits only: the program can use the network and the files of the worker's user.
    None,
}

/// Runs programs in the workspaces of plans.
pub(super) struct Sandbox {
    settings: ProgramSettings,
    files: Arc<Workspaces>,
}

impl Sandbox {
    pub fn new(settings: ProgramSettings, files_dir: &Path) -> Result<Self, String> {
        if let Some(violation) = settings.violation() {
            return Err(violation.into());
        }
        let limits = WorkspaceLimits { file_bytes_max: settings.file_bytes_max, bytes_max: settings.bytes_max };
        Ok(Self { files: Arc::new(Workspaces::new(files_dir, limits)), settings })
    }

    /// Runs a program to its end or its time limit. The program is killed when the future is dropped.
    pub async fn run_program(&self, plan: &PlanId, argv: &[&str]) -> Result<Value, String> {
        let (files, id) = (Arc::clone(&self.files), plan.clone());
        let places = tokio::task::spawn_blocking(move || files.sandbox_places(&id)).await;
        let (directory, mount_point) = places.unwrap_or_else(|_| Err("the files of the plan cannot be used".into()))?;
        let mut child = self.spawn(argv, &directory, &mount_point)?;
        let group = ProcessGroup::from_child(&child);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut out = Capture::new(self.settings.output_bytes_max + READY.len());
        let mut err = Capture::new(self.settings.output_bytes_max);
        let working =
            async { tokio::join!(group.wait(&mut child), out.capture_stream(stdout), err.capture_stream(stderr)).0 };
        let limit = Duration::from_millis(self.settings.timeout_ms);
        let ended = tokio::select! {
            status = working => Ok(status),
            () = tokio::time::sleep(limit) => Err(format!("it was stopped after {} s (`timeout_ms`)", limit.as_secs_f64())),
            reason = self.wait_for_overflow(plan) => Err(reason),
        };
        if !out.kept.starts_with(READY) {
            return Err(self.not_started(&err));
        }
        out.kept.drain(..READY.len());
        match ended {
            Ok(Ok(status)) => Ok(report(status.code(), &out, &err)),
            Ok(Err(error)) => Err(format!("the program cannot be observed: {error}")),
            Err(reason) => Err(format!("{reason}; its output: {}", shorten(&out.text(), SHOWN_CHARS_MAX))),
        }
    }

    fn spawn(&self, argv: &[&str], directory: &Path, mount_point: &Path) -> Result<Child, String> {
        let settings = &self.settings;
        let is_root = geteuid().is_root();
        let seconds = settings.timeout_ms.div_ceil(1_000) + 5;
        // Ends the program even if the worker is killed.
        let mut line: Vec<String> = ["timeout", "-s", "KILL"].map(String::from).into();
        line.push(seconds.to_string());
        let script = match settings.isolation {
            Isolation::Required => {
                let namespaces = ["--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child"];
                line.extend(iter::once("unshare").chain(namespaces).map(String::from));
                line.extend((!is_root).then(|| "--map-root-user".into()));
                ISOLATE
            }
            Isolation::None => LIMIT,
        };
        let (cpu, processes) = (seconds, settings.processes_max);
        let (memory, file) = (settings.memory_bytes_max, settings.file_bytes_max);
        let limits = format!("--core=0 --nofile=256 --cpu={cpu} --nproc={processes} --as={memory} --fsize={file}");
        let user = if is_root { NOBODY } else { "" };
        line.extend(["sh", "-c", script, "sandbox"].map(String::from));
        line.extend([directory.display().to_string(), mount_point.display().to_string(), user.into(), limits]);
        line.push(goalmill_launcher::program().unwrap_or(Path::new("")).display().to_string());
        line.extend(settings.read_paths.iter().map(|path| path.display().to_string()));
        line.push("--".into());
        line.extend(argv.iter().map(|&part| part.to_owned()));
        let home =
            if settings.isolation == Isolation::Required { "/work".into() } else { directory.display().to_string() };
        let set = [("PATH", PATH), ("LANG", "C.UTF-8"), ("HOME", home.as_str()), ("PYTHONDONTWRITEBYTECODE", "1")];
        let set: BTreeMap<String, String> = set.map(|(name, value)| (name.into(), value.into())).into();
        let mut command = program(&line, iter::empty(), &set);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| {
            tracing::warn!("a program of a model cannot be started: {error}");
            "programs cannot be started on this worker".into()
        })
    }

    /// Ends when the files of the plan exceed their limits.
    async fn wait_for_overflow(&self, plan: &PlanId) -> String {
        loop {
            tokio::time::sleep(CHECK).await;
            let (files, plan) = (Arc::clone(&self.files), plan.clone());
            if let Ok(Err(reason)) = tokio::task::spawn_blocking(move || files.check_size(&plan)).await {
                return format!("it was stopped: {reason}");
            }
        }
    }

    fn not_started(&self, err: &Capture) -> String {
        let reason = err.text();
        tracing::warn!("a program of a model was not run: {}", shorten(reason.trim(), 300));
        match self.settings.isolation {
            Isolation::Required => {
                "nothing was run: programs cannot be isolated on this worker (its kernel or container does not allow \
                 namespaces, or `unshare`, `setpriv`, `prlimit` or `mount` is missing, or the worker has no launcher)"
            }
            Isolation::None => "nothing was run: `sh` or `prlimit` is missing on this worker",
        }
        .into()
    }
}

fn report(status: Option<i32>, out: &Capture, err: &Capture) -> Value {
    let mut report = json!({"exit_code": status, "stdout": out.text(), "stderr": err.text()});
    for (name, capture) in [("stdout_bytes", out), ("stderr_bytes", err)] {
        if capture.is_cut() {
            report[name] = json!(capture.bytes);
        }
    }
    report
}

/// The beginning of an output stream, and the length of the whole stream.
struct Capture {
    kept: Vec<u8>,
    bytes: u64,
    limit: usize,
}

impl Capture {
    fn new(limit: usize) -> Self {
        Self { kept: Vec::new(), bytes: 0, limit }
    }

    async fn capture_stream(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut buffer = vec![0; 8_192];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            self.bytes += count as u64;
            let room = self.limit - self.kept.len();
            self.kept.extend_from_slice(&buffer[..count.min(room)]);
        }
    }

    fn is_cut(&self) -> bool {
        self.bytes > self.limit as u64
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept).into_owned()
    }
}
