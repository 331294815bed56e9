//! Listens for cancelled attempts and stops them, running or not yet started.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use goalmill_broker::{Broadcast, BrokerError};
use goalmill_common::id::AttemptToken;

use crate::held_tasks::StopReason;
use crate::worker::{BLOCK_MS, Worker};

/// Cancelled attempts in memory; the oldest are dropped first.
const REMEMBERED_MAX: usize = 100_000;

/// Tokens of cancelled or replaced attempts.
#[derive(Default)]
pub(crate) struct Superseded {
    tokens: HashSet<AttemptToken>,
    order: VecDeque<AttemptToken>,
}

impl Superseded {
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub fn contains(&self, token: &AttemptToken) -> bool {
        self.tokens.contains(token)
    }

    fn add(&mut self, tokens: Vec<AttemptToken>) {
        for token in tokens {
            if self.tokens.insert(token.clone()) {
                self.order.push_back(token);
            }
            if self.order.len() > REMEMBERED_MAX {
                let oldest = self.order.pop_front().expect("it holds more than the limit");
                self.tokens.remove(&oldest);
            }
        }
    }
}

/// Listens until the worker stops.
pub(crate) async fn listen_for_cancellations(worker: Arc<Worker>) {
    let mut failures = 0;
    while !worker.stop.is_cancelled() {
        let listened = listen_while_connected(&worker, &mut failures).await;
        worker.hears_cancellations.store(false, Ordering::Release);
        let Err(e) = listened else { return };
        failures += 1;
        worker.connection.set_lost(&e);
        tokio::select! {
            biased;
            () = tokio::time::sleep(worker.backoff(failures)) => {}
            () = worker.stop.cancelled() => return,
        }
    }
}

async fn listen_while_connected(worker: &Worker, failures: &mut u32) -> Result<(), BrokerError> {
    let mut reader = worker.broker.reader().await?;
    worker.set_waker("listen", reader.waker());
    // Subscribes before it reads the stored cancellations, so that none is missed in between.
    let mut messages = reader.messages(0).await?;
    supersede(worker, worker.broker.cancelled().await?);
    worker.hears_cancellations.store(true, Ordering::Release);
    *failures = 0;
    while !worker.stop.is_cancelled() {
        for message in messages {
            match message {
                Broadcast::Cancel(tokens) => supersede(worker, tokens),
                Broadcast::AgentsChanged(_) => {}
            }
        }
        messages = reader.messages(BLOCK_MS).await?;
    }
    Ok(())
}

/// Stops these attempts, and keeps in mind that they must not start.
pub(crate) fn supersede(worker: &Worker, tokens: Vec<AttemptToken>) {
    if tokens.is_empty() {
        return;
    }
    let mut superseded = worker.superseded.lock().unwrap_or_else(PoisonError::into_inner);
    superseded.add(tokens);
    worker.held_tasks.stop(StopReason::Superseded, |assignment| superseded.contains(&assignment.task.token));
}
