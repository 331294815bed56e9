//! Optional parts of the program: cargo features of the package `goalmill`, and the settings that ask for them.

use serde::{Deserialize, Serialize};

use super::{ArchiveKind, Loaded, McpAccess, Origin, environment};
use crate::word_enum::word_enum;

word_enum! {
    /// An optional part of the program, by the name of its cargo feature.
    Feature {
        /// MCP: the server at `/mcp` and in `goalmill mcp`, the executor, and tools of agents.
        Mcp = "mcp",
        /// Export of traces (OpenTelemetry).
        Otel = "otel",
        /// PostgreSQL: the archive, and the tool `sql`.
        Postgres = "postgres",
    }
}

/// A part of the program is asked for that is not built in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{setting}` needs the feature `{feature}`, which this binary is built without; build with `--features {feature}`"
)]
pub struct FeatureMissing {
    /// The part.
    pub feature: Feature,
    /// The setting, environment variable or command that asks for it.
    pub setting: String,
}

impl Feature {
    /// The error for a setting that asks for this part in a build without it.
    pub fn missing(self, setting: impl Into<String>) -> FeatureMissing {
        FeatureMissing { feature: self, setting: setting.into() }
    }
}

impl Loaded {
    /// The parts that a scheduler with these settings needs and that are not built in, each with the setting that asks
    /// for it. `api.mcp.access` asks for MCP only if it is set: a default asks for nothing.
    ///
    /// - `exports_traces`: what [`exports_traces`] says.
    pub fn missing_features(&self, exports_traces: bool, built_in: &[Feature]) -> Vec<FeatureMissing> {
        let settings = &self.settings;
        let serves_mcp = settings.api.mcp.access != McpAccess::Off && self.origin("api.mcp.access") != Origin::Default;
        let asked = [
            (serves_mcp, Feature::Mcp, "api.mcp.access"),
            (exports_traces, Feature::Otel, OTLP_ENDPOINT),
            (settings.archive.store == ArchiveKind::Postgres, Feature::Postgres, "archive.store"),
        ];
        let missing = asked.into_iter().filter(|(is_asked, feature, _)| *is_asked && !built_in.contains(feature));
        missing.map(|(_, feature, setting)| feature.missing(setting)).collect()
    }
}

/// The variable with the address of the collector.
pub const OTLP_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Whether the environment names a collector of traces and does not switch traces off.
pub fn exports_traces() -> bool {
    let is = |name: &str, word: &str| environment(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
    let has_collector =
        ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", OTLP_ENDPOINT].iter().any(|name| environment(name).is_some());
    has_collector && !is("OTEL_SDK_DISABLED", "true") && !is("OTEL_TRACES_EXPORTER", "none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_that_asks_for_a_missing_part_is_named_with_its_feature() {
        let mut loaded = Loaded::default();
        assert_eq!(loaded.missing_features(false, &[]), [], "defaults ask for nothing");
        loaded.settings.archive.store = ArchiveKind::Postgres;
        loaded.origins = [("api.mcp.access".into(), Origin::Flag)].into();
        let missing = loaded.missing_features(true, &[]);
        let named: Vec<_> = missing.iter().map(|one| (one.setting.as_str(), one.feature.as_str())).collect();
        let expected =
            [("api.mcp.access", "mcp"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "otel"), ("archive.store", "postgres")];
        assert_eq!(named, expected);
        let text = missing[2].to_string();
        assert!(text.contains("`archive.store`") && text.ends_with("build with `--features postgres`"), "{text}");
        assert_eq!(loaded.missing_features(true, &[Feature::Mcp]), missing[1..]);
        assert_eq!(loaded.missing_features(true, Feature::ALL), []);
        loaded.settings.api.mcp.access = McpAccess::Off;
        assert!(loaded.missing_features(true, &[]).iter().all(|one| one.feature != Feature::Mcp));
    }
}
