//! Tool `sql`: read-only queries in SQLite files of the plan, and in one PostgreSQL database of the settings.

use std::path::Path;

use async_trait::async_trait;
use goalmill_common::task::Task;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::workspace::{WorkspaceLimits, Workspaces};
use super::{AgentTool, text_of};

#[cfg_attr(not(feature = "postgres"), path = "postgres_disabled.rs")]
mod postgres;
mod sqlite;

use postgres::PostgresDatabase;

/// Bytes of one query.
const QUERY_BYTES_MAX: usize = 16 << 10;

/// Fields of the tool in the settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SqlSettings {
    /// Variable of the worker's environment with the address of a PostgreSQL database.
    postgres_url_env: Option<String>,
    /// Milliseconds of one query.
    timeout_ms: u64,
    /// Rows of one result.
    rows_max: usize,
    /// Bytes of one result.
    bytes_max: usize,
    /// Bytes of a SQLite file: it is read into memory.
    file_bytes_max: u64,
}

impl Default for SqlSettings {
    fn default() -> Self {
        Self {
            postgres_url_env: None,
            timeout_ms: 10_000,
            rows_max: 200,
            bytes_max: 24 << 10,
            file_bytes_max: 64 << 20,
        }
    }
}

/// Limits of one query.
#[derive(Clone, Copy)]
struct QueryLimits {
    timeout_ms: u64,
    rows_max: usize,
    bytes_max: usize,
}

/// The tool.
pub(super) struct Sql {
    limits: QueryLimits,
    file_bytes_max: u64,
    files: std::sync::Arc<Workspaces>,
    postgres: Option<PostgresDatabase>,
}

impl Sql {
    pub fn new(settings: SqlSettings, files_dir: &Path) -> Result<Self, String> {
        let SqlSettings { postgres_url_env, timeout_ms, rows_max, bytes_max, file_bytes_max } = settings;
        if !(1..=600_000).contains(&timeout_ms) {
            return Err("`timeout_ms` must be within 1 and 600000".into());
        }
        if !(1..=10_000).contains(&rows_max) || !(256..=1 << 20).contains(&bytes_max) {
            return Err("`rows_max` must be within 1 and 10000, and `bytes_max` within 256 and 1048576".into());
        }
        Ok(Self {
            limits: QueryLimits { timeout_ms, rows_max, bytes_max },
            file_bytes_max,
            files: Workspaces::new(files_dir, WorkspaceLimits::default()).into(),
            postgres: postgres_url_env.map(|name| PostgresDatabase::from_environment(&name)).transpose()?,
        })
    }
}

#[async_trait]
impl AgentTool for Sql {
    fn name(&self) -> &'static str {
        "sql"
    }

    fn description(&self) -> &'static str {
        match self.postgres {
            Some(_) => {
                "Runs one SELECT query and returns its rows: in PostgreSQL, or with `path` in a SQLite file of the plan. Nothing can be changed."
            }
            None => "Runs one SELECT query in a SQLite file of the plan and returns its rows. Nothing can be changed.",
        }
    }

    fn parameters(&self) -> Value {
        let required: &[&str] = if self.postgres.is_some() { &["query"] } else { &["query", "path"] };
        json!({
            "type": "object", "additionalProperties": false, "required": required,
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": QUERY_BYTES_MAX},
                "path": {"type": "string", "description": "of the SQLite file"},
            },
        })
    }

    fn is_read_only(&self) -> bool {
        true
    }

    async fn run(&self, arguments: &Value, task: &Task) -> Result<Value, String> {
        let query = text_of(arguments, "query").trim().trim_end_matches(';').to_owned();
        if query.len() > QUERY_BYTES_MAX {
            return Err(format!("the query has more than {QUERY_BYTES_MAX} bytes"));
        }
        let (limits, path) = (self.limits, arguments["path"].as_str().map(str::to_owned));
        match (path, &self.postgres) {
            (None, Some(database)) => database.query(&query, limits).await,
            (path, _) => {
                let (files, plan, bytes_max) = (self.files.clone(), task.plan.clone(), self.file_bytes_max);
                let work = move || {
                    let path = path.ok_or("`path` is missing")?;
                    sqlite::query(files.read_bytes(&plan, &path, bytes_max)?, &query, limits)
                };
                let done = tokio::task::spawn_blocking(work).await;
                done.unwrap_or_else(|_| Err("the query failed".into()))
            }
        }
    }
}

/// Rows of a result, up to its limits.
struct Rows {
    limits: QueryLimits,
    rows: Vec<Value>,
    bytes: usize,
    has_more: bool,
}

impl Rows {
    fn new(limits: QueryLimits) -> Self {
        Self { limits, rows: Vec::new(), bytes: 0, has_more: false }
    }

    /// Adds a row if it fits; returns whether it was added. After the first refused row, all rows are refused.
    fn push(&mut self, row: Value) -> bool {
        self.bytes += row.to_string().len();
        self.has_more = self.rows.len() >= self.limits.rows_max || self.bytes > self.limits.bytes_max;
        if !self.has_more {
            self.rows.push(row);
        }
        !self.has_more
    }

    fn into_result(self) -> Value {
        let mut result = Map::from_iter([("rows".to_owned(), Value::Array(self.rows))]);
        if self.has_more {
            result.insert("has_more".into(), true.into());
        }
        Value::Object(result)
    }
}
