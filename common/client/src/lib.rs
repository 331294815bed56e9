//! Client of the HTTP API: typed answers, problems as errors. Its calls are in `routes.rs`.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use goalmill_common::config::environment;
use goalmill_common::id::{Namespace, is_id};
use goalmill_common::trace::is_traceparent;
use goalmill_http::client_failure;
use reqwest::Certificate;

mod error;
mod exchange;
mod http;
mod logs;
mod plan_selector;
mod preview;
mod query;
mod retry;
mod routes;
mod transport;

pub use error::ClientError;
pub use query::{Candidates, Document, EventPage, EventQuery, LogQuery, PlanQuery, StatsQuery};
pub use retry::{Notice, RETRY_FOR};
pub use transport::{PendingResponse, Transport};

use http::{Http, IN_PROCESS_HTTP, builder};
use retry::RequestRetry;

/// Stands for the address of an API in the same program.
const IN_PROCESS: &str = "http://in-process.invalid";
/// Bytes of a file with certificates of authorities.
const CA_BYTES_MAX: u64 = 4 << 20;
/// The text of a token; never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(String);

impl From<String> for BearerToken {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken")
    }
}

/// Speaks to one server.
#[derive(Clone, Debug)]
pub struct Client {
    /// Made for the first request: most machines' certificates are read for it.
    http: Arc<OnceLock<Http>>,
    base: String,
    token: Option<BearerToken>,
    /// The only authorities that are trusted; those of the machine without them.
    authorities: Option<Arc<Vec<Certificate>>>,
    namespace: Option<String>,
    /// Who acts, if it is not the user of this program.
    actor: Option<String>,
    /// What answers in place of the server.
    transport: Option<Arc<dyn Transport>>,
    retry: RequestRetry,
}

/// The trace context that this program was started with, as programs hand it on in `TRACEPARENT`.
pub fn traceparent() -> Option<String> {
    environment("TRACEPARENT").filter(|text| is_traceparent(text))
}

impl Client {
    /// Prepares a client; nothing is sent yet.
    pub fn new(server: &str) -> Result<Self, ClientError> {
        let base = server.trim_end_matches('/').to_owned();
        let base = if base.contains("://") { base } else { format!("http://{base}") };
        reqwest::Url::parse(&base)
            .map_err(|error| ClientError::InvalidAddress { server: server.to_owned(), reason: error.to_string() })?;
        Ok(Self::at_base(base))
    }

    /// A client of the API in this program: `transport` answers, nothing is sent over a network, and requests have nothing of
    /// this process's environment.
    ///
    /// - `actor`: who acts where the API does not know the caller.
    pub fn in_process(transport: Arc<dyn Transport>, actor: &str) -> Self {
        let http = IN_PROCESS_HTTP.clone();
        let made = Self { http, authorities: Some(Arc::default()), ..Self::at_base(IN_PROCESS.to_owned()) };
        let made = made.retrying(Duration::ZERO, None);
        Self { actor: Some(actor.to_owned()), transport: Some(transport), ..made }
    }

    fn at_base(base: String) -> Self {
        let (http, retry) = (Arc::default(), RequestRetry { limit: RETRY_FOR, notice: None });
        Self { http, base, token: None, authorities: None, namespace: None, actor: None, transport: None, retry }
    }

    /// The same with another time for which requests are repeated that may be repeated: reads, and submissions, which have
    /// an id. [`RETRY_FOR`] unless another time is set.
    ///
    /// - `notice`: called once when a request takes long for that reason.
    #[must_use]
    pub fn retrying(self, limit: Duration, notice: Option<Notice>) -> Self {
        Self { retry: RequestRetry { limit, notice }, ..self }
    }

    /// The same, with a token in each request; an empty one counts as none.
    pub fn with_token(self, token: Option<BearerToken>) -> Result<Self, ClientError> {
        let token = token.filter(|token| !token.0.is_empty());
        if token.as_ref().is_some_and(|token| !token.0.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(ClientError::InvalidToken);
        }
        Ok(Self { token, ..self })
    }

