//! Common parts of the PostgreSQL clients of all packages: TLS, and a server for tests.

#[cfg(feature = "test-server")]
pub mod test_server;

use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

/// TLS with the certificates of the machine, if the address requires TLS (`sslmode=require`).
pub fn tls_connector() -> MakeRustlsConnect {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let settings = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows the versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    MakeRustlsConnect::new(settings)
}
