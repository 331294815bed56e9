//! Holds the arrows between packages, and what each may name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Package directory, the packages of ours it may use, the crates it must not.
const RULES: &[(&str, &[&str], &[&str])] = &[
    ("common", &[], &["tokio", "redis", "deadpool", "axum", "reqwest"]),
    ("common/broker", &["common"], &["axum", "reqwest"]),
    ("scheduler/engine", &["common"], &["tokio", "redis", "deadpool", "axum", "reqwest"]),
    ("scheduler/reader", &[], &["tokio", "redis", "deadpool", "axum", "reqwest"]),
    ("scheduler/htn", &[], &["tokio", "redis", "deadpool", "axum", "reqwest"]),
    ("scheduler", &["common", "broker", "engine", "htn", "reader"], &["redis", "deadpool"]),
    ("worker", &["common", "broker"], &["redis", "deadpool"]),
    ("cli", &["common", "broker", "engine", "scheduler", "worker"], &["redis", "deadpool", "axum"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests package stands in the workspace").to_owned()
}

/// The names under `[dependencies]`.
fn dependencies(package: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join(package).join("Cargo.toml")).expect("every package has a manifest");
    let section = manifest.split("[dependencies]").nth(1).expect("every package has dependencies");
    section
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty())
        .map(Into::into)
        .collect()
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the directory can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn packages_use_only_what_stands_below_them() {
    for (package, ours, never) in RULES {
        for dependency in dependencies(package) {
            if let Some(name) = dependency.strip_prefix("goalmill-") {
                assert!(ours.contains(&name), "`{package}` must not use `{dependency}`");
            }
            assert!(!never.contains(&dependency.as_str()), "`{package}` must not use `{dependency}`");
        }
    }
}

#[test]
fn only_keys_spells_a_redis_key() {
    for (package, _, _) in RULES {
        let mut files = Vec::new();
        sources(&root().join(package).join("src"), &mut files);
        for file in files.into_iter().filter(|f| !f.ends_with("common/src/keys.rs")) {
            let text = fs::read_to_string(&file).expect("a source file can be read");
            for (n, line) in text.lines().enumerate() {
                let code = line.trim_start();
                let comment = code.starts_with("//");
                assert!(comment || !code.contains("\"goalmill:"), "{}:{} spells a key", file.display(), n + 1);
            }
        }
    }
}
