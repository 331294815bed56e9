//! Where rules come from: built in, or a directory of YAML files.

use std::path::{Path, PathBuf};

use super::rule::Rule;

/// The rules that are shipped, by file name.
const BUILT_IN: [(&str, &str); 4] = [
    ("data_analysis.yaml", include_str!("../../../../config/rules/data_analysis.yaml")),
    ("generic.yaml", include_str!("../../../../config/rules/generic.yaml")),
    ("research.yaml", include_str!("../../../../config/rules/research.yaml")),
    ("travel.yaml", include_str!("../../../../config/rules/travel.yaml")),
];

/// Why rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("`{}` cannot be read: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("`{}`: {reason}", path.display())]
    Invalid { path: PathBuf, reason: String },
    #[error("`{}` holds no `*.yaml` files", path.display())]
    Empty { path: PathBuf },
}

/// The shipped rules.
pub(super) fn built_in() -> Vec<Rule> {
    BUILT_IN.iter().map(|(_, text)| Rule::from_yaml(text).expect("the shipped rules are well formed")).collect()
}

/// Every `*.yaml` and `*.yml` file of a directory, in the order of their names.
///
/// A directory without a rule that takes everything gets the shipped generic one.
pub(super) fn from_dir(dir: &Path) -> Result<Vec<Rule>, LoadError> {
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
    let mut rules: Vec<Rule> = Vec::new();
    for path in &files {
        let text = std::fs::read_to_string(path).map_err(|e| unreadable(path, &e))?;
        let invalid = |reason| LoadError::Invalid { path: path.clone(), reason };
        let rule = Rule::from_yaml(&text).map_err(invalid)?;
        if rules.iter().any(|other| other.id == rule.id) {
            return Err(invalid(format!("id: there is another rule `{}`", rule.id)));
        }
        rules.push(rule);
    }
    if rules.is_empty() {
        return Err(LoadError::Empty { path: dir.into() });
    }
    if rules.iter().all(|rule| rule.matching.is_some()) {
        rules.extend(built_in().into_iter().filter(|rule| rule.matching.is_none()));
    }
    Ok(rules)
}
