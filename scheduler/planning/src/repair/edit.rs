//! The record of one change.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One change to a draft: what, where, and why that is what was meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// Stable, upper case: `ACTION_NORMAL_FORM`.
    pub code: String,
    /// JSON Pointer (RFC 6901) into the draft as it was written.
    pub pointer: String,
    /// What stood there; null when nothing did.
    pub was: Value,
    /// What stands there; null when it was taken out.
    pub became: Value,
    pub why: String,
}

impl Edit {
    pub fn new(code: &str, pointer: &str, was: Value, became: Value, why: &str) -> Self {
        Self { code: code.into(), pointer: pointer.into(), was, became, why: why.into() }
    }
}
