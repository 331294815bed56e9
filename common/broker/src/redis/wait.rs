//! Wakes a waiting reader without dropping its read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redis::cmd;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::connections::Connections;
use crate::Waker;

/// A read may be on its way to the server when it is to be ended: it is tried so often.
const TRIES: usize = 50;
const BETWEEN_TRIES: Duration = Duration::from_millis(2);

/// The state that a reader shares with its waker.
pub(super) struct Wait {
    connections: Arc<Connections>,
    /// The reader's connection, as the server counts them; 0 for none.
    client: AtomicU64,
    /// Odd while the reader waits; moves with each beginning and end.
    turn: AtomicU64,
    notify: Notify,
}

impl Wait {
    pub(super) fn new(connections: Arc<Connections>) -> Self {
        Self { connections, client: AtomicU64::new(0), turn: AtomicU64::new(0), notify: Notify::new() }
    }

    /// The reader has a new connection.
    pub(super) fn connected(&self, client: u64) {
        self.client.store(client, Ordering::SeqCst);
    }

    /// The reader waits until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> WaitGuard {
        self.turn.fetch_add(1, Ordering::SeqCst);
        WaitGuard(self.clone())
    }

    /// Ends with the next call of [`Waker::wake`].
    pub(super) fn woken(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

pub(super) struct WaitGuard(Arc<Wait>);

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.turn.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Waker for Wait {
    async fn wake(&self) {
        self.notify.notify_waiters();
        let turn = self.turn.load(Ordering::SeqCst);
        if turn.is_multiple_of(2) {
            return;
        }
        for _ in 0..TRIES {
            let mut unblock = cmd("CLIENT");
            unblock.arg("UNBLOCK").arg(self.client.load(Ordering::SeqCst));
            match self.connections.control.ask::<bool>(&unblock).await {
                Ok(true) => return,
                Ok(false) => tokio::time::sleep(BETWEEN_TRIES).await,
                // The wait ends by itself when its time is over.
                Err(e) => return tracing::debug!("a reader could not be woken: {e}"),
            }
            if self.turn.load(Ordering::SeqCst) != turn {
                return;
            }
        }
    }
}
