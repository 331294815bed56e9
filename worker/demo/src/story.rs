//! The script of `goalmill dev --demo story`.

/// The answers, as YAML.
pub const SCRIPT: &str = include_str!("../../../config/stories/paris.yaml");
/// Path of the script in the repository.
pub const SCRIPT_NAME: &str = "config/stories/paris.yaml";
