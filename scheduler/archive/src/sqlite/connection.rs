//! A connection on its own thread, because its calls block.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::Result;
use crate::ArchiveError;

/// How long a call waits while another process writes.
const BUSY: Duration = Duration::from_secs(5);
/// Maximum number of calls that wait for the thread.
const WAITING_MAX: usize = 64;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// Runs calls one after the other. The thread ends when this value is dropped and all calls are done.
pub(super) struct ConnectionThread(mpsc::Sender<Job>);

impl ConnectionThread {
    /// Opens the file.
    pub(super) fn start(path: &Path) -> Result<Self> {
        let place = path.display();
        let failed = |error: rusqlite::Error| ArchiveError::Unavailable(format!("`{place}` cannot be opened: {error}"));
        let mut connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(BUSY).map_err(failed)?;
        // Every transaction is on the disk before the call returns: the keys in Redis expire after that.
        connection.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
        connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(64);
        let (sender, mut jobs) = mpsc::channel::<Job>(WAITING_MAX);
        let thread = std::thread::Builder::new().name("archive".into()).spawn(move || {
            while let Some(job) = jobs.blocking_recv() {
                // A call that panics fails alone: an open transaction is rolled back when it is dropped.
                drop(catch_unwind(AssertUnwindSafe(|| job(&mut connection))));
            }
        });
        thread.map_err(|error| ArchiveError::Unavailable(format!("its thread cannot be started: {error}")))?;
        Ok(Self(sender))
    }

    /// Runs a call on the thread. The call continues even if its caller is dropped.
    pub(super) async fn run_call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let gone = || ArchiveError::Unavailable("its thread has ended".into());
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| drop(reply.send(call(connection))));
        self.0.send(job).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

impl From<rusqlite::Error> for ArchiveError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// A number in the type of SQLite. Numbers that do not fit stand for no limit and become the largest value.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
