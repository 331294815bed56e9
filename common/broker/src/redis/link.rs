//! Connections: a pool for rare verbs, lines of their own for busy ones, new ones for readers.
//!
//! Each is opened to wherever the server is then: by Sentinel that may be another one than before.
//! Nothing here sends a command twice: a verb whose reply was lost fails, and its caller decides.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{Manager, Metrics, Object, Pool, PoolError, RecycleResult};
use goalmill_common::config::RedisSettings;
use goalmill_common::id::{AgentType, ShardId};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, FromRedisValue, Pipeline, ProtocolVersion, RedisResult, cmd,
};
use tokio::time::Instant;

use super::fault::{fault, is_answer, is_unknown_function};
use super::line::Line;
use super::messages::Subscription;
use super::place::Place;
use super::{Result, functions};
use crate::BrokerError;

/// Bytes that may wait in a line's write buffer.
const WRITE_BUFFER_BYTES: usize = 64 << 10;

/// All connections to one Redis, and what is remembered about it.
pub(super) struct Links {
    pub(super) dialer: Arc<Dialer>,
    pool: Pool<Dials>,
    commits: Mutex<BTreeMap<ShardId, Arc<Link>>>,
    /// Appends to inboxes and submissions, and what each submission needs besides: its answer, its plan's status.
    pub(super) sends: Link,
    /// Extends leases and ends the waits of readers.
    pub(super) control: Link,
    pub(super) allow_unsafe: bool,
    /// Whether the server refuses writes without replicas, as far as was seen.
    pub(super) needs_replicas: AtomicBool,
    /// The installation that answered first.
    pub(super) instance: OnceLock<String>,
    /// Share of `maxmemory` in use, and when it was read.
    pub(super) memory: Mutex<Option<(Instant, f64)>>,
    /// Where the search for expired leases goes on.
    pub(super) sweeps: Mutex<BTreeMap<AgentType, String>>,
    /// Shows that the schedulers of this process live.
    pub(super) presence: tokio::sync::Mutex<BTreeMap<String, Subscription>>,
    /// When consumers were pruned last.
    pub(super) pruned: Mutex<BTreeMap<AgentType, Instant>>,
}

impl Links {
    pub(super) fn new(settings: &RedisSettings) -> Result<Self> {
        let dialer = Arc::new(Dialer::new(settings)?);
        let pool = Pool::builder(Dials(dialer.clone()))
            .max_size(settings.pool_size.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(Duration::from_millis(settings.response_ms)))
            .build()
            .map_err(|e| BrokerError::Unavailable(format!("the pool cannot be built: {e}")))?;
        Ok(Self {
            pool,
            commits: Mutex::default(),
            sends: Link::new(dialer.clone()),
            control: Link::new(dialer.clone()),
            dialer,
            allow_unsafe: settings.allow_unsafe,
            needs_replicas: AtomicBool::default(),
            instance: OnceLock::new(),
            memory: Mutex::default(),
            sweeps: Mutex::default(),
            presence: tokio::sync::Mutex::default(),
            pruned: Mutex::default(),
        })
    }

    /// The line for a shard's commits.
    pub(super) fn commits(&self, shard: ShardId) -> Arc<Link> {
        let mut commits = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
        commits.entry(shard).or_insert_with(|| Arc::new(Link::new(self.dialer.clone()))).clone()
    }

    /// Sends one command over a connection of the pool.
    pub(super) async fn ask<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T> {
        self.try_ask(cmd).await?.map_err(fault)
    }

    /// Sends one command, and leaves a refusal of the server to the caller.
    pub(super) async fn try_ask<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<RedisResult<T>> {
        let mut line = self.pool.get().await.map_err(no_line)?;
        let reply = cmd.query_async(&mut *line).await;
        discard_broken(line, &reply);
        Ok(reply)
    }

    /// Sends reads, or writes that do not depend on one another, in one go.
    pub(super) async fn ask_all<T: FromRedisValue>(&self, pipe: &Pipeline) -> Result<T> {
        let mut line = self.pool.get().await.map_err(no_line)?;
        let reply = pipe.query_async(&mut *line).await;
        discard_broken(line, &reply);
        reply.map_err(fault)
    }

    /// Calls a function over the pool.
    pub(super) async fn call<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T> {
        let mut line = self.pool.get().await.map_err(no_line)?;
        let mut reply = cmd.query_async(&mut *line).await;
        if reply.as_ref().is_err_and(is_unknown_function) {
            functions::load(&mut *line).await?;
            reply = cmd.query_async(&mut *line).await;
        }
        discard_broken(line, &reply);
        reply.map_err(fault)
    }
}

/// Keeps a connection that failed from going back to the pool.
fn discard_broken<T>(line: Object<Dials>, reply: &RedisResult<T>) {
    if reply.as_ref().is_err_and(|e| !is_answer(e)) {
        drop(Object::take(line));
    }
}

fn no_line(error: PoolError<BrokerError>) -> BrokerError {
    match error {
        PoolError::Backend(e) => e,
        PoolError::Timeout(_) | PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
            BrokerError::Unavailable(format!("no connection is free: {error}"))
        }
    }
}

