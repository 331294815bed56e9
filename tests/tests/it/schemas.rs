//! The JSON Schemas that are checked in are those that the types give.

use std::collections::BTreeSet;
use std::fs;

use goalmill_common::card::read_card;
use goalmill_common::goal::Goal;
use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Problem;
use goalmill_common::report::Report;
use goalmill_common::schema::{NAMES, schema};
use goalmill_common::task::Task;
use goalmill_plan::validate;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::docs::{read, root};

/// What others write or read: there are messages of each that are valid, and some that are not.
const WITH_VECTORS: &[&str] = &["goal", "plan", "task", "report", "agent", "problem"];

#[test]
fn checked_in_schemas_are_current() {
    for name in NAMES {
        let path = root().join(format!("docs/schemas/{name}.json"));
        let text = fs::read_to_string(&path).unwrap_or_default();
        let kept: Option<Value> = serde_json::from_str(&text).ok();
        let hint = format!("`docs/schemas/{name}.json` is old: goalmill schema {name} > docs/schemas/{name}.json");
        assert!(kept == schema(name), "{hint}");
    }
    let kept: Value = serde_json::from_str(&read("docs/schemas/test.json")).expect("it is JSON");
    assert!(kept == goalmill_testkit::test_schema(), "goalmill schema test > docs/schemas/test.json");
}

/// A message, and what becomes of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    name: String,
    value: Value,
    /// Of an invalid one, where it is wrong, as a JSON Pointer.
    at: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    valid: Vec<Vector>,
    invalid: Vec<Vector>,
}

#[test]
fn vectors_are_what_the_schemas_and_the_program_say() {
    for name in WITH_VECTORS {
        let text = read(format!("docs/schemas/vectors/{name}.json"));
        let vectors: Vectors = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let schema = schema(name).expect("it has a schema");
        let schema = jsonschema::validator_for(&schema).expect("it is a schema");
        assert!(!vectors.valid.is_empty() && !vectors.invalid.is_empty(), "{name}");
        for vector in vectors.valid {
            let wrong: Vec<String> = schema.iter_errors(&vector.value).map(|error| error.to_string()).collect();
            assert_eq!(wrong, Vec::<String>::new(), "{name}: {}", vector.name);
            assert!(is_read(name, &vector.value), "{name}: {} is not read", vector.name);
        }
        for vector in vectors.invalid {
            let places = schema.iter_errors(&vector.value).map(|error| error.instance_path().to_string());
            let places: Vec<String> = places.collect();
            assert_eq!(places, vector.at.into_iter().collect::<Vec<_>>(), "{name}: {}", vector.name);
            assert!(!is_read(name, &vector.value), "{name}: {} is read", vector.name);
        }
    }
}

/// Whether the program's own reader takes a message.
fn is_read(name: &str, value: &Value) -> bool {
    fn reads<T: DeserializeOwned>(value: &Value) -> bool {
        serde_json::from_str::<T>(&value.to_string()).is_ok()
    }
    match name {
        "goal" => reads::<Goal>(value),
        "plan" => reads::<Plan>(value) && validate::validate_plan(value, &Limits::default()).is_ok(),
        "task" => reads::<Task>(value),
        "report" => reads::<Report>(value),
        "agent" => read_card(value.to_string().as_bytes()).is_ok(),
        "problem" => reads::<Problem>(value),
        other => panic!("nobody reads `{other}`"),
    }
}

#[test]
fn nothing_but_schemas_and_their_vectors_is_among_them() {
    let of = |dir: &str| -> BTreeSet<String> {
        let dir = fs::read_dir(root().join(dir)).expect("the schemas are checked in");
        let files = dir.flatten().filter(|entry| entry.path().is_file());
        files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let named = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| format!("{name}.json")).collect() };
    // Files of tests are read by `goalmill test` alone: their schema is that of another package.
    let all: Vec<&str> = NAMES.iter().copied().chain(["test"]).collect();
    assert_eq!(of("docs/schemas"), named(&all));
    assert_eq!(of("docs/schemas/vectors"), named(WITH_VECTORS));
}
