//! Connection state, set by the loops and shown by `/readyz`.

use goalmill_broker::BrokerError;
use tokio::sync::{Notify, watch};

/// The state before the first answer and the first failure.
const NOT_YET: &str = "redis has not answered yet";

/// State of the connection to Redis: `Ok` while it works, else the reason why not.
pub(crate) struct BrokerConnection {
    state: watch::Sender<Result<(), Trouble>>,
    lost: Notify,
}

/// Why the connection does not work.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub text: String,
    /// Whether Redis answers.
    pub is_answer: bool,
    /// Why it refuses, as the label of metrics; `None` if it is silent.
    pub reason: Option<&'static str>,
}

impl From<&BrokerError> for Trouble {
    fn from(error: &BrokerError) -> Self {
        Self { text: error.to_string(), is_answer: error.is_answer(), reason: error.reason() }
    }
}

impl Default for BrokerConnection {
    fn default() -> Self {
        let unknown = Trouble { text: NOT_YET.into(), is_answer: false, reason: None };
        let (state, _) = watch::channel(Err(unknown));
        Self { state, lost: Notify::new() }
    }
}

impl BrokerConnection {
    pub fn state(&self) -> Result<(), Trouble> {
        self.state.borrow().clone()
    }

    /// Redis answers and this worker's agent types are registered.
    pub fn set_up(&self) {
        let changed = self.state.send_if_modified(|state| std::mem::replace(state, Ok(())).is_err());
        if changed {
            tracing::info!("redis answers, the worker is ready");
        }
    }

    /// A call to Redis has failed. Each change of the reason is logged.
    pub fn set_lost(&self, error: &BrokerError) {
        let mut is_new = false;
        let was_up = self.state.send_if_modified(|state| {
            let before = std::mem::replace(state, Err(error.into()));
            is_new =
                before.as_ref().map_or_else(|known| known.text == NOT_YET || known.reason != error.reason(), |()| true);
            before.is_ok()
        });
        if is_new {
            tracing::warn!("the worker pauses: {error}");
        }
        if was_up {
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
