//! Where logs, summaries and lists of plans are read from. The store of running plans is one such place.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use goalmill_broker::{Broker, BrokerError, LogEntry};
use goalmill_common::id::{PlanId, ShardId};

/// Reads plans.
#[async_trait]
pub trait PlanReader: Send + Sync {
    /// The log after event `after_seq`, at most `limit` entries, oldest first.
    async fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<LogEntry>, BrokerError>;

    /// The plan's summary; empty if there is no such plan. Its `seq` is the number of the log's last event.
    async fn summary(&self, plan: &PlanId) -> Result<BTreeMap<String, String>, BrokerError>;

    /// Plans of a shard with the time of their last change, latest first: those that changed before `before_ms`
    /// (Unix milliseconds), at most `limit`.
    async fn list(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>, BrokerError>;
}

/// Reads from the store of running plans.
pub(crate) struct LivePlans(pub(crate) Arc<dyn Broker>);

#[async_trait]
impl PlanReader for LivePlans {
    async fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<LogEntry>, BrokerError> {
        self.0.log(plan, after_seq, limit).await
    }

    async fn summary(&self, plan: &PlanId) -> Result<BTreeMap<String, String>, BrokerError> {
        self.0.summary(plan).await
    }

    async fn list(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>, BrokerError> {
        self.0.plans(shard, before_ms, limit).await
    }
}
