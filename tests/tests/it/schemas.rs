//! The JSON Schemas that are checked in are those that the types give.

use std::collections::BTreeSet;
use std::fs;

use goalmill_common::schema::{NAMES, schema};
use serde_json::Value;

use crate::docs::root;

#[test]
fn checked_in_schemas_are_current() {
    for name in NAMES {
        let path = root().join(format!("docs/schemas/{name}.json"));
        let text = fs::read_to_string(&path).unwrap_or_default();
        let kept: Option<Value> = serde_json::from_str(&text).ok();
        let mend = format!("`docs/schemas/{name}.json` is old: goalmill schema {name} > docs/schemas/{name}.json");
        assert!(kept == schema(name), "{mend}");
    }
}

#[test]
fn nothing_but_schemas_is_among_them() {
    let names: BTreeSet<String> = NAMES.iter().map(|name| format!("{name}.json")).collect();
    let dir = fs::read_dir(root().join("docs/schemas")).expect("the schemas are checked in");
    let found: BTreeSet<String> = dir.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(found, names);
}
