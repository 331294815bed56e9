//! Laws that the engine does not keep yet: each with a small case that shows it.

use serde_json::{Value, json};

use crate::case::Case;
use crate::law::Law;

/// A law that the engine does not keep yet.
pub struct Known {
    pub law: Law,
    /// What the engine does instead.
    pub reason: &'static str,
    pub case: Case,
}

/// All of them. A case that no longer shows its fault fails the test, so that the list only shrinks.
pub fn known() -> Vec<Known> {
    vec![entry(
        Law::CompletedInside,
        "a plan inside that has completed is not undone",
        json!({"steps": [
            {"id": "s1", "plan": {"steps": [
                {"id": "s2", "agent_type": "w", "action": "a2", "retry": {"max": 0}, "undo": {"action": "u2", "retry": {"max": 0}}},
            ]}},
            {"id": "s3", "agent_type": "w", "action": "a3", "retry": {"max": 0}, "depends_on": ["s1"]},
        ]}),
        json!({"acts": {"a3": [{"after_ms": 1_000, "does": "refuse"}]}}),
    )]
}

fn entry(law: Law, reason: &'static str, document: Value, script: Value) -> Known {
    let case = json!({"document": document, "script": script});
    Known { law, reason, case: serde_json::from_value(case).expect("an entry is a case") }
}
