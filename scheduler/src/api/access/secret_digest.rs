//! The stored digest of a secret: its SHA-256. Secrets have 256 random bits, so that no slow hash is needed.

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

/// The SHA-256 of a secret, in hexadecimal digits.
///
/// It has no `PartialEq`: [`SecretDigest::matches`] takes the same time wherever two digests differ.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SecretDigest(String);

impl SecretDigest {
    pub(crate) fn from_secret(secret: &str) -> Self {
        Self(digest(&SHA256, secret.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub(crate) fn matches(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_sha_256_and_matches_itself_only() {
        let digest = SecretDigest::from_secret("abc");
        assert_eq!(digest.as_str(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(digest.matches(&SecretDigest::from_secret("abc")));
        assert!(!digest.matches(&SecretDigest::from_secret("abd")) && !digest.matches(&SecretDigest(String::new())));
    }
}
