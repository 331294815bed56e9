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
    [ends(), order(), inside()].into_iter().flatten().collect()
}

/// 4.2: ways to end.
fn ends() -> Vec<Known> {
    vec![entry(
        Law::InsideFirst,
        "the clean-up of a plan begins beside that of a plan inside it",
        json!({
            "always": [{"id": "s3", "agent_type": "w", "action": "l3", "retry": {"max": 0}}],
            "steps": [
                {"id": "s1", "plan": {"steps": [
                    {"id": "s2", "agent_type": "w", "action": "a2", "retry": {"max": 0}, "undo": {"action": "u2", "retry": {"max": 0}}},
                ]}},
            ],
        }),
        json!({"acts": {"a2": [{"after_ms": 9_000, "does": {"answer": {}}}]}, "cancel_ms": 4_000}),
    )]
}

/// 4.4: what is undone.
fn order() -> Vec<Known> {
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

/// 1.1, 6.2, 8.3: items and plans inside.
fn inside() -> Vec<Known> {
    vec![
        entry(
            Law::InnerFailureIsPartial,
            "an item that failed under `on_item_failure: continue` leaves the plan completed",
            json!({"steps": [
                {"id": "s1", "agent_type": "w", "action": "a1", "retry": {"max": 0}, "for_each": [1], "on_item_failure": "continue"},
            ]}),
            json!({"acts": {"a1": [{"after_ms": 5_000, "does": "refuse"}]}}),
        ),
        entry(
            Law::PlacesInside,
            "items of a map are in flight beyond the `max_parallel` of the plan",
            json!({"max_parallel": 1, "steps": [{"id": "s1", "agent_type": "w", "action": "a1", "retry": {"max": 0}, "for_each": [1, 2]}]}),
            json!({}),
        ),
        entry(
            Law::GuardOfItem,
            "the inputs of an item are rendered before its condition",
            json!({"steps": [
                {"id": "s1", "agent_type": "w", "action": "a1", "retry": {"max": 0}, "for_each": [{"v": 1}, {}], "when": "item.v is defined",
                 "inputs": {"x": "{{ item.v }}"}},
            ]}),
            json!({}),
        ),
    ]
}

fn entry(law: Law, reason: &'static str, document: Value, script: Value) -> Known {
    let case = json!({"document": document, "script": script});
    Known { law, reason, case: serde_json::from_value(case).expect("an entry is a case") }
}
