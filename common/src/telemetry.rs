//! Log lines on standard error, and the Prometheus recorder.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::EnvFilter;

use crate::metric::{self, Instrument, METRICS};

/// The commit of the program, for `goalmill_build_info`.
static COMMIT: OnceLock<&'static str> = OnceLock::new();

/// Bytes that a pipe with any room takes without a wait: `PIPE_BUF`, of which POSIX demands less.
const PIPE_BYTES: usize = 4096;
/// How long a line waits for a reader that is slow, before it and the next ones are dropped.
const READER_WAIT: Duration = Duration::from_millis(100);
/// Whether the reader of the log hung at the last line.
static READER_HANGS: AtomicBool = AtomicBool::new(false);
/// Whether the last line that was begun has no end.
static WAS_CUT: AtomicBool = AtomicBool::new(false);

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people: a line an event.
    Text,
    /// For programs: a JSON object an event.
    Json,
}

/// Starts logging to standard error. A line that cannot be written, because its reader is gone or hangs or the disk is
/// full, is dropped.
///
/// `level` is a filter such as `warn` or `goalmill_worker=debug,info`; `RUST_LOG` wins when it is set.
/// Calling it again changes nothing.
pub fn log(level: &str, format: LogFormat) {
    let filter = crate::config::environment("RUST_LOG").unwrap_or_else(|| level.into());
    let filter = EnvFilter::try_new(&filter).unwrap_or_else(|_| EnvFilter::new("warn"));
    // By default a failed write is reported by `eprintln!`, which panics because it fails too.
    let builder = tracing_subscriber::fmt().log_internal_errors(false);
    let builder = builder.with_env_filter(filter).with_writer(|| LogWriter);
    let colour = crate::config::environment("NO_COLOR").is_none() && std::io::stderr().is_terminal();
    let started = match format {
        LogFormat::Text => builder.with_ansi(colour).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    drop(started);
}

/// Makes panics lines of the log, also if its filter leaves errors of this module out. Such a line does not wait for a
/// reader that hangs: a loop that panics ends its role only when the panic has been written.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let mut text = format!("thread `{}` {panic}", thread.name().unwrap_or("without a name"));
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            text.push_str(&format!("\n{backtrace}"));
        }
        if tracing::enabled!(tracing::Level::ERROR) {
            tracing::error!("{text}");
        } else {
            write_line(&text);
        }
    }));
}

/// Writes a line to standard error that no filter leaves out. It does not wait for a reader that hangs.
pub fn write_line(text: &str) {
    drop(LogWriter.write_all(format!("{text}\n").as_bytes()));
}

/// Standard error, without a wait for a reader that hangs: the threads that log are those that do the work.
struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut stderr = io::stderr().lock();
        let mut may_wait = !READER_HANGS.load(Ordering::Relaxed);
        // A part leaves room for the end of a line that was cut.
        for (n, part) in line.chunks(PIPE_BYTES - 1).enumerate() {
            let is_free =
                has_room(&stderr, Duration::ZERO)? || std::mem::take(&mut may_wait) && has_room(&stderr, READER_WAIT)?;
            READER_HANGS.store(!is_free, Ordering::Relaxed);
            if !is_free {
                WAS_CUT.fetch_or(n > 0, Ordering::Relaxed);
                break;
            }
            if WAS_CUT.swap(false, Ordering::Relaxed) {
                stderr.write_all(b"\n")?;
            }
            stderr.write_all(part)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Whether so much can be written now, or within `wait`, that a part of a line does not block.
fn has_room(stderr: &io::StderrLock<'_>, wait: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(wait).ok();
    let ready = rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(stderr, PollFlags::OUT)], timeout.as_ref()))?;
    Ok(ready > 0)
}

/// The process-wide metrics recorder: installed by the first call, shared by the later ones; `None` when the
/// program that embeds us has one of its own.
///
/// The caller must call `run_upkeep` every few seconds, or histogram samples pile up.
pub fn metrics() -> Option<PrometheusHandle> {
    static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    HANDLE.get_or_init(install).clone()
}

fn install() -> Option<PrometheusHandle> {
    let handle = builder().ok()?.install_recorder().ok()?;
    metric::describe();
    Some(handle)
}

/// Sets the commit that the program was built from: 12 hexadecimal digits. The first call counts.
pub fn set_commit(commit: &'static str) {
    COMMIT.get_or_init(|| commit);
}

/// The commit that the program was built from, or `unknown`.
pub fn commit() -> &'static str {
    COMMIT.get().copied().unwrap_or("unknown")
}

/// The version of the program, with the commit: `0.1.0 (5f5ef6876101)`.
pub fn version() -> String {
    format!("{} ({})", env!("CARGO_PKG_VERSION"), commit())
}

/// A recorder with the buckets of [`metric::METRICS`].
pub fn builder() -> Result<PrometheusBuilder, BuildError> {
    METRICS.iter().try_fold(PrometheusBuilder::new(), |builder, metric| match metric.kind {
        Instrument::Histogram(buckets) => builder.set_buckets_for_metric(Matcher::Full(metric.name.into()), buckets),
        Instrument::Counter | Instrument::Gauge => Ok(builder),
    })
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::process::Command;

    use super::*;

    /// Runs itself as a process that panics.
    #[test]
    fn no_filter_leaves_panics_out() {
        const IS_CHILD: &str = "GOALMILL_TEST_PANICS";
        if crate::config::environment(IS_CHILD).is_some() {
            log("info", LogFormat::Text);
            log_panics();
            drop(catch_unwind(|| panic!("it was broken on purpose")));
            return;
        }
        for filter in ["info", "off", "goalmill_scheduler=debug"] {
            let mut command = Command::new(std::env::current_exe().expect("the test is a program"));
            command.args(["--exact", "--nocapture", "telemetry::tests::no_filter_leaves_panics_out"]);
            let output = command.env(IS_CHILD, "1").env("RUST_LOG", filter).output().expect("it starts");
            let log = String::from_utf8_lossy(&output.stderr);
            assert_eq!(log.matches("it was broken on purpose").count(), 1, "{filter}: {log}");
            let name = "thread `telemetry::tests::no_filter_leaves_panics_out` panicked at";
            assert!(log.contains(name), "{filter}: {log}");
        }
    }
}
