//! Connections: a pool for rare verbs, a shared connection for each busy one, new connections for readers.
//!
//! No command is sent twice: a verb whose reply was lost fails, and its caller decides.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{Manager, Metrics, Object, Pool, PoolError, RecycleResult};
use goalmill_common::config::RedisSettings;
use goalmill_common::id::{AgentType, ShardId};
use goalmill_common::keys::{Keys, TaskStreams};
use redis::{Cmd, FromRedisValue, Pipeline, RedisResult, cmd};
use tokio::time::Instant;

use super::connection::Connection;
use super::dialer::Dialer;
use super::error::{is_answer, is_unknown_function, to_broker_error};
use super::subscription::Subscription;
use super::{Result, functions};
use crate::BrokerError;

/// All connections to one Redis, and the state of the client.
pub(super) struct Connections {
    pub(super) dialer: Arc<Dialer>,
    pool: Pool<ConnectionManager>,
    commits: Mutex<BTreeMap<ShardId, Arc<SharedConnection>>>,
    /// Appends to inboxes and submissions, and what each submission needs besides: its answer, its plan's status.
    pub(super) sends: SharedConnection,
    /// Extends leases and ends the waits of readers.
    pub(super) control: SharedConnection,
    pub(super) keys: Keys,
    /// The layout of task streams, once the installation was read.
    pub(super) task_streams: OnceLock<TaskStreams>,
    pub(super) allow_unsafe: bool,
    /// Whether the server refuses writes without replicas, as far as was seen.
    pub(super) needs_replicas: AtomicBool,
    /// The installation that answered first.
    pub(super) instance: OnceLock<String>,
    /// Share of `maxmemory` in use, and when it was read.
    pub(super) memory: Mutex<Option<(Instant, f64)>>,
    /// Where the search for expired leases continues.
    pub(super) sweeps: Mutex<BTreeMap<AgentType, String>>,
    /// Shows that the schedulers of this process live.
    pub(super) presence: tokio::sync::Mutex<BTreeMap<String, Subscription>>,
    /// When consumers were pruned last.
    pub(super) pruned: Mutex<BTreeMap<AgentType, Instant>>,
    /// How many names of a key cannot be read, by key: each number is reported once.
    unreadable: Mutex<BTreeMap<String, usize>>,
}

impl Connections {
    pub(super) fn new(settings: &RedisSettings) -> Result<Self> {
        let dialer = Arc::new(Dialer::new(settings)?);
        let pool = Pool::builder(ConnectionManager(dialer.clone()))
            .max_size(settings.pool_size.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(Duration::from_millis(settings.response_ms)))
            .build()
            .map_err(|e| BrokerError::Unavailable(format!("the pool cannot be built: {e}")))?;
        Ok(Self {
            pool,
            commits: Mutex::default(),
            sends: SharedConnection::new(dialer.clone()),
            control: SharedConnection::new(dialer.clone()),
            dialer,
            keys: settings.into(),
            task_streams: OnceLock::new(),
            allow_unsafe: settings.allow_unsafe,
            needs_replicas: AtomicBool::default(),
            instance: OnceLock::new(),
            memory: Mutex::default(),
            sweeps: Mutex::default(),
            presence: tokio::sync::Mutex::default(),
            pruned: Mutex::default(),
            unreadable: Mutex::default(),
        })
    }

    /// The members of a set, or the fields of a hash, that are UTF-8. Any client may have written others.
    pub(super) async fn ask_names(&self, cmd: &Cmd, key: &str) -> Result<Vec<String>> {
        Ok(self.readable(key, self.ask(cmd).await?))
    }

    /// The names that are UTF-8; a warning tells of others.
    pub(super) fn readable(&self, key: &str, names: Vec<Vec<u8>>) -> Vec<String> {
        let all = names.len();
        let texts: Vec<String> = names.into_iter().filter_map(|name| String::from_utf8(name).ok()).collect();
        let unreadable = all - texts.len();
        let mut reported = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        if unreadable != reported.get(key).copied().unwrap_or(0) {
            tracing::warn!(
                "{unreadable} names in `{key}` are not UTF-8 and are ignored; find the program that writes them"
            );
            reported.insert(key.to_owned(), unreadable);
        }
        texts
    }

    /// The connection for a shard's commits.
    pub(super) fn commits(&self, shard: ShardId) -> Arc<SharedConnection> {
        let mut commits = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
        commits.entry(shard).or_insert_with(|| Arc::new(SharedConnection::new(self.dialer.clone()))).clone()
    }

