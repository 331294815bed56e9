//! Loads rules: built in, or from a directory of YAML files.

use std::path::Path;

use super::rule::Rule;
use crate::load::{self, LoadError};

/// The rules that are shipped.
const BUILT_IN: [&str; 11] = [
    include_str!("../../../../config/rules/code_change.yaml"),
    include_str!("../../../../config/rules/comparison.yaml"),
    include_str!("../../../../config/rules/content.yaml"),
    include_str!("../../../../config/rules/data_analysis.yaml"),
    include_str!("../../../../config/rules/generic.yaml"),
    include_str!("../../../../config/rules/incident.yaml"),
    include_str!("../../../../config/rules/migration.yaml"),
    include_str!("../../../../config/rules/release.yaml"),
    include_str!("../../../../config/rules/research.yaml"),
    include_str!("../../../../config/rules/task_automation.yaml"),
    include_str!("../../../../config/rules/travel.yaml"),
];

/// The shipped rules.
pub(super) fn built_in() -> Vec<Rule> {
    BUILT_IN.iter().map(|text| Rule::from_yaml(text).expect("the shipped rules are well formed")).collect()
}

/// Every `*.yaml` and `*.yml` file of a directory, in the order of their names.
///
/// A directory without a rule that takes everything gets the shipped generic one.
pub(super) fn from_dir(dir: &Path) -> Result<Vec<Rule>, LoadError> {
    let mut rules = load::from_dir(dir, "rule", Rule::from_yaml, |rule| &rule.id)?;
    if rules.iter().all(|rule| rule.matching.is_some()) {
        rules.extend(built_in().into_iter().filter(|rule| rule.matching.is_none()));
    }
    Ok(rules)
}
