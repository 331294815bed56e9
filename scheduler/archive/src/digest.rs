//! The names of large payloads: the SHA-256 of their bytes.

use ring::digest::{SHA256, digest};

pub(crate) fn content_digest(content: &str) -> Vec<u8> {
    digest(&SHA256, content.as_bytes()).as_ref().to_vec()
}
