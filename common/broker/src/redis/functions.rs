//! The function library: its names, and how it gets to the server.

use redis::aio::ConnectionLike;
use redis::{Cmd, Value, cmd};

use super::Result;
use super::error::to_broker_error;

const LIBRARY_NAME: &str = "goalmill";
const LIBRARY: &str = include_str!("functions.lua");

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
        call.arg(command).arg(self.name()).arg(keys.len());
        for key in keys {
            call.arg(key);
        }
        call
    }
}

/// Loads the library unless the server has this very text, or that of a later version: while an installation is upgraded,
/// the later library serves processes of both versions. Loading needs memory that a full server has not.
pub(super) async fn load(line: &mut impl ConnectionLike) -> Result<()> {
    let mut list = cmd("FUNCTION");
    list.arg("LIST").arg("LIBRARYNAME").arg(LIBRARY_NAME).arg("WITHCODE");
    let libraries: Value = list.query_async(line).await.map_err(to_broker_error)?;
    if library_text(&libraries).is_some_and(|text| text == LIBRARY || version(text) > version(LIBRARY)) {
        return Ok(());
    }
    let _name: String =
        cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(LIBRARY).query_async(line).await.map_err(to_broker_error)?;
    Ok(())
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
