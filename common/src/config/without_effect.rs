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
            ("planner.llm.", !asks_models, "`llm` or `tools` in `planner.order`"),
        ];
        // The switch of a part has an effect, whatever its value.
        let switches = ["api.mcp.access", "archive.store", "metrics.listen"];
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
    use crate::config::load;

    #[test]
    fn settings_of_a_part_that_is_off_have_no_effect() {
        let flags = |flags: &[(&'static str, &str)]| -> Vec<String> {
            let given: Vec<_> = flags.iter().map(|(path, value)| (*path, (*value).to_owned())).collect();
            let loaded = load(None, &given).expect("they are valid");
            loaded.without_effect().into_iter().map(|found| found.path).collect()
        };
        for path in [("archive.interval_ms", "50"), ("api.tls.reload_ms", "50"), ("planner.llm.rounds_max", "2")] {
            let others = [("planner.order", "rules"), path];
            let given = if path.0.starts_with("planner") { &others[..] } else { &others[1..] };
            assert_eq!(flags(given), [path.0]);
        }
        assert_eq!(flags(&[("api.mcp.access", "off"), ("api.mcp.sessions_max", "5")]), ["api.mcp.sessions_max"]);
        let on = [("archive.store", "sqlite"), ("archive.path", "a"), ("archive.interval_ms", "50")];
        assert_eq!(flags(&on), Vec::<String>::new());
        assert_eq!(flags(&[("archive.store", "none"), ("metrics.listen", "")]), Vec::<String>::new());
    }
}
