//! Finds a service's primary by asking Sentinels: for each connection that is opened, and all the time while it is used.
//!
//! A planned failover promotes a replica and demotes the old primary about ten seconds later. Until then the old one
//! takes writes, which are lost. So every Sentinel is watched: it publishes the beginning and the switch, and it is asked
//! twice a second. All connections end when a failover begins, a few tenths of a second before the promotion; what dials
//! again waits for the end and is led to the new primary.
//!
//! Each failover has a higher configuration epoch. What a Sentinel with a lower epoch says is out of date.
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

use super::fault::fault;
use super::line::Line;
use super::link::{open, speaking};
use super::{Result, reply};
use crate::BrokerError;

/// How often each Sentinel is asked where the primary is.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// Wait before a Sentinel that does not answer is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// What a Sentinel publishes when a failover begins, when a replica is promoted, and when the failover is over.
const SWITCHES: [&str; 4] = ["+try-failover", "+failover-state-select-slave", "+promoted-slave", "+switch-master"];

/// Where a Sentinel says that the primary is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    host: String,
    port: u16,
    epoch: u64,
    /// A failover has begun that will move the primary elsewhere.
    is_leaving: bool,
}

impl Told {
    fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// The primary that connections lead to.
#[derive(Default)]
struct Known {
    address: Option<String>,
    epoch: u64,
    /// The Sentinel that is about to promote a replica: what the primary takes from now on may be lost.
    promoter: Option<String>,
}

/// A service and the Sentinels that know where its primary is.
pub(super) struct Sentinels {
    service: String,
    /// The one that knew last comes first.
    nodes: Mutex<Vec<ConnectionInfo>>,
    /// How servers are spoken to: TLS, user, database. The address is of no meaning.
    server: ConnectionInfo,
    known: Mutex<Known>,
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
    pub(super) fn watch(self: &Arc<Self>, asking: &AsyncConnectionConfig) {
        for node in self.nodes() {
            let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
            watchers.spawn(watch_one(Arc::downgrade(self), node, asking.clone()));
        }
    }