/// One connection that many share; opened when needed, dropped when it breaks.
pub(super) struct Link {
    dialer: Arc<Dialer>,
    line: tokio::sync::Mutex<Option<Line>>,
}

impl Link {
    fn new(dialer: Arc<Dialer>) -> Self {
        Self { dialer, line: tokio::sync::Mutex::default() }
    }

    /// Sends one command.
    pub(super) async fn ask<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T> {
        let mut line = self.line().await?;
        let reply = cmd.query_async(&mut line).await;
        self.drop_broken(&reply).await;
        reply.map_err(fault)
    }

    /// Sends reads, or writes that do not depend on one another, in one go.
    pub(super) async fn ask_all<T: FromRedisValue>(&self, pipe: &Pipeline) -> Result<T> {
        let mut line = self.line().await?;
        let reply = pipe.query_async(&mut line).await;
        self.drop_broken(&reply).await;
        reply.map_err(fault)
    }

    /// Calls a function.
    pub(super) async fn call<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T> {
        let mut line = self.line().await?;
        let mut reply = cmd.query_async(&mut line).await;
        if reply.as_ref().is_err_and(is_unknown_function) {
            functions::load(&mut line).await?;
            reply = cmd.query_async(&mut line).await;
        }
        self.drop_broken(&reply).await;
        reply.map_err(fault)
    }

    async fn line(&self) -> Result<Line> {
        let mut line = self.line.lock().await;
        match &*line {
            Some(open) if !open.is_former() => Ok(open.clone()),
            Some(_) | None => Ok(line.insert(self.dialer.dial().await?).clone()),
        }
    }

    async fn drop_broken<T>(&self, reply: &RedisResult<T>) {
        if reply.as_ref().is_err_and(|e| !is_answer(e)) {
            *self.line.lock().await = None;
        }
    }
}

/// Opens connections.
pub(super) struct Dialer {
    place: Place,
    config: AsyncConnectionConfig,
    /// To a Sentinel, which has nothing to do but to answer.
    asking: AsyncConnectionConfig,
}

impl Dialer {
    fn new(settings: &RedisSettings) -> Result<Self> {
        let place = Place::new(settings)?;
        if place.is_tls() {
            // An error says that the process has a provider already.
            rustls::crypto::ring::default_provider().install_default().ok();
        }
        let connect = Duration::from_millis(settings.connect_ms);
        let timed = || AsyncConnectionConfig::new().set_connection_timeout(Some(connect));
        let config = timed()
            .set_response_timeout(Some(Duration::from_millis(settings.response_ms)))
            .set_write_backpressure_boundary(WRITE_BUFFER_BYTES);
        Ok(Self { place, config, asking: timed().set_response_timeout(Some(connect)) })
    }

    /// Watches the Sentinels, if there are any.
    pub(super) fn watch(&self) {
        match &self.place {
            Place::Server(_) => {}
            Place::Service(sentinels) => sentinels.watch(&self.asking),
        }
    }

    /// Opens a connection for commands or for a reader.
    pub(super) async fn dial(&self) -> Result<Line> {
        self.open(&self.config, ProtocolVersion::default()).await
    }

    /// Opens a connection that takes messages: they go to `sender`.
    pub(super) async fn dial_messages(
        &self,
        sender: tokio::sync::mpsc::UnboundedSender<redis::PushInfo>,
    ) -> Result<Line> {
        self.open(&self.config.clone().set_push_sender(sender), ProtocolVersion::RESP3).await
    }

    /// Opens a connection to wherever the server is now.
    async fn open(&self, config: &AsyncConnectionConfig, protocol: ProtocolVersion) -> Result<Line> {
        match &self.place {
            Place::Server(info) => Ok(Line::new(open(speaking(info.as_ref().clone(), protocol), config).await?, None)),
            Place::Service(sentinels) => sentinels.connect(&self.asking, config, protocol).await,
        }
    }
}

/// The same server, spoken to in RESP3 where that is needed.
pub(super) fn speaking(info: ConnectionInfo, protocol: ProtocolVersion) -> ConnectionInfo {
    if protocol == ProtocolVersion::default() {
        return info;
    }
    let redis = info.redis_settings().clone().set_protocol(protocol);
    info.set_redis_settings(redis)
}

pub(super) async fn open(info: ConnectionInfo, config: &AsyncConnectionConfig) -> Result<MultiplexedConnection> {
    let client = Client::open(info).map_err(fault)?;
    client.get_multiplexed_async_connection_with_config(config).await.map_err(fault)
}

/// Makes and checks the connections of the pool.
struct Dials(Arc<Dialer>);

impl Manager for Dials {
    type Type = Line;
    type Error = BrokerError;

    async fn create(&self) -> Result<Line> {
        self.0.dial().await
    }

    async fn recycle(&self, line: &mut Line, _metrics: &Metrics) -> RecycleResult<BrokerError> {
        Ok(cmd("PING").query_async(line).await.map_err(fault)?)
    }
}
