//! Explains why a client for HTTPS cannot be built.

use std::error::Error;

/// The library's error when the machine has no certificates.
const NO_CERTIFICATES: &str = "No CA certificates were loaded";
const HINT: &str = "this machine has no certificates of certificate authorities, and `https` needs them: install the \
    package `ca-certificates`, or name a file with them by SSL_CERT_FILE";

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
