//! Connection state, set by the loops and shown by `/readyz`.

use tokio::sync::{Notify, watch};

/// State of the connection to Redis: `Ok` while it works, else the reason why not.
pub(crate) struct BrokerConnection {
    state: watch::Sender<Result<(), String>>,
    lost: Notify,
}

impl Default for BrokerConnection {
    fn default() -> Self {
        let (state, _) = watch::channel(Err("redis has not answered yet".into()));
        Self { state, lost: Notify::new() }
    }
}

impl BrokerConnection {
    pub fn state(&self) -> Result<(), String> {
        self.state.borrow().clone()
    }

    /// Redis answers and this worker's agent types are registered.
    pub fn set_up(&self) {
        let changed = self.state.send_if_modified(|state| std::mem::replace(state, Ok(())).is_err());
        if changed {
            tracing::info!("redis answers, the worker is ready");
        }
    }

    /// A call to Redis has failed.
    pub fn set_lost(&self, reason: &str) {
        let changed = self.state.send_if_modified(|state| {
            let was_up = state.is_ok();
            *state = Err(reason.to_owned());
            was_up
        });
        if changed {
            tracing::warn!("the worker pauses: {reason}");
            self.lost.notify_one();
        }
    }

    /// Waits until a loop reports a failed call.
    pub async fn wait_lost(&self) {
        self.lost.notified().await;
    }

    /// Waits until Redis answers.
    pub async fn wait_up(&self) {
        let mut state = self.state.subscribe();
        state.wait_for(Result::is_ok).await.expect("the sender lives as long as the connection").as_ref().ok();
    }
}
