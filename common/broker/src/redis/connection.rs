//! A connection to one primary, which ends when the service has another one.

use std::time::Duration;

use futures_util::FutureExt;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, ErrorKind, Pipeline, ProtocolVersion, RedisError, RedisFuture,
    Value,
};
use tokio::sync::watch;

use super::Result;
use super::error::to_broker_error;

/// A connection to one primary.
///
/// A former primary continues to answer for seconds, and the writes that it accepts are lost. So a request that is under way when
/// the primary changes fails like one whose connection broke.
#[derive(Clone)]
pub(super) struct Connection {
    connection: MultiplexedConnection,
    /// Moves when the service has another primary; `None` for a server without Sentinels.
    switches: Option<watch::Receiver<()>>,
}

impl Connection {
    pub(super) fn new(connection: MultiplexedConnection, switches: Option<watch::Receiver<()>>) -> Self {
        Self { connection, switches }
    }

    /// Whether the service has another primary by now.
    pub(super) fn is_former(&self) -> bool {
        self.switches.as_ref().is_some_and(|switches| switches.has_changed().unwrap_or(true))
    }

    /// Returns when the service has another primary.
    pub(super) async fn ended(&mut self) {
        ended(&mut self.switches).await;
    }

    pub(super) fn set_response_timeout(&mut self, timeout: Duration) {
        self.connection.set_response_timeout(timeout);
    }

    pub(super) async fn subscribe(&mut self, channels: &[String]) -> redis::RedisResult<()> {
        self.connection.subscribe(channels).await
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        let Self { connection, switches } = self;
        async move {
            tokio::select! {
                biased;
                () = ended(switches) => Err(former()),
                reply = connection.req_packed_command(cmd) => reply,
            }
        }
        .boxed()
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        cmd: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let Self { connection, switches } = self;
        async move {
            tokio::select! {
                biased;
                () = ended(switches) => Err(former()),
                reply = connection.req_packed_commands(cmd, offset, count) => reply,
            }
        }
        .boxed()
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }
}

async fn ended(switches: &mut Option<watch::Receiver<()>>) {
    match switches {
        // A sender that is gone means that no receiver is left, which cannot be while connections are open.
        Some(switches) => drop(switches.changed().await),
        None => std::future::pending().await,
    }
}

fn former() -> RedisError {
    RedisError::from((ErrorKind::Io, "the service has another primary", String::new()))
}

/// Sets the protocol version of a connection that is to be opened.
pub(super) fn with_protocol(info: ConnectionInfo, protocol: ProtocolVersion) -> ConnectionInfo {
    if protocol == ProtocolVersion::default() {
        return info;
    }
    let redis = info.redis_settings().clone().set_protocol(protocol);
    info.set_redis_settings(redis)
}

/// Opens a connection to one server.
pub(super) async fn open(info: ConnectionInfo, config: &AsyncConnectionConfig) -> Result<MultiplexedConnection> {
    let client = Client::open(info).map_err(to_broker_error)?;
    client.get_multiplexed_async_connection_with_config(config).await.map_err(to_broker_error)
}
