//! The store in a SQLite file, with one thread that writes and one thread that reads.

mod blobs;
mod connection;
mod plans;
mod read;
mod search;
mod write;

use std::collections::BTreeMap;
use std::path::Path;

use async_trait::async_trait;
use goalmill_common::id::{Namespace, PlanId, ShardId};

use self::connection::ConnectionThread;
use crate::{
    ArchiveBatch, ArchiveError, ArchiveStore, ArchivedEvent, ArchivedPlan, EventSearch, PlanPosition, PlanSelection,
    PrunedRows,
};

type Result<T> = std::result::Result<T, ArchiveError>;

/// An archive in a file. Several processes of one machine may share the file.
pub struct SqliteArchive {
    writer: ConnectionThread,
    reader: ConnectionThread,
}

impl SqliteArchive {
    /// Opens the file, creates it if it is missing, and brings its schema up to date.
    pub async fn open(path: &Path) -> Result<Self> {
        let writer = ConnectionThread::start(path)?;
        let place = format!("`{}`", path.display());
        writer.run_call(move |connection| write::migrate(connection, &place)).await?;
        Ok(Self { writer, reader: ConnectionThread::start(path)? })
    }
}

#[async_trait]
impl ArchiveStore for SqliteArchive {
    async fn append(&self, batch: &ArchiveBatch) -> Result<()> {
        let batch = batch.clone();
        self.writer.run_call(move |connection| write::append(connection, &batch)).await
    }

    async fn position(&self, shard: ShardId) -> Result<u64> {
        self.reader.run_call(move |connection| read::position(connection, shard)).await
    }

    async fn archived(&self, plans: &[PlanId]) -> Result<BTreeMap<PlanId, u64>> {
        let plans = plans.to_vec();
        self.reader.run_call(move |connection| read::archived(connection, &plans)).await
    }

    async fn summary(&self, plan: &PlanId) -> Result<BTreeMap<String, String>> {
        let plan = plan.clone();
        self.reader.run_call(move |connection| read::summary(connection, &plan)).await
    }

    async fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<ArchivedEvent>> {
        let plan = plan.clone();
        self.reader.run_call(move |connection| read::log(connection, &plan, after_seq, limit)).await
    }

    async fn list(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>> {
        self.reader.run_call(move |connection| read::list(connection, shard, before_ms, limit)).await
    }

    async fn find_archived(&self, plan: &PlanId) -> Result<Option<ArchivedPlan>> {
        let plan = plan.clone();
        self.reader.run_call(move |connection| plans::find_archived(connection, &plan)).await
    }

    async fn blob(&self, plan: &PlanId, key: &str) -> Result<Option<String>> {
        let (plan, key) = (plan.clone(), key.to_owned());
        self.reader.run_call(move |connection| blobs::content(connection, &plan, &key)).await
    }

    async fn blob_keys(&self, plan: &PlanId, after: &str, limit: usize) -> Result<Vec<String>> {
        let (plan, after) = (plan.clone(), after.to_owned());
        self.reader.run_call(move |connection| blobs::keys(connection, &plan, &after, limit)).await
    }

    async fn select(
        &self,
        selection: &PlanSelection,
        after: Option<&PlanPosition>,
        limit: usize,
    ) -> Result<Vec<PlanPosition>> {
        let (selection, after) = (selection.clone(), after.cloned());
        self.reader.run_call(move |connection| plans::select(connection, &selection, after.as_ref(), limit)).await
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>> {
        self.reader.run_call(|connection| plans::namespaces(connection)).await
    }

    async fn prune(&self, selection: &PlanSelection, limit: usize) -> Result<PrunedRows> {
        let selection = selection.clone();
        self.writer.run_call(move |connection| plans::prune(connection, &selection, limit)).await
    }

    async fn search(&self, search: &EventSearch, limit: usize) -> Result<Vec<ArchivedEvent>> {
        let search = search.clone();
        self.reader.run_call(move |connection| search::search(connection, &search, limit)).await
    }
}
