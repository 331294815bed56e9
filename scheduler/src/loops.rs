//! Starts the background loops of a scheduler.

use goalmill_common::supervisor::Supervisor;
use tokio::task::JoinHandle;
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
    pub(crate) fn spawn(&self, name: &'static str, run: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(self.supervisor.clone().watch(name, move || stop.is_cancelled(), run));
    }

    /// Runs a loop that may end with a value, before the scheduler stops too. The value is `None` if the loop panicked.
    pub(crate) fn spawn_ending<T: Send + 'static>(
        &self,
        name: impl Into<String> + Send + 'static,
        run: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        self.tasks.spawn(self.supervisor.clone().watch(name, || true, run))
    }
}
