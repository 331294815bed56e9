//! The store in PostgreSQL 13 or later: JSONB, full-text search by words, a partition for each month.

mod blobs;
mod copy;
mod plans;
mod pool;
mod read;
mod search;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use goalmill_common::config::{ArchiveSettings, environment};
use goalmill_common::id::{Namespace, PlanId, ShardId};

use self::pool::ClientPool;
pub use self::pool::PostgresLimits;
use crate::{
    ArchiveBatch, ArchiveError, ArchiveStore, ArchivedEvent, ArchivedPlan, EventSearch, PlanPosition, PlanSelection,
    PrunedRows,
};

type Result<T> = std::result::Result<T, ArchiveError>;

/// Opens the database of the settings.
pub(crate) async fn open(settings: &ArchiveSettings) -> Result<Arc<dyn ArchiveStore>> {
    let name = &settings.url_env;
    let url = environment(name).ok_or_else(|| {
        ArchiveError::Schema(format!("the environment variable `{name}`, which `archive.url_env` names, is not set"))
    })?;
    Ok(Arc::new(PostgresArchive::open(&url, &format!("of `{name}`"), settings.into()).await?))
}

/// An archive in a database that schedulers of many machines share.
pub struct PostgresArchive {
    pool: ClientPool,
}

impl PostgresArchive {
    /// Connects, and brings the schema up to date. It is not an error if the server does not answer: then the first
    /// call that reaches the server checks the schema.
    ///
    /// - `url`: `postgres://user:password@host/database`, or a list of `key=value`. Errors do not contain it.
    /// - `place`: where the address comes from, for error messages.
    /// - `limits`: how long it waits for the server.
    pub async fn open(url: &str, place: &str, limits: PostgresLimits) -> Result<Self> {
        let pool = ClientPool::new(url, place, limits)?;
        match pool.get().await {
            Ok(_) | Err(ArchiveError::Unavailable(_)) => Ok(Self { pool }),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl ArchiveStore for PostgresArchive {
    async fn append(&self, batch: &ArchiveBatch) -> Result<()> {
        let mut client = self.pool.get().await?;
        self.pool.write(client.breaker(), write::append(&mut client, batch)).await
    }

    async fn position(&self, shard: ShardId) -> Result<u64> {
        let client = self.pool.get().await?;
        self.pool.call(client.breaker(), read::position(&client, shard)).await
    }

    async fn archived(&self, plans: &[PlanId]) -> Result<BTreeMap<PlanId, u64>> {
        let client = self.pool.get().await?;
        self.pool.call(client.breaker(), read::archived(&client, plans)).await
    }

    async fn summary(&self, plan: &PlanId) -> Result<BTreeMap<String, String>> {
        let client = self.pool.get().await?;
        self.pool.call(client.breaker(), read::summary(&client, plan)).await
    }

    async fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<ArchivedEvent>> {
        let client = self.pool.get().await?;
        self.pool.call(client.breaker(), read::log(&client, plan, after_seq, limit)).await
    }

    async fn list(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>> {
        let client = self.pool.get().await?;
        self.pool.call(client.breaker(), read::list(&client, shard, before_ms, limit)).await
    }

    async fn find_archived(&self, plan: &PlanId) -> Result<Option<ArchivedPlan>> {
        let client = self.pool.get().await?;
        self.pool.call(client.breaker(), plans::find_archived(&client, plan)).await
    }

    async fn blob(&self, plan: &PlanId, key: &str) -> Result<Option<String>> {
        let client = self.pool.get().await?;
        self.pool.call(client.breaker(), blobs::content(&client, plan, key)).await
    }

    async fn blob_keys(&self, plan: &PlanId, after: &str, limit: usize) -> Result<Vec<String>> {
        let client = self.pool.get().await?;
        self.pool.call(client.breaker(), blobs::keys(&client, plan, after, limit)).await
    }

    async fn select(
        &self,
        selection: &PlanSelection,
        after: Option<&PlanPosition>,
        limit: usize,
    ) -> Result<Vec<PlanPosition>> {
        let client = self.pool.get().await?;
        self.pool.call(client.breaker(), plans::select(&**client, selection, after, limit)).await
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>> {
        let client = self.pool.get().await?;
        self.pool.call(client.breaker(), plans::namespaces(&client)).await
    }

    async fn prune(&self, selection: &PlanSelection, limit: usize) -> Result<PrunedRows> {
        let mut client = self.pool.get().await?;
        self.pool.write(client.breaker(), plans::prune(&mut client, selection, limit)).await
    }

    async fn search(&self, search: &EventSearch, limit: usize) -> Result<Vec<ArchivedEvent>> {
        let client = self.pool.get().await?;
        self.pool.call(client.breaker(), search::search(&client, search, limit)).await
    }
}

/// The message of the server: the error itself says only that an error occurred.
fn reason(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}

impl From<tokio_postgres::Error> for ArchiveError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Unavailable(reason(&error))
    }
}

/// A number in the type of the database. Numbers that do not fit stand for no limit and become the largest value.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number from the database, where no number is negative.
fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
