//! Host guard: rejects DNS rebinding and cross-site requests.
//!
//! The name of any site may resolve to a loopback address (DNS rebinding), so that its pages can read what listens there;
//! the `Host` of their requests still is that name. Cross-site requests carry the `Origin` of their page. IP addresses are
//! always allowed as hosts, because rebinding needs a name.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::http::uri::Authority;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use goalmill_common::config::ApiSettings;
use goalmill_common::problem::{ErrorCode, Problem};

use super::response::{ApiError, shown};

/// Allowed hosts and origins.
#[derive(Clone, Debug)]
pub(crate) struct HostGuard {
    /// `None`: any.
    hosts: Option<Vec<String>>,
    origins: Vec<String>,
}

impl HostGuard {
    /// - `address`: the address of the API; on loopback, host names must be allowed explicitly.
    pub(crate) fn new(settings: &ApiSettings, address: Option<SocketAddr>) -> Self {
        let is_private = address.is_some_and(|address| address.ip().is_loopback());
        let hosts: Vec<String> = settings.hosts.iter().map(|host| host.trim().to_ascii_lowercase()).collect();
        let origins = settings.origins.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect();
        Self { hosts: (is_private || !hosts.is_empty()).then_some(hosts), origins }
    }

    fn check_request_host(&self, request: &Request) -> Result<(), Problem> {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let named = hosts.next().map(|host| host.to_str().unwrap_or_default());
        if hosts.next().is_some() {
            return Err(Problem::new(ErrorCode::InvalidRequest, "the request has more than one `Host`; send one"));
        }
        let authority = request.uri().authority().map(Authority::as_str).or(named);
        if authority.is_none() {
            return Err(Problem::new(ErrorCode::InvalidRequest, "the request has no `Host`; send the API's address"));
        }
        if let Some(authority) = authority
            && !self.allows_host(authority)
        {
            let detail = format!("host `{}` is not allowed; set `api.hosts`", shown(authority));
            return Err(Problem::new(ErrorCode::MisdirectedRequest, detail));
        }
        let Some(origin) = request.headers().get(header::ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
        let own = origin.split_once("://").map(|(_, rest)| rest);
        let is_own = own.is_some_and(|own| authority.is_some_and(|authority| own.eq_ignore_ascii_case(authority)));
        if is_own || self.origins.contains(&origin) {
            return Ok(());
        }
        let detail = format!("origin `{}` is not allowed; set `api.origins`", shown(&origin));
        Err(Problem::new(ErrorCode::ForeignOrigin, detail))
    }

    fn allows_host(&self, authority: &str) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        let Ok(authority) = authority.parse::<Authority>() else { return false };
        let host = authority.host().to_ascii_lowercase();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<IpAddr>().is_ok() || host == "localhost" || host.ends_with(".localhost") || hosts.contains(&host)
    }
}

/// Passes allowed requests on.
pub(super) async fn check_host(State(guard): State<Arc<HostGuard>>, request: Request, next: Next) -> Response {
    match guard.check_request_host(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => ApiError(problem).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn guard(listen: &str, hosts: &[&str], origins: &[&str]) -> HostGuard {
        let settings = ApiSettings {
            hosts: hosts.iter().map(|host| (*host).into()).collect(),
            origins: origins.iter().map(|origin| (*origin).into()).collect(),
            ..ApiSettings::default()
        };
        HostGuard::new(&settings, listen.parse().ok())
    }

    fn answer(guard: &HostGuard, host: &str, origin: Option<&str>) -> Option<ErrorCode> {
        let mut request = Request::builder().uri("/v1/plans").header("Host", host);
        if let Some(origin) = origin {
            request = request.header("Origin", origin);
        }
        let request = request.body(Body::empty()).expect("it is a request");
        guard.check_request_host(&request).err().map(|problem| problem.code)
    }

    #[test]
    fn on_loopback_only_its_own_names_and_addresses_are_hosts() {
        let guard = guard("127.0.0.1:8080", &["Goalmill.test"], &[]);
        for host in ["127.0.0.1:8080", "localhost", "LocalHost:8080", "[::1]:8080", "goalmill.test:1", "a.localhost"] {
            assert_eq!(answer(&guard, host, None), None, "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:8080", "localhost.evil", "", "a b"] {
            assert_eq!(answer(&guard, host, None), Some(ErrorCode::MisdirectedRequest), "{host}");
        }
    }

    #[test]
    fn a_request_without_one_host_is_refused() {
        let guard = guard("0.0.0.0:8080", &[], &[]);
        for hosts in [&[][..], &["localhost", "localhost"][..]] {
            let request =
                hosts.iter().fold(Request::builder().uri("/v1/plans"), |made, host| made.header("Host", *host));
            let refused = guard.check_request_host(&request.body(Body::empty()).expect("it is a request")).err();
            assert_eq!(refused.map(|problem| problem.code), Some(ErrorCode::InvalidRequest), "{hosts:?}");
        }
    }

    #[test]
    fn on_other_addresses_every_name_is_a_host_until_some_are_named() {
        assert_eq!(answer(&guard("0.0.0.0:8080", &[], &[]), "goalmill.svc:8080", None), None);
        let named = guard("0.0.0.0:8080", &["goalmill.svc"], &[]);
        assert_eq!(answer(&named, "goalmill.svc:8080", None), None);
        assert_eq!(answer(&named, "10.1.2.3:8080", None), None, "probes name the address");
        assert_eq!(answer(&named, "evil.example", None), Some(ErrorCode::MisdirectedRequest));
    }

    #[test]
    fn only_its_own_pages_and_those_that_are_named_may_call() {
        let guard = guard("127.0.0.1:8080", &[], &["https://goalmill.example/"]);
        for origin in ["http://127.0.0.1:8080", "https://goalmill.example", "https://GOALMILL.example"] {
            assert_eq!(answer(&guard, "127.0.0.1:8080", Some(origin)), None, "{origin}");
        }
        for origin in ["http://evil.example", "null", "http://127.0.0.1:3000", "http://localhost:8080", ""] {
            let code = answer(&guard, "127.0.0.1:8080", Some(origin));
            assert_eq!(code, Some(ErrorCode::ForeignOrigin), "{origin}");
        }
    }
}
