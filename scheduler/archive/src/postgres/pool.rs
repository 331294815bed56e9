//! Connections to the database, and its schema.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult, Timeouts};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Result, reason, write};
use crate::ArchiveError;

/// Maximum number of connections.
const CONNECTIONS_MAX: usize = 6;
/// How long a call waits for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the server may leave sent data unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);
/// The first statements of every connection. The server ends statements that take longer than this time limit.
const BEGIN: &str = "SET statement_timeout = '30s'; SET client_min_messages = warning";

/// Connections to one database.
pub(super) struct ClientPool {
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
}

/// A connection of the pool; dropping it returns the connection to the pool.
pub(super) type PooledClient = Object<Connector>;

impl ClientPool {
    pub(super) fn new(url: &str, place: &str) -> Result<Self> {
        let mut config: Config = url.parse().map_err(|_| {
            ArchiveError::Schema(format!(
                "{place} is no address of PostgreSQL: give postgres://user:password@host/database"
            ))
        })?;
        config.connect_timeout(CONNECT).tcp_user_timeout(UNACKNOWLEDGED);
        if config.get_application_name().is_none() {
            config.application_name("goalmill");
        }
        let tls = goalmill_postgres::tls_connector();
        let timeouts = Timeouts { wait: Some(CONNECT), create: Some(CONNECT), recycle: Some(CONNECT) };
        let pool = Pool::builder(Connector { config, tls })
            .max_size(CONNECTIONS_MAX)
            .timeouts(timeouts)
            .runtime(deadpool::Runtime::Tokio1)
            .build()
            .map_err(|error| ArchiveError::Unavailable(error.to_string()))?;
        Ok(Self { pool, schema: OnceCell::new(), place: place.to_owned() })
    }

    /// A connection to a database whose schema is up to date.
    pub(super) async fn get(&self) -> Result<PooledClient> {
        let mut client = self.pool.get().await.map_err(unavailable)?;
        self.schema.get_or_try_init(|| write::migrate(&mut client, &self.place)).await?;
        Ok(client)
    }
}

fn unavailable(error: PoolError<tokio_postgres::Error>) -> ArchiveError {
    ArchiveError::Unavailable(match error {
        PoolError::Backend(error) => reason(&error),
        PoolError::Timeout(_) => "no connection within 5 s".into(),
        PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => error.to_string(),
    })
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
        let client = PostgresClient { client, reader };
        client.batch_execute(BEGIN).await?;
        Ok(client)
    }

    async fn recycle(&self, client: &mut PostgresClient, _: &Metrics) -> RecycleResult<tokio_postgres::Error> {
        if client.is_closed() { Err(RecycleError::message("the connection is closed")) } else { Ok(()) }
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
