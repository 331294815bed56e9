//! A key that shows itself to nobody but the server it is for.

use goalmill_common::config::environment;

/// What stands in its place.
const HIDDEN: &str = "***";
/// Shorter texts are not looked for in answers: they would turn up by chance.
const BYTES_MIN: usize = 6;

/// A key read from the environment. Neither shown by `Debug` nor written by any serializer.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// Reads it from the variable, without the line break that files end with.
    pub fn from_variable(name: &str) -> Option<Self> {
        environment(name).map(|key| Self(key.trim().to_owned())).filter(|key| !key.0.is_empty())
    }

    /// The key itself, for the header of a request.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without the key, should a server have repeated it.
    pub fn redact(&self, text: &str) -> String {
        if self.0.len() < BYTES_MIN { text.into() } else { text.replace(&self.0, HIDDEN) }
    }

    /// The same for bytes.
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

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_itself_nowhere() {
        let key = Secret::new("key-0123456789");
        assert_eq!(format!("{key:?}"), "***");
        assert_eq!(key.redact("bad key `key-0123456789`, really key-0123456789"), "bad key `***`, really ***");
        assert_eq!(key.redact_bytes(b"\xffkey-0123456789\xfe key-0123456789".to_vec()), b"\xff***\xfe ***");
        assert_eq!(key.redact_bytes(b"nothing".to_vec()), b"nothing");
        assert_eq!(Secret::new("a").redact("a banana"), "a banana");
    }
}
