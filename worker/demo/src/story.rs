//! The story of `goalmill dev --demo story`: what the scripted model answers.

/// The answers, as YAML.
pub const SCRIPT: &str = include_str!("../../../config/stories/paris.yaml");
/// Path of the script in the repository.
pub const SCRIPT_NAME: &str = "config/stories/paris.yaml";
