//! Finds a service's primary by asking Sentinels, anew for each connection that is opened.
//!
//! A failover needs no more than that: Sentinel breaks the clients' connections to a server that it demotes, a server
//! that died breaks them itself, and whoever dials again is led to the new primary.
//!
//! Source: "Sentinel clients", redis.io: ask one Sentinel after the other, ask the one that answered first the next
//! time, and let the server itself confirm that it is the primary.

use std::sync::{Mutex, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, ProtocolVersion, Value, cmd};

use super::fault::fault;
use super::link::{open, speaking};
use super::{Result, reply};
use crate::BrokerError;

/// A service and who knows where its primary is.
pub(super) struct Sentinels {
    service: String,
    /// The one that knew last comes first.
    nodes: Mutex<Vec<ConnectionInfo>>,
    /// How servers are spoken to: TLS, user, database. The address is of no meaning.
    server: ConnectionInfo,
    /// The primary that answered last.
    primary: Mutex<Option<String>>,
}

impl Sentinels {
    pub(super) fn new(service: &str, nodes: Vec<ConnectionInfo>, server: ConnectionInfo) -> Self {
        Self { service: service.into(), nodes: Mutex::new(nodes), server, primary: Mutex::default() }
    }

    pub(super) fn server(&self) -> &ConnectionInfo {
        &self.server
    }

    #[cfg(test)]
    pub(super) fn service(&self) -> &str {
        &self.service
    }

    pub(super) fn nodes(&self) -> Vec<ConnectionInfo> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens a connection to the primary, with `config` and in `protocol`; with `asking` those to Sentinels.
    pub(super) async fn connect(
        &self,
        asking: &AsyncConnectionConfig,
        config: &AsyncConnectionConfig,
        protocol: ProtocolVersion,
    ) -> Result<MultiplexedConnection> {
        let mut tried: Vec<String> = Vec::new();
        let mut why = BrokerError::Unavailable(format!("nobody is to be asked for service `{}`", self.service));
        for node in self.nodes() {
            let told = match self.primary_by(&node, asking).await {
                Ok(told) => told,
                Err(error) => {
                    why = error;
                    continue;
                }
            };
            let (host, port) = told;
            let address = format!("{host}:{port}");
            if tried.contains(&address) {
                continue;
            }
            match self.open_primary(&address, speaking(self.at(host, port), protocol), config).await {
                Ok(line) => {
                    self.remember(&node, address);
                    return Ok(line);
                }
                Err(error) => why = error,
            }
            tried.push(address);
        }
        Err(why)
    }

    /// Where a Sentinel says that the primary is.
    async fn primary_by(&self, node: &ConnectionInfo, asking: &AsyncConnectionConfig) -> Result<(String, u16)> {
        let place = node.addr().to_string();
        let failed = |why: String| BrokerError::Unavailable(format!("sentinel `{place}`: {why}"));
        let mut line = open(node.clone(), asking).await.map_err(|error| failed(error.to_string()))?;
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        let told: Option<(String, u16)> =
            question.query_async(&mut line).await.map_err(|error| failed(error.to_string()))?;
        told.ok_or_else(|| {
            failed(format!("it knows no service `{}`; `SENTINEL MASTERS` lists those that it knows", self.service))
        })
    }

    /// Opens a connection and sees that the server takes itself for the primary: a Sentinel may be behind.
    async fn open_primary(
        &self,
        address: &str,
        info: ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection> {
        let failed = |why: String| {
            BrokerError::Unavailable(format!("`{address}`, the primary of `{}` by its sentinels: {why}", self.service))
        };
        let mut line = open(info, config).await.map_err(|error| failed(error.to_string()))?;
        let role: Value = cmd("ROLE").query_async(&mut line).await.map_err(fault)?;
        let role = reply::list(role)?.into_iter().next().map(reply::text).transpose()?.unwrap_or_default();
        if role == "master" { Ok(line) } else { Err(failed(format!("its role is `{role}`, a failover is under way"))) }
    }

    fn at(&self, host: String, port: u16) -> ConnectionInfo {
        let address = match self.server.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        self.server.clone().set_addr(address)
    }

    /// Asks this Sentinel first the next time, and says it when the primary is another than before.
    fn remember(&self, node: &ConnectionInfo, address: String) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = nodes.iter().position(|other| other.addr() == node.addr()) {
            nodes[..=place].rotate_right(1);
        }
        drop(nodes);
        let mut primary = self.primary.lock().unwrap_or_else(PoisonError::into_inner);
        if primary.as_ref() == Some(&address) {
            return;
        }
        let service = &self.service;
        match primary.replace(address.clone()) {
            None => tracing::info!("the primary of `{service}` is at `{address}`"),
            Some(before) => tracing::warn!("the primary of `{service}` is now at `{address}`, it was at `{before}`"),
        }
    }
}
