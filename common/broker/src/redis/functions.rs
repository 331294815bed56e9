//! The function library: its names, and how it gets to the server.

use redis::aio::ConnectionLike;
use redis::{Cmd, Value, cmd};

use super::Result;
use super::fault::fault;

const LIBRARY_NAME: &str = "goalmill_v1";
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
    ForgetType,
    Settle,
    Prune,
    Pull,
    Queues,
    Probe,
    Cancel,
    Recent,
    BeatWorker,
    BeatScheduler,
}

impl Function {
    /// The name, with the version: a new one goes beside the old while a cluster is being upgraded.
    fn name(self) -> &'static str {
        match self {
            Self::Commit => "goalmill_commit_v5",
            Self::Acquire => "goalmill_acquire_v1",
            Self::Renew => "goalmill_renew_v1",
            Self::Release => "goalmill_release_v1",
            Self::Install => "goalmill_install_v1",
            Self::Send => "goalmill_send_v1",
            Self::Extend => "goalmill_extend_v1",
            Self::Trim => "goalmill_trim_v1",
            Self::Discard => "goalmill_discard_v1",
            Self::ForgetType => "goalmill_forget_type_v1",
            Self::Settle => "goalmill_settle_v1",
            Self::Prune => "goalmill_prune_v1",
            Self::Pull => "goalmill_pull_v1",
            Self::Queues => "goalmill_queues_v2",
            Self::Probe => "goalmill_probe_v1",
            Self::Cancel => "goalmill_cancel_v1",
            Self::Recent => "goalmill_recent_v1",
            Self::BeatWorker => "goalmill_beat_worker_v1",
            Self::BeatScheduler => "goalmill_beat_scheduler_v1",
        }
    }

    /// A call with `keys`; arguments are added by the caller.
    pub(super) fn on<K: redis::ToRedisArgs>(self, keys: &[K]) -> Cmd {
        self.sized(keys, keys.len(), 0)
    }

    /// The same, with room for so many keys and arguments, and for so many bytes of arguments.
    pub(super) fn sized<K: redis::ToRedisArgs>(self, keys: &[K], count: usize, bytes: usize) -> Cmd {
        let mut call = Cmd::with_capacity(count + 3, bytes);
        call.arg("FCALL").arg(self.name()).arg(keys.len());
        for key in keys {
            call.arg(key);
        }
        call
    }
}

/// Loads the library unless the server has this very text: loading needs memory that a full server has not.
pub(super) async fn load(line: &mut impl ConnectionLike) -> Result<()> {
    let mut list = cmd("FUNCTION");
    list.arg("LIST").arg("LIBRARYNAME").arg(LIBRARY_NAME).arg("WITHCODE");
    let present: Value = list.query_async(line).await.map_err(fault)?;
    if holds_text(&present, LIBRARY.as_bytes()) {
        return Ok(());
    }
    let _name: String =
        cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(LIBRARY).query_async(line).await.map_err(fault)?;
    Ok(())
}

/// Whether a reply has this text anywhere.
fn holds_text(value: &Value, text: &[u8]) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| holds_text(item, text)),
        Value::BulkString(bytes) => bytes == text,
        _ => false,
    }
}
