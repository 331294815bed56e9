//! Settings of the archive.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::namespace_limits::OTHER_NAMESPACES;
use crate::id::{Namespace, is_id};

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
    /// Milliseconds for a new connection to `postgres`, its password and its first statements, and for the wait for one
    /// that is free.
    pub connect_ms: u64,
    /// Milliseconds in which `postgres` must answer one call of the scheduler. The connection is given up then, and the
    /// call is made again later. A call that writes may take five times as long, the update of the schema twenty times.
    pub answer_ms: u64,
    /// Milliseconds between searches for plans that ended.
    pub interval_ms: u64,
    /// Events written in one transaction, about.
    pub batch_events: usize,
    /// Bytes of the large inputs and outputs (those over `limits.inline_bytes_max`) that are kept of one plan; 0 keeps
    /// none. Those that do not fit stay references.
    pub plan_payloads_bytes_max: usize,
    /// Milliseconds after its end in which a plan stays in the archive, by namespace; `*` is for each namespace without a
    /// time of its own, and 0 keeps plans for ever. Without this table all plans are kept.
    pub retention_ms: BTreeMap<String, u64>,
    /// Milliseconds between searches for plans whose time in the archive is over.
    pub retention_interval_ms: u64,
}

impl Default for ArchiveSettings {
    fn default() -> Self {
        Self {
            store: ArchiveKind::None,
            path: String::new(),
            url_env: "GOALMILL_ARCHIVE_URL".into(),
            connect_ms: 5_000,
            answer_ms: 60_000,
            interval_ms: 1_000,
            batch_events: 2_000,
            plan_payloads_bytes_max: 64 << 20,
            retention_ms: BTreeMap::new(),
            retention_interval_ms: 3_600_000,
        }
    }
}

impl ArchiveSettings {
    /// How long plans of the namespace are archived, in milliseconds; `None` is for ever.
    pub fn retention_of(&self, namespace: &Namespace) -> Option<u64> {
        let own = self.retention_ms.get(namespace.as_str()).or_else(|| self.retention_ms.get(OTHER_NAMESPACES));
        own.copied().filter(|time_ms| *time_ms > 0)
    }
}

/// What is wrong with the settings, as sentences.
///
/// - `live_ms`: how long finished plans stay in the store of running plans, `scheduler.retention_ms`.
pub(super) fn violations(settings: &ArchiveSettings, live_ms: u64) -> Vec<String> {
    let checks = [
        (
            settings.store != ArchiveKind::Sqlite || !settings.path.is_empty(),
            "`archive.path` names the file of `sqlite`",
        ),
        (
            settings.store != ArchiveKind::Postgres || !settings.url_env.is_empty(),
            "`archive.url_env` names the variable with the address of `postgres`",
        ),
        (settings.connect_ms > 0, "`archive.connect_ms > 0` must hold"),
        (settings.answer_ms > 0, "`archive.answer_ms > 0` must hold"),
        (settings.interval_ms > 0, "`archive.interval_ms > 0` must hold"),
        (settings.batch_events > 0, "`archive.batch_events > 0` must hold"),
        (settings.retention_interval_ms > 0, "`archive.retention_interval_ms > 0` must hold"),
    ];
    let wrong = checks.iter().filter(|(holds, _)| !holds).map(|(_, text)| (*text).to_owned());
    let unknown = settings.retention_ms.keys().filter(|name| *name != OTHER_NAMESPACES && !is_id(name));
    let unknown =
        unknown.map(|name| format!("`archive.retention_ms` has `{name}`, which is neither a namespace nor `*`"));
    // A plan that is in the store of running plans would be copied again.
    let early = settings.retention_ms.iter().filter(|(_, time_ms)| (1..=live_ms).contains(*time_ms));
    let early = early
        .map(|(name, _)| format!("`archive.retention_ms.{name} > scheduler.retention_ms` must hold, or it must be 0"));
    wrong.chain(unknown).chain(early).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_its_own_time_or_that_of_all_others() {
        let times = [("research", 90_000), ("law", 0), ("*", 180_000)];
        let retention_ms = times.map(|(name, time_ms)| (name.to_owned(), time_ms)).into();
        let mut settings = ArchiveSettings { retention_ms, ..ArchiveSettings::default() };
        let of = |settings: &ArchiveSettings, name: &str| settings.retention_of(&name.into());
        assert_eq!(of(&settings, "research"), Some(90_000));
        assert_eq!(of(&settings, "law"), None, "0 is for ever");
        assert_eq!(of(&settings, "default"), Some(180_000));
        assert_eq!(violations(&settings, 60_000), [""; 0]);
        let wrong = violations(&settings, 90_000);
        assert!(wrong.len() == 1 && wrong[0].contains("archive.retention_ms.research"), "{wrong:?}");
        settings.retention_ms.insert("a/b".into(), 0);
        assert!(violations(&settings, 0)[0].contains("`a/b`"));
        assert_eq!(of(&ArchiveSettings::default(), "default"), None, "by default all plans are kept");
    }
}
