//! The connections of a client: how long they may take to open, how long they are kept, and whom they trust.

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use goalmill_http::client_failure;
use reqwest::Certificate;

const CONNECT: Duration = Duration::from_secs(5);
/// How long an open connection is kept for the next request: less than a server keeps it, so that none is sent while
/// the server closes it.
const IDLE: Duration = Duration::from_secs(4);

/// Makes the requests of all clients of the API in this program; it opens no connection.
pub(crate) static IN_PROCESS_HTTP: LazyLock<Arc<OnceLock<Http>>> = LazyLock::new(Arc::default);

/// Connections to servers.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    pub(crate) client: reqwest::Client,
    /// Why only `http://` can be used.
    pub(crate) plain_only: Option<String>,
}

impl Http {
    pub(crate) fn new(authorities: Option<&[Certificate]>) -> Self {
        let trusting = match authorities {
            Some(authorities) => builder().tls_certs_only(authorities.iter().cloned()),
            None => builder(),
        };
        match trusting.build() {
            Ok(client) => Self { client, plain_only: None },
            Err(error) => {
                let client = builder().tls_certs_only([]).build();
                let client = client.expect("a client without certificates can always be made");
                Self { client, plain_only: Some(client_failure(&error)) }
            }
        }
    }
}

pub(crate) fn builder() -> reqwest::ClientBuilder {
    goalmill_http::any_client().connect_timeout(CONNECT).pool_idle_timeout(IDLE)
}
