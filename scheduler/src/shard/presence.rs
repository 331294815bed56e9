//! Presence: detects dead schedulers by their closed connections, before their leases expire.
//!
//! A scheduler is dead when it has had no connection for longer than a reconnect takes. A suspended process keeps its
//! connection; its lease decides.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use goalmill_broker::{Broker, BrokerError};
use tokio::time::Instant;

/// The observed absence of other schedulers.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    /// Absent schedulers, and since when.
    absent: BTreeMap<String, Instant>,
}

impl Presence {
    /// Checks the connections of `ids`; returns those that have been absent for `patience`.
    pub(crate) async fn find_dead(
        &mut self,
        broker: &dyn Broker,
        ids: &[String],
        patience: Duration,
    ) -> Result<BTreeSet<String>, BrokerError> {
        let present = broker.are_present(ids).await?;
        self.absent.retain(|id, _| ids.contains(id));
        for (id, present) in ids.iter().zip(present) {
            if present {
                self.absent.remove(id);
            } else {
                self.absent.entry(id.clone()).or_insert_with(Instant::now);
            }
        }
        Ok(self.absent.iter().filter(|(_, since)| since.elapsed() >= patience).map(|(id, _)| id.clone()).collect())
    }

    /// Whether a scheduler is absent that may come back.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.absent.is_empty()
    }
}
