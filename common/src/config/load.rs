//! Reads settings from their layers and remembers where each value came from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::{Config, Environment, File, FileFormat};
use serde::Serialize;
use serde_json::Value;

use super::Settings;
use super::secret::hide_secrets;

/// The prefix of every variable: `GOALMILL__REDIS__URL` sets `redis.url`.
const PREFIX: &str = "GOALMILL";

/// One flag's value: the setting's path and the text given.
pub type Override = (&'static str, String);

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Built in.
    Default,
    /// The settings file at this path.
    File(PathBuf),
    /// The environment variable of this name.
    Environment(String),
    /// The command line.
    Flag,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// Settings, and the origin of each that is not a default.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The settings, checked.
    pub settings: Settings,
    /// Path of the setting (`redis.url`) → where it came from.
    pub origins: BTreeMap<String, Origin>,
}

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file is missing or no TOML, or a value is not of its type.
    #[error("the settings cannot be read: {0}")]
    Read(#[from] config::ConfigError),
    /// Values that do not go together; a line for each.
    #[error("the settings contradict each other: {}", .0.join("; "))]
    Contradiction(Vec<String>),
}

impl Loaded {
    /// Where the setting at a path such as `redis.url` came from.
    pub fn origin(&self, path: &str) -> Origin {
        self.origins.get(path).cloned().unwrap_or(Origin::Default)
    }

    /// Every setting as `path`, value and origin, sorted by path; secrets are hidden ([`hide_secrets`]).
    pub fn table(&self) -> Vec<(String, String, Origin)> {
        let mut tree = serde_json::to_value(&self.settings).expect("settings always have a JSON form");
        hide_secrets(&mut tree);
        let mut rows = Vec::new();
        flatten("", &tree, &mut rows);
        rows.into_iter()
            .map(|(path, value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let origin = self.origin(&path);
                (path, text, origin)
            })
            .collect()
    }
}

fn flatten(prefix: &str, value: &Value, rows: &mut Vec<(String, Value)>) {
    let Some(map) = value.as_object().filter(|map| !map.is_empty()) else {
        rows.push((prefix.into(), value.clone()));
        return;
    };
    for (key, value) in map {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        flatten(&path, value, rows);
    }
}

/// Reads a variable of the environment; empty counts as not set.
#[expect(clippy::disallowed_methods, reason = "this module is the one place that reads the environment")]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Loads the layers: defaults, then `file`, then the environment, then `flags`.
pub fn load(file: Option<&Path>, flags: &[Override]) -> Result<Loaded, SettingsError> {
    let defaults = serde_json::to_string(&Settings::default()).expect("settings always have a JSON form");
    let mut origins = BTreeMap::new();
    let mut builder = Config::builder().add_source(File::from_str(&defaults, FileFormat::Yaml));
    if let Some(path) = file {
        let layer = File::from(path).required(true);
        note(&Config::builder().add_source(layer.clone()).build()?, |_| Origin::File(path.into()), &mut origins)?;
        builder = builder.add_source(layer);
    }
    let layer = Environment::with_prefix(PREFIX).prefix_separator("__").separator("__").try_parsing(true);
    let variable = |path: &str| Origin::Environment(format!("{PREFIX}__{}", path.replace('.', "__").to_uppercase()));
    note(&Config::builder().add_source(layer.clone()).build()?, variable, &mut origins)?;
    builder = builder.add_source(layer);
    for (path, value) in flags {
        builder = builder.set_override(*path, value.clone())?;
        origins.insert((*path).into(), Origin::Flag);
    }
    let settings: Settings = builder.build()?.try_deserialize()?;
    let violations = settings.violations();
    if !violations.is_empty() {
        return Err(SettingsError::Contradiction(violations));
    }
    Ok(Loaded { settings, origins })
}

fn note(
    layer: &Config,
    origin: impl Fn(&str) -> Origin,
    origins: &mut BTreeMap<String, Origin>,
) -> Result<(), SettingsError> {
    let tree: Value = layer.clone().try_deserialize()?;
    let mut rows = Vec::new();
    flatten("", &tree, &mut rows);
    origins.extend(rows.into_iter().filter(|(path, _)| !path.is_empty()).map(|(path, _)| {
        let from = origin(&path);
        (path, from)
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_layers_win_and_are_remembered() {
        let dir = std::env::temp_dir().join(format!("goalmill-settings-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory can be made");
        let file = dir.join("goalmill.toml");
        std::fs::write(&file, "[worker]\nslots = 3\ndrain_ms = 7\n").expect("a temporary file can be written");
        let loaded = load(Some(&file), &[("worker.slots", "9".into())]).expect("the layers are valid");
        assert_eq!(loaded.settings.worker.slots, 9);
        assert_eq!(loaded.settings.worker.drain_ms, 7);
        assert_eq!(loaded.origin("worker.slots"), Origin::Flag);
        assert_eq!(loaded.origin("worker.drain_ms"), Origin::File(file));
        assert_eq!(loaded.origin("redis.url"), Origin::Default);
    }

    #[test]
    fn contradictions_are_named() {
        let refused = load(None, &[("scheduler.heartbeat_ms", "9000".into())]).expect_err("it contradicts the lease");
        assert!(refused.to_string().contains("scheduler.heartbeat_ms * 3 <= scheduler.shard_lease_ms"), "{refused}");
    }

    #[test]
    fn models_are_a_list_in_the_file() {
        let dir = std::env::temp_dir().join(format!("goalmill-models-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory can be made");
        let file = dir.join("goalmill.toml");
        let text = "[[models]]\nname = \"small\"\nbase_url = \"http://127.0.0.1:1/v1\"\ntags = [\"cheap\"]\n\
                    input_usd_per_million = 1\n[[models]]\nname = \"large\"\nbase_url = \"https://models.test/v1\"\n\
                    dialect = \"anthropic\"\n";
        std::fs::write(&file, text).expect("a temporary file can be written");
        let models = load(Some(&file), &[]).expect("the file is valid").settings.models;
        assert_eq!(models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>(), ["small", "large"]);
        assert_eq!((models[0].input_usd_per_million, models[1].retries), (1.0, 2));
    }
}
