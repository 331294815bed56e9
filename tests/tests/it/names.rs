//! Names are the field's terms: no word of the former dialect comes back, and a new type has a name of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::layering::{RULES, product_code, root, sources};

/// Words that stood for a standard term, and the term.
const DIALECT: &[(&str, &str)] = &[
    ("anew", "again"),
    ("circles", "loop"),
    ("dearest", "worst case"),
    ("janitor", "reaper"),
    ("ladder", "fallback modes"),
    ("lately", "recently finished"),
    ("mend", "repair"),
    ("mended", "repaired"),
    ("patiently", "with retry"),
    ("pulse", "health monitor"),
    ("purse", "budget"),
    ("rung", "response mode"),
    ("whoever", "the one that"),
];

/// Type names that stand in more than one place. Remove a name when one of its types is renamed; never add one.
const SHARED_NAMES: &[&str] = &[
    "Command", "Demo", "Document", "Edit", "Event", "Fact", "Field", "Fields", "Format", "Graph", "Item", "Model",
    "Node", "Result", "Run", "Scan", "Scope", "Source", "Step", "StepRef", "Stream", "Table", "TaskHead", "Variables",
    "View",
];

/// Verbs that are no name of a function: without their object they cannot be found.
const BARE_VERBS: &[&str] = &["give", "make", "of", "read", "say", "take", "tell", "told"];

/// The product sources, by their path in the repository.
fn product_sources() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for (package, _, _) in RULES {
        sources(&root().join(package).join("src"), &mut files);
    }
    let relative = |file: &Path| file.strip_prefix(root()).expect("it lies in the repository").to_owned();
    files.iter().map(|file| (relative(file), fs::read_to_string(file).expect("a source can be read"))).collect()
}

/// The words of a text in lower case; `SpendBudget` and `spend_budget` are two each.
fn words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for part in text.split(|c: char| !c.is_ascii_alphabetic()) {
        let mut word = String::new();
        for c in part.chars() {
            if c.is_ascii_uppercase() && !word.ends_with(|last: char| last.is_ascii_uppercase()) {
                words.insert(std::mem::take(&mut word).to_lowercase());
            }
            word.push(c);
        }
        words.insert(word.to_lowercase());
    }
    words
}

/// The name of the type that a line at the margin declares.
fn declared_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ").unwrap_or(line);
    let rest = rest.strip_prefix("pub(").and_then(|rest| rest.split_once(") ")).map_or(rest, |(_, rest)| rest);
    let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|keyword| rest.strip_prefix(keyword))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[test]
fn no_word_of_the_former_dialect_is_used() {
    let mut found = Vec::new();
    for (path, text) in product_sources() {
        let used = words(&format!("{} {text}", path.display()));
        for (word, term) in DIALECT.iter().filter(|(word, _)| used.contains(*word)) {
            found.push(format!("{}: `{word}`, say {term}", path.display()));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_new_type_has_a_name_of_its_own() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // What stands in for a module has its names.
    let is_stand_in = |path: &Path| path.to_string_lossy().ends_with("_disabled.rs");
    for (path, text) in product_sources().into_iter().filter(|(path, _)| !is_stand_in(path)) {
        for name in product_code(&text).lines().filter_map(declared_type) {
            places.entry(name.to_owned()).or_default().push(path.display().to_string());
        }
    }
    let shared: BTreeMap<&String, &Vec<String>> = places.iter().filter(|(_, paths)| paths.len() > 1).collect();
    let added: Vec<_> = shared.iter().filter(|(name, _)| !SHARED_NAMES.contains(&name.as_str())).collect();
    assert!(added.is_empty(), "these names are taken: {added:#?}");
    let gone: Vec<_> = SHARED_NAMES.iter().filter(|name| !shared.keys().any(|shared| shared == *name)).collect();
    assert!(gone.is_empty(), "these names are unique; remove them from the list: {gone:?}");
}

#[test]
fn no_function_is_a_verb_without_its_object() {
    let mut found = Vec::new();
    let is_test = |path: &Path| path.to_string_lossy().contains("tests");
    for (path, text) in product_sources().into_iter().filter(|(path, _)| !is_test(path)) {
        let code = product_code(&text);
        for verb in BARE_VERBS {
            if [format!("fn {verb}("), format!("fn {verb}<")].iter().any(|start| code.contains(start)) {
                found.push(format!("{}: `{verb}`", path.display()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn words_and_declarations_are_found() {
    let expected = ["a", "budget", "of", "spend", "x"].map(str::to_owned);
    assert!(expected.iter().all(|word| words("SpendBudget of a_x").contains(word)));
    assert_eq!(declared_type("pub(crate) struct Purse<'a> {"), Some("Purse"));
    assert_eq!(declared_type("enum Rung {"), Some("Rung"));
    assert_eq!(declared_type("    struct Inner;"), None);
}
