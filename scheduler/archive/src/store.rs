//! The interface of a store, and the function that opens one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use goalmill_common::config::{ArchiveKind, ArchiveSettings};
use goalmill_common::id::{Namespace, PlanId, ShardId};

use crate::{
    ArchiveBatch, ArchiveError, ArchivedEvent, ArchivedPlan, EventSearch, PlanPosition, PlanSelection, PrunedRows,
    SqliteArchive, postgres,
};

type Result<T> = std::result::Result<T, ArchiveError>;

/// A store of finished plans. Cheap to share; every method may be called from many tasks concurrently.
#[async_trait]
pub trait ArchiveStore: Send + Sync + 'static {
    /// Writes a batch and the position of its shard atomically.
    ///
    /// A plan that is archived with the same `changed_ms` is skipped, so a batch may be written again.
    async fn append(&self, batch: &ArchiveBatch) -> Result<()>;

    /// The position up to which the index of the shard was read, in Unix milliseconds; 0 before the first batch.
    async fn position(&self, shard: ShardId) -> Result<u64>;

    /// Which of these plans are archived, each with its `changed_ms`.
    async fn archived(&self, plans: &[PlanId]) -> Result<BTreeMap<PlanId, u64>>;

    /// The fields of the plan's summary; empty if the plan is not archived.
    async fn summary(&self, plan: &PlanId) -> Result<BTreeMap<String, String>>;

    /// The plan's events of commits that end after event `after_seq`, of at most `limit` commits, oldest first.
    async fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<ArchivedEvent>>;

    /// Plans of a shard that changed before `before_ms` (Unix milliseconds), with the time of their last change: latest
    /// first, at most `limit`.
    async fn list(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>>;

    /// A plan without its events; `None` if the plan is not archived.
    async fn find_archived(&self, plan: &PlanId) -> Result<Option<ArchivedPlan>>;

    /// The payload that a reference of the plan's log stands for; `None` if it is not archived.
    async fn blob(&self, plan: &PlanId, key: &str) -> Result<Option<String>>;

    /// The keys of the plan's payloads, in order: those after `after`, at most `limit`.
    async fn blob_keys(&self, plan: &PlanId, after: &str, limit: usize) -> Result<Vec<String>>;

    /// The selected plans after `after`, in the order in which they ended, at most `limit`.
    async fn select(
        &self,
        selection: &PlanSelection,
        after: Option<&PlanPosition>,
        limit: usize,
    ) -> Result<Vec<PlanPosition>>;

    /// The namespaces that have archived plans.
    async fn namespaces(&self) -> Result<Vec<Namespace>>;

    /// Removes selected plans with all their rows, in the order in which they ended, at most `limit` plans.
    async fn prune(&self, selection: &PlanSelection, limit: usize) -> Result<PrunedRows>;

    /// The newest matching events, newest first, at most `limit`.
    async fn search(&self, search: &EventSearch, limit: usize) -> Result<Vec<ArchivedEvent>>;
}

/// Opens the store of the settings and brings its schema up to date; `None` without an archive.
pub async fn open(settings: &ArchiveSettings) -> Result<Option<Arc<dyn ArchiveStore>>> {
    match settings.store {
        ArchiveKind::None => Ok(None),
        ArchiveKind::Sqlite => Ok(Some(Arc::new(SqliteArchive::open(Path::new(&settings.path)).await?))),
        ArchiveKind::Postgres => Ok(Some(postgres::open(settings).await?)),
    }
}
