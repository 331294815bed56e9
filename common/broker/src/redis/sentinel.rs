//! Finds a service's primary by asking Sentinels: for each new connection, and all the time while it is used.
//!
//! A planned failover promotes a replica and demotes the old primary about ten seconds later. Until then the old one
//! takes writes, which are lost. So every Sentinel is watched: it publishes the beginning and the switch, and it is asked
//! twice a second. All connections end when a failover begins, a few tenths of a second before the promotion; new
//! connections wait for its end and lead to the new primary.
//!
//! Each failover has a higher configuration epoch. The reply of a Sentinel with a lower epoch is out of date.
//!
//! Source: "Sentinel clients" and "Configuration epochs", redis.io: ask one Sentinel after the other, ask the one that
//! answered first the next time, and let the server itself confirm that it is the primary.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, ProtocolVersion, Value, cmd};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::connection::{Connection, open, with_protocol};
use super::error::to_broker_error;
use super::{Result, reply as parse};
use crate::BrokerError;

/// How often each Sentinel is asked where the primary is.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// Wait before a Sentinel that does not answer is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// What a Sentinel publishes when a failover begins, when a replica is promoted, and when the failover is over.
const SWITCHES: [&str; 4] = ["+try-failover", "+failover-state-select-slave", "+promoted-slave", "+switch-master"];

/// A Sentinel's reply: where the primary is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SentinelReply {
    host: String,
    port: u16,
    epoch: u64,
    /// A failover has begun that will move the primary elsewhere.
    is_leaving: bool,
}

