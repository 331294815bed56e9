//! Loads rules and domains from a directory of YAML files.

use std::path::{Path, PathBuf};

/// Why rules or domains cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("`{}` cannot be read: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("`{}`: {reason}", path.display())]
    Invalid { path: PathBuf, reason: String },
    #[error("`{}` holds no `*.yaml` files", path.display())]
    Empty { path: PathBuf },
}

/// Every `*.yaml` and `*.yml` file of a directory, in the order of their names.
///
/// - `noun`: what a file holds, for errors.
/// - `id`: the name by which two of them must differ.
pub(super) fn from_dir<T>(
    dir: &Path,
    noun: &str,
    read: impl Fn(&str) -> Result<T, String>,
    id: impl Fn(&T) -> &str,
) -> Result<Vec<T>, LoadError> {
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
    let mut found: Vec<T> = Vec::new();
    for path in &files {
        let text = std::fs::read_to_string(path).map_err(|e| unreadable(path, &e))?;
        let invalid = |reason| LoadError::Invalid { path: path.clone(), reason };
        let one = read(&text).map_err(invalid)?;
        if found.iter().any(|other| id(other) == id(&one)) {
            return Err(invalid(format!("id: there is another {noun} `{}`", id(&one))));
        }
        found.push(one);
    }
    if found.is_empty() {
        return Err(LoadError::Empty { path: dir.into() });
    }
    Ok(found)
}
