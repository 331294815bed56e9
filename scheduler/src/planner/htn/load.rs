//! Where domains come from: built in, or a directory of YAML files.

use std::path::{Path, PathBuf};

use super::domain::GoalDomain;

/// The domains that are shipped.
const BUILT_IN: [&str; 2] = [
    include_str!("../../../../config/domains/itinerary.yaml"),
    include_str!("../../../../config/domains/release.yaml"),
];

/// Why domains cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("`{}` cannot be read: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("`{}`: {reason}", path.display())]
    Invalid { path: PathBuf, reason: String },
    #[error("`{}` holds no `*.yaml` files", path.display())]
    Empty { path: PathBuf },
}

/// The shipped domains.
pub(super) fn built_in() -> Vec<GoalDomain> {
    BUILT_IN.iter().map(|text| GoalDomain::from_yaml(text).expect("the shipped domains are well formed")).collect()
}

/// Every `*.yaml` and `*.yml` file of a directory, in the order of their names.
pub(super) fn from_dir(dir: &Path) -> Result<Vec<GoalDomain>, LoadError> {
    let unreadable =
        |path: &Path, e: &std::io::Error| LoadError::Unreadable { path: path.into(), reason: e.to_string() };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|e| unreadable(dir, &e))? {
        let path = entry.map_err(|e| unreadable(dir, &e))?.path();
        if path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml") {
            files.push(path);
        }
    }
    files.sort();
    let mut domains: Vec<GoalDomain> = Vec::new();
    for path in &files {
        let text = std::fs::read_to_string(path).map_err(|e| unreadable(path, &e))?;
        let invalid = |reason| LoadError::Invalid { path: path.clone(), reason };
        let domain = GoalDomain::from_yaml(&text).map_err(invalid)?;
        if domains.iter().any(|other| other.id == domain.id) {
            return Err(invalid(format!("id: there is another domain `{}`", domain.id)));
        }
        domains.push(domain);
    }
    if domains.is_empty() {
        return Err(LoadError::Empty { path: dir.into() });
    }
    Ok(domains)
}
