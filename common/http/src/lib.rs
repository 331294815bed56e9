//! Common parts of the HTTP clients of all packages: the TLS provider, how a client is built, bodies with a limit, and
//! the sentences for clients that cannot be built.

use std::error::Error;
use std::sync::Once;

use reqwest::{Client, ClientBuilder, Response};

/// The name by which servers know these clients.
pub const USER_AGENT: &str = concat!("goalmill/", env!("CARGO_PKG_VERSION"));

/// The library's error when the machine has no certificates.
const NO_CERTIFICATES: &str = "No CA certificates were loaded";
const HINT: &str = "this machine has no certificates of certificate authorities, and `https` needs them: install the \
    package `ca-certificates`, or name a file with them by SSL_CERT_FILE";

/// Installs the TLS provider of the process, unless the program has installed one.
pub fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("a TLS provider is already installed");
        }
    });
}

/// Begins a client for addresses that are all `https`, or all `http`.
///
/// A client for `http` has no certificates: loading them is slow, and machines without any can use `http`. So a client
/// that follows redirects from `http` to `https` begins with [`any_client`].
///
/// - `is_secure`: whether the addresses are `https`.
pub fn client(is_secure: bool) -> ClientBuilder {
    let builder = any_client();
    if is_secure { builder } else { builder.tls_certs_only([]) }
}

/// Begins a client for any address.
pub fn any_client() -> ClientBuilder {
    install_tls();
    Client::builder().user_agent(USER_AGENT)
}

/// Why a body was not read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("it has more than {0} bytes")]
    TooLarge(usize),
    #[error(transparent)]
    Failed(reqwest::Error),
}

/// Receives a body of at most so many bytes.
pub async fn read_body(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(BodyError::Failed)? {
        if body.len() + chunk.len() > bytes_max {
            return Err(BodyError::TooLarge(bytes_max));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The sentence for a client that could not be built: missing certificates by name, else the innermost cause.
pub fn client_failure(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let text = cause.to_string();
    if text.contains(NO_CERTIFICATES) { HINT.to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn missing_certificates_are_named_with_what_to_do() {
        let inner = io::Error::other("unexpected error: No CA certificates were loaded from the system");
        let said = client_failure(&io::Error::other(inner));
        assert!(said.contains("ca-certificates") && said.contains("SSL_CERT_FILE"), "{said}");
        assert_eq!(client_failure(&io::Error::other("no room")), "no room");
    }
}
