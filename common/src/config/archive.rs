//! Settings of the archive.

use serde::{Deserialize, Serialize};

/// The store that keeps finished plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArchiveKind {
    /// None: a finished plan is deleted after `scheduler.retention_ms`.
    #[default]
    None,
    /// SQLite in a file, for schedulers of one machine.
    Sqlite,
    /// PostgreSQL 13 or later.
    Postgres,
}

/// Where finished plans are kept for longer than `scheduler.retention_ms`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ArchiveSettings {
    /// `none`, `sqlite` or `postgres`.
    pub store: ArchiveKind,
    /// The file of `sqlite`; its directory must exist.
    pub path: String,
    /// The environment variable that holds the address of `postgres`: `postgres://user:password@host/database`. With
    /// `?sslmode=require` the connection uses TLS.
    pub url_env: String,
    /// Milliseconds between searches for plans that ended.
    pub interval_ms: u64,
    /// Events written in one transaction, about.
    pub batch_events: usize,
}

impl Default for ArchiveSettings {
    fn default() -> Self {
        Self {
            store: ArchiveKind::None,
            path: String::new(),
            url_env: "GOALMILL_ARCHIVE_URL".into(),
            interval_ms: 1_000,
            batch_events: 2_000,
        }
    }
}

/// What is wrong with the settings, as sentences.
pub(super) fn violations(settings: &ArchiveSettings) -> Vec<String> {
    let checks = [
        (
            settings.store != ArchiveKind::Sqlite || !settings.path.is_empty(),
            "`archive.path` names the file of `sqlite`",
        ),
        (
            settings.store != ArchiveKind::Postgres || !settings.url_env.is_empty(),
            "`archive.url_env` names the variable with the address of `postgres`",
        ),
        (settings.interval_ms > 0, "`archive.interval_ms > 0` must hold"),
        (settings.batch_events > 0, "`archive.batch_events > 0` must hold"),
    ];
    checks.iter().filter(|(holds, _)| !holds).map(|(_, text)| (*text).to_owned()).collect()
}
