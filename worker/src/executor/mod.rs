//! What does a task's work.

use async_trait::async_trait;
use goalmill_common::failure::Failure;
use goalmill_common::json::Json;
use goalmill_common::task::Task;
use tokio_util::sync::CancellationToken;

/// What an execution gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub outputs: Json,
    /// US dollars.
    pub cost: f64,
    pub tokens: u64,
}

/// Does the work of one agent type. Implement it to embed a worker in a program of your own.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// Runs one attempt. It is dropped at its time limit and when it is cancelled; `cancelled` tells earlier,
    /// for those who must clean up.
    async fn execute(&self, task: &Task, progress: &Progress, cancelled: &CancellationToken) -> Result<Outcome, Failure>;
}

/// Tells how far an execution is.
#[derive(Clone, Debug, Default)]
pub struct Progress(std::sync::Arc<std::sync::Mutex<Option<(f64, String)>>>);

impl Progress {
    /// Says how far it is, 0 to 1, and a line for people; only the newest is sent.
    pub fn tell(&self, share: f64, message: impl Into<String>) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((share, message.into()));
    }

    /// What was told since the last call.
    pub fn take(&self) -> Option<(f64, String)> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}