    /// Sends one command over a connection of the pool.
    pub(super) async fn ask<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T> {
        self.try_ask(cmd).await?.map_err(to_broker_error)
    }

    /// Sends one command, and leaves a refusal of the server to the caller.
    pub(super) async fn try_ask<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<RedisResult<T>> {
        let mut connection = self.pool.get().await.map_err(no_connection)?;
        let reply = cmd.query_async(&mut *connection).await;
        discard_broken(connection, &reply);
        Ok(reply)
    }

    /// Sends reads, or writes that do not depend on one another, in one go.
    pub(super) async fn ask_all<T: FromRedisValue>(&self, pipe: &Pipeline) -> Result<T> {
        let mut connection = self.pool.get().await.map_err(no_connection)?;
        let reply = pipe.query_async(&mut *connection).await;
        discard_broken(connection, &reply);
        reply.map_err(to_broker_error)
    }

    /// Calls a function over the pool.
    pub(super) async fn call<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T> {
        let mut connection = self.pool.get().await.map_err(no_connection)?;
        let mut reply = cmd.query_async(&mut *connection).await;
        if reply.as_ref().is_err_and(is_unknown_function) {
            functions::load(&mut *connection).await?;
            reply = cmd.query_async(&mut *connection).await;
        }
        discard_broken(connection, &reply);
        reply.map_err(to_broker_error)
    }
}

/// Keeps a connection that failed from going back to the pool.
fn discard_broken<T>(connection: Object<ConnectionManager>, reply: &RedisResult<T>) {
    if reply.as_ref().is_err_and(|e| !is_answer(e)) {
        drop(Object::take(connection));
    }
}

fn no_connection(error: PoolError<BrokerError>) -> BrokerError {
    match error {
        PoolError::Backend(e) => e,
        PoolError::Timeout(_) | PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
            BrokerError::Unavailable(format!("no connection is free: {error}"))
        }
    }
}

/// One connection for many callers; opened when needed, dropped when it breaks.
pub(super) struct SharedConnection {
    dialer: Arc<Dialer>,
    open: tokio::sync::Mutex<Option<Connection>>,
}

impl SharedConnection {
    fn new(dialer: Arc<Dialer>) -> Self {
        Self { dialer, open: tokio::sync::Mutex::default() }
    }

    /// Sends one command.
    pub(super) async fn ask<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T> {
        let mut connection = self.connection().await?;
        let reply = cmd.query_async(&mut connection).await;
        self.drop_broken(&reply).await;
        reply.map_err(to_broker_error)
    }

    /// Sends reads, or writes that do not depend on one another, in one go.
    pub(super) async fn ask_all<T: FromRedisValue>(&self, pipe: &Pipeline) -> Result<T> {
        let mut connection = self.connection().await?;
        let reply = pipe.query_async(&mut connection).await;
        self.drop_broken(&reply).await;
        reply.map_err(to_broker_error)
    }

    /// Calls a function.
    pub(super) async fn call<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T> {
        let mut connection = self.connection().await?;
        let mut reply = cmd.query_async(&mut connection).await;
        if reply.as_ref().is_err_and(is_unknown_function) {
            functions::load(&mut connection).await?;
            reply = cmd.query_async(&mut connection).await;
        }
        self.drop_broken(&reply).await;
        reply.map_err(to_broker_error)
    }

    async fn connection(&self) -> Result<Connection> {
        let mut connection = self.open.lock().await;
        match &*connection {
            Some(open) if !open.is_former() => Ok(open.clone()),
            Some(_) | None => Ok(connection.insert(self.dialer.dial().await?).clone()),
        }
    }

    async fn drop_broken<T>(&self, reply: &RedisResult<T>) {
        if reply.as_ref().is_err_and(|e| !is_answer(e)) {
            *self.open.lock().await = None;
        }
    }
}

/// Makes and checks the connections of the pool.
struct ConnectionManager(Arc<Dialer>);

impl Manager for ConnectionManager {
    type Type = Connection;
    type Error = BrokerError;

    async fn create(&self) -> Result<Connection> {
        self.0.dial().await
    }

    async fn recycle(&self, connection: &mut Connection, _metrics: &Metrics) -> RecycleResult<BrokerError> {
        Ok(cmd("PING").query_async(connection).await.map_err(to_broker_error)?)
    }
}
