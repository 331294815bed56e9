//! One suite of tests, run on each store.

#![expect(clippy::unwrap_used, reason = "a failed assertion of a test")]

mod conformance;
mod postgres;
mod sqlite;
