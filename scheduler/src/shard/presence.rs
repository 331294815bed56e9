//! Which schedulers have gone: a process that ends takes its connections with it, long before its leases run out.
//!
//! Only a hint that a lease need not be awaited. A scheduler counts as gone when it has had no connection for longer
//! than it takes to connect again; one that is held keeps its connection, and its lease decides.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use goalmill_broker::{Broker, BrokerError};
use tokio::time::Instant;

/// What was seen of the others.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    /// Those that are not present, and since when.
    absent: BTreeMap<String, Instant>,
}

impl Presence {
    /// Looks who is present among `ids`; says who has been absent for `patience`.
    pub(crate) async fn look(
        &mut self,
        broker: &dyn Broker,
        ids: &[String],
        patience: Duration,
    ) -> Result<BTreeSet<String>, BrokerError> {
        let present = broker.present(ids).await?;
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

    /// Whether somebody is absent who may come back: worth another look soon.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.absent.is_empty()
    }
}
