//! API keys, kept out of logs, errors and serialized values.

use goalmill_common::config::environment;

/// Replacement of the key in output.
const HIDDEN: &str = "***";
/// Shorter keys are not redacted: they would match by chance.
const BYTES_MIN: usize = 6;

/// A key from the environment. `Debug` hides it; it has no serializer.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// Reads the environment variable and trims white space.
    pub fn from_variable(name: &str) -> Option<Self> {
        environment(name).map(|key| Self(key.trim().to_owned())).filter(|key| !key.0.is_empty())
    }

    /// The key, for the request header.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// Removes the key from a text that the server sent.
    pub fn redact(&self, text: &str) -> String {
        if self.0.len() < BYTES_MIN { text.into() } else { text.replace(&self.0, HIDDEN) }
    }

    /// Removes the key from bytes.
    pub fn redact_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        let key = self.0.as_bytes();
        if key.len() < BYTES_MIN || !bytes.windows(key.len()).any(|window| window == key) {
            return bytes;
        }
        let mut clean = Vec::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        while let Some(at) = rest.windows(key.len()).position(|window| window == key) {
            clean.extend_from_slice(&rest[..at]);
            clean.extend_from_slice(HIDDEN.as_bytes());
            rest = &rest[at + key.len()..];
        }
        clean.extend_from_slice(rest);
        clean
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_redacted_everywhere() {
        let key = ApiKey::new("key-0123456789");
        assert_eq!(format!("{key:?}"), "***");
        assert_eq!(key.redact("bad key `key-0123456789`, really key-0123456789"), "bad key `***`, really ***");
        assert_eq!(key.redact_bytes(b"\xffkey-0123456789\xfe key-0123456789".to_vec()), b"\xff***\xfe ***");
        assert_eq!(key.redact_bytes(b"nothing".to_vec()), b"nothing");
        assert_eq!(ApiKey::new("a").redact("a banana"), "a banana");
    }
}
