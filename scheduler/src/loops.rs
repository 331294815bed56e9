//! Starts the background loops of a scheduler.

use goalmill_common::supervisor::Supervisor;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What the loops of one scheduler share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loops {
    /// Counts the tasks.
    pub(crate) tasks: TaskTracker,
    /// Stops the loops.
    pub(crate) stop: CancellationToken,
    pub(crate) supervisor: Supervisor,
}

impl Loops {
    /// Runs a loop until the scheduler stops. The scheduler fails if the loop ends before.
    pub(crate) fn spawn(&self, name: &'static str, run: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        let stop = self.stop.clone();
        self.tasks.spawn(self.supervisor.clone().watch(name, move || stop.is_cancelled(), run))
    }

    /// Fails the scheduler if a loop that gives a value panicked.
    ///
    /// - `error`: how the wait for it ended.
    pub(crate) fn report(&self, name: &str, error: &JoinError) {
        if error.is_panic() {
            self.supervisor.fail(&format!("loop `{name}`: {error}"));
        }
    }
}
