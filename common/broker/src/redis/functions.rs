//! The functions: their names, and how they get to the server.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{Cmd, Value, cmd};

use super::Result;
use super::error::to_broker_error;

/// The library for other programs.
const PUBLIC_NAME: &str = "goalmill";
const TEXT: &str = include_str!("functions.lua");

/// A function of the library; `functions.lua` says what keys and arguments it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Commit,
    Acquire,
    Renew,
    Release,
    Install,
    Send,
    Extend,
    Trim,
    Discard,
    RemoveType,
    Settle,
    Answer,
    Refuse,
    PutResult,
    Prune,
    Pull,
    Queues,
    Probe,
    Cancel,
    Recent,
    KeepEvent,
    TakeEvent,
    RecordWorkerHeartbeat,
    RecordSchedulerHeartbeat,
}

impl Function {
    fn name(self) -> &'static str {
        match self {
            Self::Commit => "goalmill_commit",
            Self::Acquire => "goalmill_acquire",
            Self::Renew => "goalmill_renew",
            Self::Release => "goalmill_release",
            Self::Install => "goalmill_install",
            Self::Send => "goalmill_send",
            Self::Extend => "goalmill_extend",
            Self::Trim => "goalmill_trim",
            Self::Discard => "goalmill_discard",
            Self::RemoveType => "goalmill_remove_type",
            Self::Settle => "goalmill_settle",
            Self::Answer => "goalmill_answer",
            Self::Refuse => "goalmill_refuse",
            Self::PutResult => "goalmill_put_result",
            Self::Prune => "goalmill_prune",
            Self::Pull => "goalmill_pull",
            Self::Queues => "goalmill_queues",
            Self::Probe => "goalmill_probe",
            Self::Cancel => "goalmill_cancel",
            Self::Recent => "goalmill_recent",
            Self::KeepEvent => "goalmill_keep_event",
            Self::TakeEvent => "goalmill_take_event",
            Self::RecordWorkerHeartbeat => "goalmill_record_worker_heartbeat",
            Self::RecordSchedulerHeartbeat => "goalmill_record_scheduler_heartbeat",
        }
    }

    /// A call with `keys`; arguments are added by the caller.
    pub(super) fn on<K: redis::ToRedisArgs>(self, keys: &[K]) -> Cmd {
        self.sized(keys, keys.len(), 0)
    }

    /// The same, with room for so many keys and arguments, and for so many bytes of arguments.
    pub(super) fn sized<K: redis::ToRedisArgs>(self, keys: &[K], count: usize, bytes: usize) -> Cmd {
        let mut call = Cmd::with_capacity(count + 3, bytes);
        let command = if self == Self::Recent { "FCALL_RO" } else { "FCALL" };
        call.arg(command).arg([self.name(), BUILD.as_str()].concat()).arg(keys.len());
        for key in keys {
            call.arg(key);
        }
        call
    }
}

/// The library of this build: its name, and its text.
struct Library {
    name: String,
    text: String,
}

/// What stands behind the names of this build's functions: a hash of their text.
static BUILD: LazyLock<String> = LazyLock::new(|| format!("_{:08x}", crc32fast::hash(TEXT.as_bytes())));

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let build = BUILD.as_str();
    let name = format!("{PUBLIC_NAME}{build}");
    let text =
        TEXT.replacen(PUBLIC_NAME, &name, 1).replacen("local BUILD = ''", &format!("local BUILD = '{build}'"), 1);
    Library { name, text }
});

/// Loads the library of this build, and the one for other programs, unless the server has them. Loading needs memory
/// that a full server has not.
///
/// No build replaces what another one calls: each has names of its own. A library `goalmill` of the same version stays as
/// it is; one of a build before names had a hash holds all functions of that build.
pub(super) async fn load(line: &mut impl ConnectionLike) -> Result<()> {
    if loaded(line, &LIBRARY.name).await?.is_none() {
        load_text(line, &LIBRARY.text).await?;
    }
    let public = loaded(line, PUBLIC_NAME).await?;
    if public.is_none_or(|text| version(&text) < version(TEXT)) {
        load_text(line, TEXT).await?;
    }
    Ok(())
}

async fn load_text(line: &mut impl ConnectionLike, text: &str) -> Result<()> {
    let _name: String =
        cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(text).query_async(line).await.map_err(to_broker_error)?;
    Ok(())
}

/// The text of a library that the server has.
async fn loaded(line: &mut impl ConnectionLike, name: &str) -> Result<Option<String>> {
    let mut list = cmd("FUNCTION");
    list.arg("LIST").arg("LIBRARYNAME").arg(name).arg("WITHCODE");
    let libraries: Value = list.query_async(line).await.map_err(to_broker_error)?;
    Ok(library_text(&libraries).map(str::to_owned))
}

/// The text of a library in a reply of `FUNCTION LIST`.
fn library_text(reply: &Value) -> Option<&str> {
    if let Value::Array(items) = reply {
        return items.iter().find_map(library_text);
    }
    let Value::BulkString(bytes) = reply else { return None };
    std::str::from_utf8(bytes).ok().filter(|text| text.starts_with("#!lua"))
}

/// The version in the second line of a library, `-- version <n>`.
fn version(text: &str) -> Option<u32> {
    text.lines().nth(1)?.strip_prefix("-- version ")?.parse().ok()
}
