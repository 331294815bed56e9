//! Parses `redis.url`: the address of a server, or a service whose primary Sentinels know.

use std::sync::Arc;

use goalmill_common::config::RedisSettings;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use super::Result;
use super::sentinel::Sentinels;
use crate::BrokerError;

/// The default port of Sentinels.
const SENTINEL_PORT: u16 = 26_379;
/// How to correct an address.
const HINT: &str = "give `redis://`, `rediss://` or `redis+unix://` and an address, or \
    `redis+sentinel://HOST:PORT,HOST:PORT/SERVICE`";

/// What connections are opened to.
pub(super) enum ServerAddress {
    Server(Box<ConnectionInfo>),
    Service(Arc<Sentinels>),
}

impl ServerAddress {
    /// Parses `redis.url`; the error never holds a password.
    pub(super) fn new(settings: &RedisSettings) -> Result<Self> {
        let (scheme, rest) = settings.url.split_once("://").ok_or_else(|| invalid("it has no scheme"))?;
        match scheme {
            "redis+sentinel" => Ok(Self::Service(Arc::new(service("redis", rest)?))),
            "rediss+sentinel" => Ok(Self::Service(Arc::new(service("rediss", rest)?))),
            _ => Ok(Self::Server(Box::new(server(&settings.url)?))),
        }
    }

    pub(super) fn is_tls(&self) -> bool {
        match self {
            Self::Server(info) => is_tls(info),
            Self::Service(sentinels) => is_tls(sentinels.server()),
        }
    }
}

fn is_tls(info: &ConnectionInfo) -> bool {
    matches!(info.addr(), ConnectionAddr::TcpTls { .. })
}

fn server(url: &str) -> Result<ConnectionInfo> {
    let info = url.into_connection_info().map_err(|error| invalid(error.to_string()))?;
    Ok(info.set_tcp_settings(tcp()))
}

/// `[USER:PASSWORD@]HOST[:PORT],…/SERVICE[/DB][?db=N&sentinel_username=…&sentinel_password=…][#insecure]`.
///
/// User and password are those of the servers; the Sentinels have their own, or none.
fn service(scheme: &str, rest: &str) -> Result<Sentinels> {
    let (rest, fragment) = rest.split_once('#').map_or((rest, String::new()), |(rest, f)| (rest, format!("#{f}")));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) = authority.rsplit_once('@').map_or((String::new(), authority), |(u, h)| (format!("{u}@"), h));
    let (service, mut db) = path.split_once('/').unwrap_or((path, ""));
    let is_named =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
    if !is_named(service) {
        return Err(invalid("the service's name is missing, the one that `SENTINEL MASTERS` lists"));
    }
    let (mut sentinel_user, mut sentinel_password) = ("", "");
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("db", number)) => db = number,
            Some(("sentinel_username", name)) => sentinel_user = name,
            Some(("sentinel_password", password)) => sentinel_password = password,
            other => {
                let name = other.map_or("", |(name, _)| name);
                return Err(invalid(format!(
                    "`{name}` is none of the parameters `db`, `sentinel_username`, `sentinel_password`"
                )));
            }
        }
    }
    let own = match (sentinel_user, sentinel_password) {
        ("", "") => String::new(),
        (user, password) => format!("{user}:{password}@"),
    };
    let node = |host: &str| {
        // An address of version 6 stands in brackets.
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let port = if has_port { String::new() } else { format!(":{SENTINEL_PORT}") };
        server(&format!("{scheme}://{own}{host}{port}{fragment}"))
    };
    let nodes = hosts.split(',').map(node).collect::<Result<Vec<_>>>()?;
    // The Sentinels know the host.
    let server = server(&format!("{scheme}://{user}primary/{db}{fragment}"))?;
    Ok(Sentinels::new(service, nodes, server))
}

fn invalid(why: impl Into<String>) -> BrokerError {
    BrokerError::InvalidAddress(format!("{}; {HINT}", why.into()))
}

/// Small writes are sent immediately, and a peer that went silent is noticed in about 10 s.
fn tcp() -> TcpSettings {
    use std::time::Duration;
    let keepalive =
        TcpKeepalive::new().with_time(Duration::from_secs(5)).with_interval(Duration::from_secs(2)).with_retries(3);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(Duration::from_secs(10));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentinels(url: &str) -> Arc<Sentinels> {
        match address(url) {
            Ok(ServerAddress::Service(sentinels)) => sentinels,
            Ok(ServerAddress::Server(info)) => panic!("`{url}` leads to {}", info.addr()),
            Err(error) => panic!("`{url}` is refused: {error}"),
        }
    }

    fn address(url: &str) -> Result<ServerAddress> {
        ServerAddress::new(&RedisSettings { url: url.into(), ..RedisSettings::default() })
    }

    #[test]
    fn a_service_has_sentinels_a_user_and_a_database() {
        let found = sentinels("redis+sentinel://ann:s%40cret@a:1,b,[::1]:3/my-plans/2?sentinel_password=own");
        assert_eq!(found.service(), "my-plans");
        let addresses: Vec<String> = found.nodes().iter().map(|node| node.addr().to_string()).collect();
        assert_eq!(addresses, ["a:1", "b:26379", "::1:3"]);
        let server = found.server().redis_settings();
        assert_eq!((server.username(), server.password(), server.db()), (Some("ann"), Some("s@cret"), 2));
        let own = found.nodes()[0].redis_settings().clone();
        assert_eq!((own.username(), own.password()), (None, Some("own")));
    }

    #[test]
    fn a_database_may_be_a_parameter_and_sentinels_have_no_password_by_default() {
        let found = sentinels("redis+sentinel://:secret@a/plans?db=3");
        assert_eq!(found.server().redis_settings().db(), 3);
        assert_eq!(found.nodes()[0].redis_settings().password(), None);
        assert!(!address("redis+sentinel://a/plans").expect("it is valid").is_tls());
        assert!(address("rediss+sentinel://a/plans").expect("it is valid").is_tls());
    }

    #[test]
    fn errors_about_an_address_do_not_hold_the_password() {
        for (url, why) in [
            ("redis+sentinel://:secret@a:1", "the service's name is missing"),
            ("redis+sentinel://:secret@a:1/plans?timeout=3", "`timeout` is none of the parameters"),
            ("redis+sentinel://:secret@a:x/plans", "redis.url"),
            ("redis+sentinel://:secret@/plans", "redis.url"),
            ("redis+sentinel://:secret@a/plans/many", "database"),
            ("http://:secret@a", "redis+sentinel://"),
            ("localhost", "it has no scheme"),
        ] {
            let error = address(url).err().unwrap_or_else(|| panic!("`{url}` is refused")).to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
