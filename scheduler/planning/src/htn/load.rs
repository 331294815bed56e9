//! Loads domains: built in, or from a directory of YAML files.

use std::path::Path;

use super::domain::GoalDomain;
use crate::load::{self, LoadError};

/// The domains that are shipped.
const BUILT_IN: [&str; 2] = [
    include_str!("../../../../config/domains/itinerary.yaml"),
    include_str!("../../../../config/domains/release.yaml"),
];

/// The shipped domains.
pub(super) fn built_in() -> Vec<GoalDomain> {
    BUILT_IN.iter().map(|text| GoalDomain::from_yaml(text).expect("the shipped domains are well formed")).collect()
}

/// Every `*.yaml` and `*.yml` file of a directory, in the order of their names.
pub(super) fn from_dir(dir: &Path) -> Result<Vec<GoalDomain>, LoadError> {
    load::from_dir(dir, "domain", GoalDomain::from_yaml, |domain| &domain.id)
}
