//! Settings of TLS at the API.

use serde::{Deserialize, Serialize};

/// Certificate and private key of the API. Without them it serves plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSettings {
    /// PEM file with the certificate of the API, followed by those of intermediate authorities; empty: no TLS.
    pub cert_file: String,
    /// PEM file with the private key of that certificate, without a password.
    pub key_file: String,
    /// Milliseconds between looks at both files; a changed certificate is served to new connections.
    pub reload_ms: u64,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self { cert_file: String::new(), key_file: String::new(), reload_ms: 10_000 }
    }
}

impl TlsSettings {
    /// Whether the API serves HTTPS.
    pub fn is_on(&self) -> bool {
        !self.cert_file.is_empty()
    }
}

/// Every relation that does not hold, as sentences.
pub(super) fn violations(settings: &TlsSettings) -> Vec<String> {
    let mut wrong = Vec::new();
    if settings.cert_file.is_empty() != settings.key_file.is_empty() {
        wrong.push("`api.tls.cert_file` and `api.tls.key_file` must both be set, or neither".into());
    }
    if settings.reload_ms == 0 {
        wrong.push("`api.tls.reload_ms > 0` must hold".into());
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_needs_its_key() {
        let tls =
            |cert: &str, key: &str, reload_ms| TlsSettings { cert_file: cert.into(), key_file: key.into(), reload_ms };
        assert_eq!(violations(&TlsSettings::default()), Vec::<String>::new());
        assert_eq!(violations(&tls("a.crt", "a.key", 1)), Vec::<String>::new());
        for wrong in [tls("a.crt", "", 1), tls("", "a.key", 1), tls("a.crt", "a.key", 0)] {
            assert_eq!(violations(&wrong).len(), 1, "{wrong:?}");
        }
    }
}
