//! Laws that the engine does not keep yet: each with a case that shows it.

use serde_json::{Value, json};

use crate::case::Case;
use crate::law::Law;

/// A law that the engine does not keep yet.
pub struct Known {
    pub law: Law,
    /// Why the engine does otherwise.
    pub reason: &'static str,
    pub case: Case,
}

/// All of them. A case that shows its fault no longer fails the test, so that the list only shrinks.
pub fn known() -> Vec<Known> {
    Vec::new()
}

#[expect(dead_code, reason = "used by the entries")]
fn entry(law: Law, reason: &'static str, document: Value, script: Value) -> Known {
    let case = json!({"document": document, "script": script});
    Known { law, reason, case: serde_json::from_value(case).expect("an entry is a case") }
}
