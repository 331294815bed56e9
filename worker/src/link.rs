//! Whether Redis answers, as the loops see it and `/readyz` tells it.

use tokio::sync::{Notify, watch};

/// The state of the connection: `Ok` while it serves, else why it does not.
pub(crate) struct Link {
    state: watch::Sender<Result<(), String>>,
    lost: Notify,
}

impl Default for Link {
    fn default() -> Self {
        let (state, _) = watch::channel(Err("redis has not answered yet".into()));
        Self { state, lost: Notify::new() }
    }
}

impl Link {
    pub fn state(&self) -> Result<(), String> {
        self.state.borrow().clone()
    }

    /// Redis answers and knows this worker's agent types.
    pub fn up(&self) {
        let changed = self.state.send_if_modified(|state| std::mem::replace(state, Ok(())).is_err());
        if changed {
            tracing::info!("redis answers, the worker is ready");
        }
    }

    /// Somebody saw that Redis does not serve.
    pub fn lost(&self, reason: &str) {
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

    /// Waits for the next loss that another loop sees.
    pub async fn wait_lost(&self) {
        self.lost.notified().await;
    }

    /// Waits until Redis serves.
    pub async fn wait_up(&self) {
        let mut state = self.state.subscribe();
        state.wait_for(Result::is_ok).await.expect("the sender lives as long as the link").as_ref().ok();
    }
}