    /// The same, limited to a namespace; an empty one counts as none.
    pub fn in_namespace(self, namespace: Option<String>) -> Result<Self, ClientError> {
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        match namespace {
            Some(name) if !is_id(&name) => Err(ClientError::InvalidNamespace(name)),
            namespace => Ok(Self { namespace, ..self }),
        }
    }

    /// The same, trusting only the authorities whose certificates are in a PEM file. Without one, or with an empty name,
    /// those of the machine are trusted.
    pub fn with_ca_file(self, file: Option<&Path>) -> Result<Self, ClientError> {
        let Some(path) = file.filter(|path| !path.as_os_str().is_empty()) else { return Ok(self) };
        let invalid = |reason: String| ClientError::InvalidCaFile { file: path.display().to_string(), reason };
        let mut text = Vec::new();
        let opened = File::open(path).map_err(|error| invalid(error.to_string()))?;
        opened.take(CA_BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| invalid(error.to_string()))?;
        if text.len() as u64 > CA_BYTES_MAX {
            return Err(invalid(format!("it has more than {CA_BYTES_MAX} bytes")));
        }
        let found = Certificate::from_pem_bundle(&text).unwrap_or_default();
        if found.is_empty() {
            return Err(invalid("it has none in PEM form".into()));
        }
        // Reads each certificate: a damaged one must not first be met by a request.
        let built = builder().tls_certs_only(found.iter().cloned()).build();
        built.map_err(|error| invalid(client_failure(&error)))?;
        Ok(Self { http: Arc::default(), authorities: Some(Arc::new(found)), ..self })
    }

    /// The namespace that it is limited to.
    pub fn namespace(&self) -> Option<Namespace> {
        self.namespace.as_deref().map(Into::into)
    }

    /// The same for another server, with the same token, authorities and namespace.
    pub fn at(&self, server: &str) -> Result<Self, ClientError> {
        let Self { token, authorities, namespace, retry, .. } = self.clone();
        Ok(Self { token, authorities, namespace, retry, ..Self::new(server)? })
    }

    fn http(&self) -> &Http {
        self.http.get_or_init(|| Http::new(self.authorities.as_ref().map(|all| all.as_slice())))
    }

    pub fn base(&self) -> &str {
        &self.base
    }
}

/// Escapes everything but unreserved characters (RFC 3986).
fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_completed() {
        assert_eq!(Client::new("http://h:1/").expect("it is an address").base(), "http://h:1");
        assert_eq!(Client::new("h:1").expect("a host and port are enough").base(), "http://h:1");
        let refused = Client::new("http://:99999").expect_err("no such port");
        assert!(matches!(refused, ClientError::InvalidAddress { .. }), "{refused}");
    }

    #[test]
    fn a_token_is_printable_ascii_and_never_printed() {
        let client =
            |token: &str| Client::new("http://h:1").and_then(|made| made.with_token(Some(token.to_owned().into())));
        assert!(!format!("{:?}", client("gm_a_hush").expect("it is a token")).contains("hush"));
        assert!(client("").expect("it counts as none").token.is_none());
        for bad in ["a b", "a\nb", "ä"] {
            let refused = client(bad).expect_err("it is no token");
            assert!(!refused.to_string().contains(bad), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_unreachable() {
        let client = Client::new("http://127.0.0.1:1").expect("it is an address").retrying(Duration::ZERO, None);
        let failed = client.plans(&PlanQuery::default()).await.expect_err("nobody listens on port 1");
        assert!(matches!(failed, ClientError::Unreachable { .. }), "{failed}");
        assert!(failed.to_string().contains("http://127.0.0.1:1"), "{failed}");
    }

    #[test]
    fn cursors_are_escaped() {
        assert_eq!(escaped("a b/1~"), "a%20b%2F1~");
    }
}
