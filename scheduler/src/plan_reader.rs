//! Reads logs, summaries and lists of plans from the store of running plans, and the archive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use goalmill_archive::{ArchiveError, ArchiveStore, ArchivedEvent};
use goalmill_broker::{Broker, BrokerError, LogEntry};
use goalmill_common::clock::rfc3339;
use goalmill_common::event::{Event, Parent, PlanEvent, read_entry};
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

    /// The JSON that a reference of the plan's log stands for; `None` if it has expired, or if `key` is no such reference.
    async fn payload(&self, plan: &PlanId, key: &str) -> Result<Option<String>, BrokerError>;

    /// As [`PlanReader::list`], without plans that only the archive has.
    async fn list_live(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>, BrokerError> {
        self.list(shard, before_ms, limit).await
    }
}

/// Reads from the store of running plans, and from the archive if there is one.
pub(crate) fn open(broker: Arc<dyn Broker>, archive: Option<Arc<dyn ArchiveStore>>) -> Arc<dyn PlanReader> {
    let live = LivePlans(broker);
    match archive {
        None => Arc::new(live),
        Some(archive) => Arc::new(MergedPlans { live, archive, is_unreachable: AtomicBool::new(false) }),
    }
}

/// Reads from the store of running plans.
pub(crate) struct LivePlans(Arc<dyn Broker>);

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

    async fn payload(&self, plan: &PlanId, key: &str) -> Result<Option<String>, BrokerError> {
        if !is_payload_of(self.0.as_ref(), plan, key).await? {
            return Ok(None);
        }
        Ok(self.0.get_blob(key).await?.and_then(|bytes| String::from_utf8(bytes).ok()))
    }
}

/// Whether a key is that of a payload of a plan, or of its family: clients, agents and models may write any key.
pub(crate) async fn is_payload_of(broker: &dyn Broker, plan: &PlanId, key: &str) -> Result<bool, BrokerError> {
    let keys = broker.keys();
    Ok(keys.is_blob_of(plan, key) || keys.is_blob_of(&family_of(broker, plan).await?, key))
}

/// The outermost plan around a plan of the store, as its log says, or the plan itself.
pub(crate) async fn family_of(broker: &dyn Broker, plan: &PlanId) -> Result<PlanId, BrokerError> {
    let first = broker.log(plan, 0, 1).await?;
    let records = first.first().and_then(|entry| read_entry(&entry.events, 0).ok()).unwrap_or_default();
    let Some(Event::Plan(PlanEvent::GoalAccepted(accepted))) = records.first().map(|record| &record.event) else {
        return Ok(plan.clone());
    };
    Ok(accepted.parent.as_ref().map_or(plan, Parent::family).clone())
}

/// Reads from the store of running plans, and what that does not have from the archive.
struct MergedPlans {
    live: LivePlans,
    archive: Arc<dyn ArchiveStore>,
    /// Whether the last list was read without the archive.
    is_unreachable: AtomicBool,
}

#[async_trait]
impl PlanReader for MergedPlans {
    async fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<LogEntry>, BrokerError> {
        let live = self.live.log(plan, after_seq, limit).await?;
        if !live.is_empty() || self.is_live(plan).await? {
            return Ok(live);
        }
        let events = self.archive.log(plan, after_seq, limit).await.map_err(unavailable)?;
        Ok(log_entries(events))
    }

    async fn summary(&self, plan: &PlanId) -> Result<BTreeMap<String, String>, BrokerError> {
        let live = self.live.summary(plan).await?;
        if !live.is_empty() {
            return Ok(live);
        }
        self.archive.summary(plan).await.map_err(unavailable)
    }

    /// Without the plans of the archive while that cannot be reached.
    async fn list(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>, BrokerError> {
        let mut plans = self.live.list(shard, before_ms, limit).await?;
        match self.archive.list(shard, before_ms, limit).await {
            Ok(archived) => {
                self.is_unreachable.store(false, Ordering::Relaxed);
                plans.extend(archived);
            }
            Err(error) => {
                // Lists are read often: one warning for each time that the archive is away.
                if !self.is_unreachable.swap(true, Ordering::Relaxed) {
                    tracing::warn!("finished plans are missing in lists: {error}");
                }
            }
        }
        // A plan that runs again under its id comes first as the plan that runs.
        plans.sort_by(|(a, at), (b, other)| (other, b).cmp(&(at, a)));
        let mut seen = BTreeSet::new();
        plans.retain(|(plan, _)| seen.insert(plan.clone()));
        plans.truncate(limit);
        Ok(plans)
    }

    async fn list_live(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>, BrokerError> {
        self.live.list(shard, before_ms, limit).await
    }

    async fn payload(&self, plan: &PlanId, key: &str) -> Result<Option<String>, BrokerError> {
        match self.live.payload(plan, key).await? {
            Some(live) => Ok(Some(live)),
            None => self.archive.blob(plan, key).await.map_err(unavailable),
        }
    }
}

impl MergedPlans {
    /// Whether the store has the plan. The archive is not asked each time that a log which continues is read to its end.
    async fn is_live(&self, plan: &PlanId) -> Result<bool, BrokerError> {
        let statuses = self.live.0.statuses(std::slice::from_ref(plan)).await?;
        Ok(statuses.iter().any(Option::is_some))
    }
}

/// Archived events as the log entries that they were written in.
fn log_entries(events: Vec<ArchivedEvent>) -> Vec<LogEntry> {
    let mut entries: Vec<LogEntry> = Vec::new();
    for ArchivedEvent { position, entry: last_seq, line } in events {
        match entries.last_mut().filter(|entry| entry.last_seq == last_seq) {
            Some(entry) => {
                entry.events.truncate(entry.events.len() - 1);
                entry.events.push_str(&format!(",{line}]"));
            }
            None => {
                entries.push(LogEntry { last_seq, time: rfc3339(position.time_ms), events: format!("[{line}]") });
            }
        }
    }
    entries
}

/// The error of a plan that may be archived, while the archive does not answer.
fn unavailable(error: ArchiveError) -> BrokerError {
    BrokerError::Archive(error.to_string())
}
