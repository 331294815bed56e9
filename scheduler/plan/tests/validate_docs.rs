//! The page of codes and the codes in the source are the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_code_has_its_section_and_every_section_its_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut used = BTreeSet::new();
    for folder in [
        "src/document",
        "src/validate",
        "../../common/expression/src",
        "src/schema",
        "src/formats",
        "../engine/src/revise",
    ] {
        for file in fs::read_dir(root.join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
                used.extend(codes(&fs::read_to_string(path).unwrap()));
            }
        }
    }
    let page = fs::read_to_string(root.join("../../docs/errors/README.md")).unwrap();
    let told: BTreeSet<String> = page.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_owned).collect();
    assert!(used.len() > 40, "{used:?}");
    assert_eq!(used, told);
}

/// Quoted words in upper case with an underscore.
fn codes(source: &str) -> Vec<String> {
    let is_code =
        |word: &&str| word.trim_matches('_').contains('_') && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    source.split('"').filter(is_code).map(str::to_owned).collect()
}