    /// Opens a connection to the primary, with `config` and in `protocol`; with `asking` those to Sentinels.
    ///
    /// Sentinels that are behind count only when no other one answers.
    pub(super) async fn connect(
        &self,
        asking: &AsyncConnectionConfig,
        config: &AsyncConnectionConfig,
        protocol: ProtocolVersion,
    ) -> Result<Line> {
        let seen = self.epoch()?;
        let mut tried: Vec<String> = Vec::new();
        let mut behind: Vec<(ConnectionInfo, Told)> = Vec::new();
        let mut is_current = false;
        let mut why = BrokerError::Unavailable(format!("service `{}` has no Sentinel to ask", self.service));
        for node in self.nodes() {
            let told = match self.told_by(&node, asking).await {
                Ok(told) => told,
                Err(error) => {
                    why = error;
                    continue;
                }
            };
            if told.epoch < seen {
                behind.push((node, told));
                continue;
            }
            is_current = true;
            if tried.contains(&told.address()) {
                continue;
            }
            match self.open_primary(&told, protocol, config).await {
                Ok(line) => return self.take(line, &node, &told, seen),
                Err(error) => why = error,
            }
            tried.push(told.address());
        }
        if is_current {
            return Err(why);
        }
        // Sentinels that were set up from scratch count their epochs from 0 again.
        behind.sort_by_key(|(_, told)| Reverse(told.epoch));
        for (node, told) in behind {
            match self.open_primary(&told, protocol, config).await {
                Ok(line) => return self.take(line, &node, &told, seen),
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

    /// Where a Sentinel says that the primary is.
    async fn told_by(&self, node: &ConnectionInfo, asking: &AsyncConnectionConfig) -> Result<Told> {
        let failed = |error: BrokerError| BrokerError::Unavailable(format!("sentinel `{}`: {error}", node.addr()));
        let mut line = open(node.clone(), asking).await.map_err(failed)?;
        self.ask(&mut line).await.map_err(failed)
    }

    /// Asks a Sentinel for the primary's address and for the configuration epoch that it is of.
    async fn ask(&self, line: &mut MultiplexedConnection) -> Result<Told> {
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        let address: Option<(String, u16)> = question.query_async(line).await.map_err(fault)?;
        let Some((host, port)) = address else {
            return Err(BrokerError::Unavailable(format!(
                "it knows no service `{}`; `SENTINEL MASTERS` lists those that it knows",
                self.service
            )));
        };
        let mut question = cmd("SENTINEL");
        question.arg("MASTER").arg(&self.service);
        let state: BTreeMap<String, String> = question.query_async(line).await.map_err(fault)?;
        let epoch = state.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
        let is_leaving = state.get("flags").is_some_and(|flags| flags.contains("failover_in_progress"))
            && state.get("ip") == Some(&host)
            && state.get("port").is_some_and(|own| *own == port.to_string());
        Ok(Told { host, port, epoch, is_leaving })
    }

    /// Opens a connection and sees that the server takes itself for the primary: a Sentinel may be behind.
    async fn open_primary(
        &self,
        told: &Told,
        protocol: ProtocolVersion,
        config: &AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection> {
        let failed = |why: String| {
            let (address, service) = (told.address(), &self.service);
            BrokerError::Unavailable(format!("`{address}`, the primary of `{service}` by its sentinels: {why}"))
        };
        let info = speaking(self.at(told.host.clone(), told.port), protocol);
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

    /// Takes a connection over, asks its Sentinel first the next time, and notes the primary.
    ///
    /// - `seen`: the epoch that was known before; the connection is refused when a later one has become known.
    fn take(&self, connection: MultiplexedConnection, node: &ConnectionInfo, told: &Told, seen: u64) -> Result<Line> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = nodes.iter().position(|other| other.addr() == node.addr()) {
            nodes[..=place].rotate_right(1);
        }
        drop(nodes);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.epoch > seen && known.epoch > told.epoch {
            return Err(BrokerError::Unavailable(format!("service `{}` has another primary", self.service)));
        }
        self.note(&mut known, told);
        Ok(Line::new(connection, Some(self.switches.subscribe())))
    }

    /// Takes what a watched Sentinel says; nothing that is out of date.
    fn hear(&self, by: &str, told: &Told) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.address.is_none() || told.epoch < known.epoch {
            return;
        }
        self.note(&mut known, told);
        if told.is_leaving && known.promoter.is_none() {
            tracing::warn!("a failover of `{}` has begun: connections wait for its end", self.service);
            known.promoter = Some(by.to_owned());
            self.switches.send_replace(());
        } else if !told.is_leaving && known.promoter.as_deref() == Some(by) {
            known.promoter = None;
        }
    }

    /// A Sentinel is not watched any more: what it was about to do is not known.
    fn unhear(&self, by: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.promoter.as_deref() == Some(by) {
            known.promoter = None;
        }
    }

    /// Ends all connections when the primary is another than before.
    fn note(&self, known: &mut Known, told: &Told) {
        let (service, address) = (&self.service, told.address());
        known.epoch = told.epoch;
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
async fn watch_one(service: Weak<Sentinels>, node: ConnectionInfo, asking: AsyncConnectionConfig) {
    while service.strong_count() > 0 {
        if let Err(error) = listen(&service, &node, &asking).await {
            tracing::debug!("sentinel `{}` is not watched: {error}", node.addr());
        }
        if let Some(sentinels) = service.upgrade() {
            sentinels.unhear(&node.addr().to_string());
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Asks a Sentinel twice a second, and as soon as it publishes a switch, until the connection breaks.
async fn listen(service: &Weak<Sentinels>, node: &ConnectionInfo, asking: &AsyncConnectionConfig) -> Result<()> {
    let (sender, mut pushes) = mpsc::unbounded_channel();
    let config = asking.clone().set_push_sender(sender);
    let mut line = open(speaking(node.clone(), ProtocolVersion::RESP3), &config).await?;
    line.subscribe(&SWITCHES[..]).await.map_err(fault)?;
    while let Some(sentinels) = service.upgrade() {
        sentinels.hear(&node.addr().to_string(), &sentinels.ask(&mut line).await?);
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

    fn told(port: u16, epoch: u64) -> Told {
        Told { host: "a".into(), port, epoch, is_leaving: false }
    }

    fn address(service: &Sentinels) -> Option<String> {
        service.known.lock().unwrap_or_else(PoisonError::into_inner).address.clone()
    }

    #[test]
    fn a_sentinel_that_is_behind_does_not_bring_a_former_primary_back() {
        let service = service();
        service.hear("s1", &told(1, 3));
        assert_eq!(address(&service), None, "no connection has been opened");
        service.note(&mut service.known.lock().expect("it is free"), &told(1, 3));
        let switches = service.switches.subscribe();
        service.hear("s1", &told(2, 2));
        assert!(!switches.has_changed().expect("the sender lives"), "it is out of date");
        service.hear("s1", &told(1, 4));
        assert!(!switches.has_changed().expect("the sender lives"), "it is the same primary");
        service.hear("s1", &told(2, 5));
        assert!(switches.has_changed().expect("the sender lives"));
        assert_eq!(address(&service).as_deref(), Some("a:2"));
    }

    #[test]
    fn connections_end_when_a_failover_begins_and_are_not_opened_before_it_ends() {
        let service = service();
        service.note(&mut service.known.lock().expect("it is free"), &told(1, 3));
        let leaving = Told { is_leaving: true, ..told(1, 3) };
        let switches = service.switches.subscribe();
        service.hear("s1", &leaving);
        assert!(switches.has_changed().expect("the sender lives") && service.epoch().is_err());
        service.hear("s2", &told(1, 3));
        assert!(service.epoch().is_err(), "the other Sentinels do not know of it");
        service.hear("s2", &told(2, 4));
        assert_eq!(service.epoch().expect("it is over"), 4);
        service.hear("s1", &Told { is_leaving: true, ..told(2, 4) });
        service.unhear("s1");
        assert_eq!(service.epoch().expect("the Sentinel that began it is gone"), 4);
    }
}
