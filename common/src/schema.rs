//! JSON Schemas (draft 2020-12) of public messages and settings, generated from the types.

use schemars::schema_for;
use serde_json::Value;

/// Names that [`schema`] knows.
pub const NAMES: &[&str] = &["goal", "plan", "task", "report", "agent", "problem", "proposal", "settings"];

/// The schema of one of [`NAMES`].
pub fn schema(name: &str) -> Option<Value> {
    let schema = match name {
        "goal" => schema_for!(crate::goal::Goal),
        "plan" => schema_for!(crate::plan::Plan),
        "task" => schema_for!(crate::task::Task),
        "report" => schema_for!(crate::report::Report),
        "agent" => schema_for!(crate::agent::Agent),
        "problem" => schema_for!(crate::problem::Problem),
        "proposal" => schema_for!(crate::revision::Proposal),
        "settings" => schema_for!(crate::config::Settings),
        _ => return None,
    };
    Some(schema.to_value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_schema() {
        for name in NAMES {
            assert!(schema(name).is_some_and(|s| s.is_object()), "{name}");
        }
        assert_eq!(schema("nonsense"), None);
    }
}
