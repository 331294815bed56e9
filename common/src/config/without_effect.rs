//! Settings that were given although what they belong to is off.

use super::archive::ArchiveKind;
use super::load::{Loaded, Origin};
use super::mcp::McpAccess;

/// A setting that was given and has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingWithoutEffect {
    /// Its path, such as `archive.interval_ms`.
    pub path: String,
    /// Where it was given.
    pub origin: Origin,
    /// What would give it an effect.
    pub needs: &'static str,
}

impl Loaded {
    /// The settings that have no effect, sorted by path.
    pub fn without_effect(&self) -> Vec<SettingWithoutEffect> {
        let settings = &self.settings;
        let asks_models = settings.planner.order.iter().any(|planner| planner == "llm" || planner == "tools");
        let parts = [
            ("api.mcp.", settings.api.mcp.access == McpAccess::Off, "`api.mcp.access` above `off`"),
            ("api.oidc.", !settings.api.oidc.is_on(), "`api.oidc.issuer`"),
            ("api.tls.", !settings.api.tls.is_on(), "`api.tls.cert_file` and `api.tls.key_file`"),
            ("archive.", settings.archive.store == ArchiveKind::None, "`archive.store`"),
            ("metrics.", settings.metrics.listen.is_empty(), "`metrics.listen`"),
            ("planner.llm.", !asks_models && settings.models.is_empty(), "`models`, or `llm` in `planner.order`"),
        ];
        // The switch of a part has an effect, whatever its value.
        let switches = [
            "api.mcp.access", "api.oidc.issuer", "api.tls.cert_file", "api.tls.key_file", "archive.store",
            "metrics.listen",
        ];
        let given = self.origins.iter().filter(|(path, _)| !switches.contains(&path.as_str()));
        let found = given.filter_map(|(path, origin)| {
            let (.., needs) = parts.iter().find(|(part, is_off, _)| *is_off && path.starts_with(part))?;
            Some(SettingWithoutEffect { path: path.clone(), origin: origin.clone(), needs })
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ModelSettings, Settings};

    /// The settings without an effect among those that were given.
    fn found(settings: Settings, given: &[&str]) -> Vec<String> {
        let origins = given.iter().map(|path| ((*path).to_owned(), Origin::Flag)).collect();
        Loaded { settings, origins }.without_effect().into_iter().map(|found| found.path).collect()
    }

    #[test]
    fn settings_of_a_part_that_is_off_have_no_effect() {
        let given =
            ["api.mcp.access", "api.mcp.sessions_max", "api.tls.reload_ms", "archive.interval_ms", "archive.store"];
        assert_eq!(found(Settings::default(), &given), ["api.tls.reload_ms", "archive.interval_ms"]);
        let mut settings = Settings::default();
        settings.archive.store = ArchiveKind::Sqlite;
        settings.api.mcp.access = McpAccess::Off;
        assert_eq!(found(settings, &given), ["api.mcp.sessions_max", "api.tls.reload_ms"]);
        let mut settings = Settings::default();
        settings.planner.order = vec!["rules".into()];
        let given = ["planner.llm.rounds_max", "planner.order", "api.oidc.issuer"];
        assert_eq!(found(settings.clone(), &given), ["planner.llm.rounds_max"]);
        settings.models = vec![ModelSettings::default()];
        assert!(found(settings, &given).is_empty(), "models read goals, whatever plans");
    }
}
