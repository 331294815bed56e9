//! What every store does: one suite, run on each of them.

#![expect(clippy::unwrap_used, reason = "a failed assertion of a test")]

mod conformance;
mod postgres;
mod sqlite;
