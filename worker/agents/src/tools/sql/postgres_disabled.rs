//! Stands in for queries in PostgreSQL in builds without the feature `postgres`.

#![expect(clippy::unused_async, reason = "functions of the module that it stands in for")]

use goalmill_common::config::Feature;
use serde_json::Value;

use super::QueryLimits;

/// There is none.
pub(super) enum PostgresDatabase {}

impl PostgresDatabase {
    pub fn from_environment(_: &str) -> Result<Self, String> {
        Err(Feature::Postgres.missing("postgres_url_env").to_string())
    }

    pub async fn query(&self, _: &str, _: QueryLimits) -> Result<Value, String> {
        match *self {}
    }
}