impl SentinelReply {
    fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// The primary that connections lead to.
#[derive(Default)]
struct KnownPrimary {
    address: Option<String>,
    epoch: u64,
    /// The Sentinel that is about to promote a replica: writes to the primary may be lost from now on.
    promoter: Option<String>,
}

/// A service and the Sentinels that know its primary.
pub(super) struct Sentinels {
    service: String,
    /// The one that answered last comes first.
    nodes: Mutex<Vec<ConnectionInfo>>,
    /// How to connect to servers: TLS, user, database. Its address is not used.
    server: ConnectionInfo,
    known: Mutex<KnownPrimary>,
    /// Moves when the primary is another than before.
    switches: watch::Sender<()>,
    /// One task for each Sentinel; they end with this.
    watchers: Mutex<JoinSet<()>>,
}

impl Sentinels {
    pub(super) fn new(service: &str, nodes: Vec<ConnectionInfo>, server: ConnectionInfo) -> Self {
        Self {
            service: service.into(),
            nodes: Mutex::new(nodes),
            server,
            known: Mutex::default(),
            switches: watch::Sender::new(()),
            watchers: Mutex::default(),
        }
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

    /// Watches every Sentinel for as long as this service is used.
    pub(super) fn watch(self: &Arc<Self>, sentinel_config: &AsyncConnectionConfig) {
        for node in self.nodes() {
            let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
            watchers.spawn(watch_node(Arc::downgrade(self), node, sentinel_config.clone()));
        }
    }

    /// Opens a connection to the primary, with `config` and in `protocol`; with `sentinel_config` to Sentinels.
    ///
    /// Sentinels that are behind count only when no other one answers.
    pub(super) async fn connect(
        &self,
        sentinel_config: &AsyncConnectionConfig,
        config: &AsyncConnectionConfig,
        protocol: ProtocolVersion,
    ) -> Result<Connection> {
        let seen = self.epoch()?;
        let mut tried: Vec<String> = Vec::new();
        let mut behind: Vec<(ConnectionInfo, SentinelReply)> = Vec::new();
        let mut is_current = false;
        let mut why = BrokerError::Unavailable(format!("service `{}` has no Sentinel to ask", self.service));
        for node in self.nodes() {
            let reply = match self.query_node(&node, sentinel_config).await {
                Ok(reply) => reply,
                Err(error) => {
                    why = error;
                    continue;
                }
            };
            if reply.epoch < seen {
                behind.push((node, reply));
                continue;
            }
            is_current = true;
            if tried.contains(&reply.address()) {
                continue;
            }
            match self.open_primary(&reply, protocol, config).await {
                Ok(connection) => return self.accept_connection(connection, &node, &reply, seen),
                Err(error) => why = error,
            }
            tried.push(reply.address());
        }
        if is_current {
            return Err(why);
        }
        // Sentinels that were set up from scratch count their epochs from 0 again.
        behind.sort_by_key(|(_, reply)| Reverse(reply.epoch));
        for (node, reply) in behind {
            match self.open_primary(&reply, protocol, config).await {
                Ok(connection) => return self.accept_connection(connection, &node, &reply, seen),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// The epoch of the primary that is known; an error while a replica is being promoted.
    fn epoch(&self) -> Result<u64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.promoter.is_some() {
            return Err(BrokerError::Unavailable(format!("service `{}` is getting another primary", self.service)));
        }
        Ok(known.epoch)
    }

    /// Asks one Sentinel for the primary.
    async fn query_node(
        &self,
        node: &ConnectionInfo,
        sentinel_config: &AsyncConnectionConfig,
    ) -> Result<SentinelReply> {
        let failed = |error: BrokerError| error.of_server(&format!("sentinel `{}`", node.addr()));
        let mut connection = open(node.clone(), sentinel_config).await.map_err(failed)?;
        self.query(&mut connection).await.map_err(failed)
    }

    /// Asks a Sentinel for the primary's address and for the configuration epoch that it is of.
    async fn query(&self, connection: &mut MultiplexedConnection) -> Result<SentinelReply> {
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        let address: Option<(String, u16)> = question.query_async(connection).await.map_err(to_broker_error)?;
        let Some((host, port)) = address else {
            return Err(BrokerError::Unavailable(format!(
                "it knows no service `{}`; `SENTINEL MASTERS` lists those that it knows",
                self.service
            )));
        };
        let mut question = cmd("SENTINEL");
        question.arg("MASTER").arg(&self.service);
        let state: BTreeMap<String, String> = question.query_async(connection).await.map_err(to_broker_error)?;
        let epoch = state.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
        let is_leaving = state.get("flags").is_some_and(|flags| flags.contains("failover_in_progress"))
            && state.get("ip") == Some(&host)
            && state.get("port").is_some_and(|own| *own == port.to_string());
        Ok(SentinelReply { host, port, epoch, is_leaving })
    }

    /// Opens a connection and checks that the server reports the role of a primary: a Sentinel may be behind.
    async fn open_primary(
        &self,
        reply: &SentinelReply,
        protocol: ProtocolVersion,
        config: &AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection> {
        let failed = |error: BrokerError| {
            error.of_server(&format!("`{}`, the primary of `{}` by its sentinels", reply.address(), self.service))
        };
        let info = with_protocol(self.at(reply.host.clone(), reply.port), protocol);
        let mut connection = open(info, config).await.map_err(failed)?;
        let role: Value = cmd("ROLE").query_async(&mut connection).await.map_err(to_broker_error)?;
        let role = parse::list(role)?.into_iter().next().map(parse::text).transpose()?.unwrap_or_default();
        if role == "master" {
            Ok(connection)
        } else {
            Err(failed(BrokerError::Unavailable(format!("its role is `{role}`, a failover is under way"))))
        }
    }

    fn at(&self, host: String, port: u16) -> ConnectionInfo {
        let address = if let ConnectionAddr::TcpTls { insecure, tls_params, .. } = self.server.addr() {
            ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
        } else {
            ConnectionAddr::Tcp(host, port)
        };
        self.server.clone().set_addr(address)
    }

    /// Accepts a connection, moves its Sentinel to the front of the list, and records the primary.
    ///
    /// - `seen`: the epoch that was known before; the connection is refused when a later one has become known.
    fn accept_connection(
        &self,
        connection: MultiplexedConnection,
        node: &ConnectionInfo,
        reply: &SentinelReply,
        seen: u64,
    ) -> Result<Connection> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = nodes.iter().position(|other| other.addr() == node.addr()) {
            nodes[..=place].rotate_right(1);
        }
        drop(nodes);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.epoch > seen && known.epoch > reply.epoch {
            return Err(BrokerError::Unavailable(format!("service `{}` has another primary", self.service)));
        }
        self.update_primary(&mut known, reply);
        Ok(Connection::new(connection, Some(self.switches.subscribe())))
    }

    /// Handles the reply of a watched Sentinel; ignores one that is out of date.
    fn observe(&self, by: &str, reply: &SentinelReply) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.address.is_none() || reply.epoch < known.epoch {
            return;
        }
        self.update_primary(&mut known, reply);
        if reply.is_leaving && known.promoter.is_none() {
            tracing::warn!("a failover of `{}` has begun: connections wait for its end", self.service);
            known.promoter = Some(by.to_owned());
            self.switches.send_replace(());
        } else if !reply.is_leaving && known.promoter.as_deref() == Some(by) {
            known.promoter = None;
        }
    }

    /// Forgets a failover of a Sentinel that is not watched any more: its end would not be seen.
    fn forget_promoter(&self, by: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.promoter.as_deref() == Some(by) {
            known.promoter = None;
        }
    }

    /// Records the primary. Ends all connections when it has changed.
    fn update_primary(&self, known: &mut KnownPrimary, reply: &SentinelReply) {
        let (service, address) = (&self.service, reply.address());
        known.epoch = reply.epoch;
        match &known.address {
            Some(before) if *before == address => return,
            None => tracing::info!("the primary of `{service}` is at `{address}`"),
            Some(before) => {
                tracing::warn!("the primary of `{service}` is now at `{address}`, it was at `{before}`");
                known.promoter = None;
                self.switches.send_replace(());
            }
        }
        known.address = Some(address);
    }
}

/// Watches one Sentinel until the service is not used any more.
async fn watch_node(service: Weak<Sentinels>, node: ConnectionInfo, sentinel_config: AsyncConnectionConfig) {
    while service.strong_count() > 0 {
        if let Err(error) = watch_connection(&service, &node, &sentinel_config).await {
            tracing::debug!("sentinel `{}` is not watched: {error}", node.addr());
        }
        if let Some(sentinels) = service.upgrade() {
            sentinels.forget_promoter(&node.addr().to_string());
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Asks a Sentinel twice a second, and as soon as it publishes a switch, until the connection breaks.
async fn watch_connection(
    service: &Weak<Sentinels>,
    node: &ConnectionInfo,
    sentinel_config: &AsyncConnectionConfig,
) -> Result<()> {
    let (sender, mut pushes) = mpsc::unbounded_channel();
    let config = sentinel_config.clone().set_push_sender(sender);
    let mut connection = open(with_protocol(node.clone(), ProtocolVersion::RESP3), &config).await?;
    connection.subscribe(&SWITCHES[..]).await.map_err(to_broker_error)?;
    while let Some(sentinels) = service.upgrade() {
        sentinels.observe(&node.addr().to_string(), &sentinels.query(&mut connection).await?);
        drop(sentinels);
        // Any push is a reason to ask: a message, or the end of the connection, which the next question finds.
        tokio::select! {
            _push = pushes.recv() => {}
            () = tokio::time::sleep(ASK_EVERY) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;

    use super::*;

    fn service() -> Sentinels {
        let server = "redis://primary".into_connection_info().expect("it is an address");
        Sentinels::new("plans", Vec::new(), server)
    }

    fn reply(port: u16, epoch: u64) -> SentinelReply {
        SentinelReply { host: "a".into(), port, epoch, is_leaving: false }
    }

    fn address(service: &Sentinels) -> Option<String> {
        service.known.lock().unwrap_or_else(PoisonError::into_inner).address.clone()
    }

    #[test]
    fn a_sentinel_that_is_behind_does_not_bring_a_former_primary_back() {
        let service = service();
        service.observe("s1", &reply(1, 3));
        assert_eq!(address(&service), None, "no connection has been opened");
        service.update_primary(&mut service.known.lock().expect("it is free"), &reply(1, 3));
        let switches = service.switches.subscribe();
        service.observe("s1", &reply(2, 2));
        assert!(!switches.has_changed().expect("the sender lives"), "it is out of date");
        service.observe("s1", &reply(1, 4));
        assert!(!switches.has_changed().expect("the sender lives"), "it is the same primary");
        service.observe("s1", &reply(2, 5));
        assert!(switches.has_changed().expect("the sender lives"));
        assert_eq!(address(&service).as_deref(), Some("a:2"));
    }

    #[test]
    fn connections_end_when_a_failover_begins_and_are_not_opened_before_it_ends() {
        let service = service();
        service.update_primary(&mut service.known.lock().expect("it is free"), &reply(1, 3));
        let leaving = SentinelReply { is_leaving: true, ..reply(1, 3) };
        let switches = service.switches.subscribe();
        service.observe("s1", &leaving);
        assert!(switches.has_changed().expect("the sender lives") && service.epoch().is_err());
        service.observe("s2", &reply(1, 3));
        assert!(service.epoch().is_err(), "the other Sentinels do not know of it");
        service.observe("s2", &reply(2, 4));
        assert_eq!(service.epoch().expect("it is over"), 4);
        service.observe("s1", &SentinelReply { is_leaving: true, ..reply(2, 4) });
        service.forget_promoter("s1");
        assert_eq!(service.epoch().expect("the Sentinel that began it is gone"), 4);
    }
}
