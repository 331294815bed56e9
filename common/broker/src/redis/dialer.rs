//! Opens connections to the current primary: at a fixed address, or found by Sentinel.

use std::time::Duration;

use goalmill_common::config::RedisSettings;
use redis::{AsyncConnectionConfig, ProtocolVersion};

use super::Result;
use super::address::ServerAddress;
use super::connection::{Connection, open, with_protocol};

/// Bytes that may wait in a connection's write buffer.
const WRITE_BUFFER_BYTES: usize = 64 << 10;

/// Opens connections to the primary.
pub(super) struct Dialer {
    address: ServerAddress,
    config: AsyncConnectionConfig,
    /// For connections to Sentinels.
    sentinel_config: AsyncConnectionConfig,
}

impl Dialer {
    pub(super) fn new(settings: &RedisSettings) -> Result<Self> {
        let address = ServerAddress::new(settings)?;
        if address.is_tls() {
            // An error says that the process has a provider already.
            rustls::crypto::ring::default_provider().install_default().ok();
        }
        let connect = Duration::from_millis(settings.connect_ms);
        let timed = || AsyncConnectionConfig::new().set_connection_timeout(Some(connect));
        let config = timed()
            .set_response_timeout(Some(Duration::from_millis(settings.response_ms)))
            .set_write_backpressure_boundary(WRITE_BUFFER_BYTES);
        Ok(Self { address, config, sentinel_config: timed().set_response_timeout(Some(connect)) })
    }

    /// Watches the Sentinels, if there are any.
    pub(super) fn watch(&self) {
        match &self.address {
            ServerAddress::Server(_) => {}
            ServerAddress::Service(sentinels) => sentinels.watch(&self.sentinel_config),
        }
    }

    /// Opens a connection for commands or for a reader.
    pub(super) async fn dial(&self) -> Result<Connection> {
        self.open(&self.config, ProtocolVersion::default()).await
    }

    /// Opens a connection for subscriptions. Their messages go to `sender`.
    pub(super) async fn dial_messages(
        &self,
        sender: tokio::sync::mpsc::UnboundedSender<redis::PushInfo>,
    ) -> Result<Connection> {
        self.open(&self.config.clone().set_push_sender(sender), ProtocolVersion::RESP3).await
    }

    /// Opens a connection to the current primary.
    async fn open(&self, config: &AsyncConnectionConfig, protocol: ProtocolVersion) -> Result<Connection> {
        match &self.address {
            ServerAddress::Server(info) => {
                Ok(Connection::new(open(with_protocol(info.as_ref().clone(), protocol), config).await?, None))
            }
            ServerAddress::Service(sentinels) => sentinels.connect(&self.sentinel_config, config, protocol).await,
        }
    }
}
