//! Connections to the database, and its schema.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult, Timeouts};
use goalmill_common::config::ArchiveSettings;
use tokio::sync::OnceCell;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Result, reason, write};
use crate::ArchiveError;

/// Maximum number of connections.
const CONNECTIONS_MAX: usize = 6;
/// How many times `answer_ms` a call that writes may take.
const WRITE_SHARE: u32 = 5;
/// How many times `answer_ms` the update of the schema may take.
const MIGRATION_SHARE: u32 = 20;
/// How long the server may leave sent data unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);
/// The first statements of every connection. The server ends statements that take longer than this time limit.
const BEGIN: &str = "SET statement_timeout = '30s'; SET client_min_messages = warning";

/// How long the client waits, whatever the server does: a server may be silent while its machine acknowledges what is sent.
#[derive(Clone, Copy, Debug)]
pub struct PostgresLimits {
    /// For a connection that can be used.
    pub connect: Duration,
    /// For the answer of one call.
    pub answer: Duration,
}

impl Default for PostgresLimits {
    fn default() -> Self {
        (&ArchiveSettings::default()).into()
    }
}

impl From<&ArchiveSettings> for PostgresLimits {
    fn from(settings: &ArchiveSettings) -> Self {
        let [connect, answer] = [settings.connect_ms, settings.answer_ms].map(Duration::from_millis);
        Self { connect, answer }
    }
}

/// Connections to one database.
pub(super) struct ClientPool {
    limits: PostgresLimits,
    pool: Pool<Connector>,
    /// Set once the schema is up to date.
    schema: OnceCell<()>,
    place: String,
}

/// Opens connections.
pub(super) struct Connector {
    config: Config,
    tls: MakeRustlsConnect,
}

/// An open connection, and the task that reads it.
pub(super) struct PostgresClient {
    client: Client,
    reader: JoinHandle<()>,
    is_given_up: Arc<AtomicBool>,
}

/// Ends a connection from elsewhere.
pub(super) struct Breaker {
    reader: AbortHandle,
    is_given_up: Arc<AtomicBool>,
}

/// A connection of the pool; dropping it returns the connection to the pool.
pub(super) type PooledClient = Object<Connector>;

impl ClientPool {
    pub(super) fn new(url: &str, place: &str, limits: PostgresLimits) -> Result<Self> {
        let mut config: Config = url.parse().map_err(|_| {
            ArchiveError::Schema(format!(
                "{place} is no address of PostgreSQL: give postgres://user:password@host/database"
            ))
        })?;
        config.connect_timeout(limits.connect).tcp_user_timeout(UNACKNOWLEDGED);
        if config.get_application_name().is_none() {
            config.application_name("goalmill");
        }
        let tls = goalmill_postgres::tls_connector();
        let connect = Some(limits.connect);
        let timeouts = Timeouts { wait: connect, create: connect, recycle: connect };
        let pool = Pool::builder(Connector { config, tls })
            .max_size(CONNECTIONS_MAX)
            .timeouts(timeouts)
            .runtime(deadpool::Runtime::Tokio1)
            .build()
            .map_err(|error| ArchiveError::Unavailable(error.to_string()))?;
        Ok(Self { limits, pool, schema: OnceCell::new(), place: place.to_owned() })
    }

    /// A connection to a database whose schema is up to date.
    pub(super) async fn get(&self) -> Result<PooledClient> {
        let mut client = self.pool.get().await.map_err(|error| self.unavailable(error))?;
        let breaker = client.breaker();
        let migrate = self.schema.get_or_try_init(|| write::migrate(&mut client, &self.place));
        within(self.limits.answer * MIGRATION_SHARE, breaker, migrate).await?;
        Ok(client)
    }

    /// Makes one call on a connection and waits for its answer.
    pub(super) async fn call<T>(&self, breaker: Breaker, call: impl Future<Output = Result<T>>) -> Result<T> {
        within(self.limits.answer, breaker, call).await
    }

    /// Makes one call that writes.
    pub(super) async fn write<T>(&self, breaker: Breaker, call: impl Future<Output = Result<T>>) -> Result<T> {
        within(self.limits.answer * WRITE_SHARE, breaker, call).await
    }

    fn unavailable(&self, error: PoolError<tokio_postgres::Error>) -> ArchiveError {
        ArchiveError::Unavailable(match error {
            PoolError::Backend(error) => reason(&error),
            PoolError::Timeout(_) => format!("no connection within {} ms", self.limits.connect.as_millis()),
            PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => error.to_string(),
        })
    }
}

/// Waits for a call; when its time is over, ends the connection, which the pool then replaces.
async fn within<T>(limit: Duration, breaker: Breaker, call: impl Future<Output = Result<T>>) -> Result<T> {
    let Ok(done) = tokio::time::timeout(limit, call).await else {
        breaker.is_given_up.store(true, Ordering::Release);
        breaker.reader.abort();
        return Err(ArchiveError::Unavailable(format!("no answer within {} ms", limit.as_millis())));
    };
    done
}

impl Manager for Connector {
    type Type = PostgresClient;
    type Error = tokio_postgres::Error;

    async fn create(&self) -> std::result::Result<PostgresClient, tokio_postgres::Error> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        #[expect(clippy::disallowed_methods, reason = "the handle is kept")]
        let reader = tokio::spawn(async move {
            // The call that needed the connection reports the error.
            drop(connection.await);
        });
        let client = PostgresClient { client, reader, is_given_up: Arc::default() };
        client.batch_execute(BEGIN).await?;
        Ok(client)
    }

    async fn recycle(&self, client: &mut PostgresClient, _: &Metrics) -> RecycleResult<tokio_postgres::Error> {
        if client.is_closed() || client.is_given_up.load(Ordering::Acquire) {
            Err(RecycleError::message("the connection is closed"))
        } else {
            Ok(())
        }
    }
}

impl PostgresClient {
    /// Ends the connection from elsewhere.
    pub(super) fn breaker(&self) -> Breaker {
        Breaker { reader: self.reader.abort_handle(), is_given_up: self.is_given_up.clone() }
    }
}

impl Drop for PostgresClient {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Deref for PostgresClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for PostgresClient {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}
