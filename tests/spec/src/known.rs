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

/// All of them. A case that shows its fault no longer fails the test, so that the list only shrinks.
pub fn known() -> Vec<Known> {
    [ends(), unknown_outcomes(), order(), inside()].into_iter().flatten().collect()
}

/// 4.1 and 4.2: ways to end.
fn ends() -> Vec<Known> {
    vec![
        entry(
            Law::BudgetThroughCleanup,
            "a used-up budget cancels the clean-up that it began",
            json!({
                "budget": {"tokens": 4},
                "steps": [
                    {"id": "s1", "agent_type": "w", "action": "a1", "retry": {"max": 0}, "undo": {"action": "u1", "retry": {"max": 0}}},
                    {"id": "s2", "agent_type": "w", "action": "a2", "retry": {"max": 0}, "depends_on": ["s1"]},
                ],
            }),
            json!({"acts": {"a1": [{"after_ms": 2_000, "does": {"answer": {}}, "tokens": 6}]}}),
        ),
        entry(
            Law::FailuresThroughCleanup,
            "too many failures cancel the clean-up that they began",
            json!({
                "failures_max": 0,
                "steps": [
                    {"id": "s1", "agent_type": "w", "action": "a1", "retry": {"max": 0}, "undo": {"action": "u1", "retry": {"max": 0}}},
                    {"id": "s2", "agent_type": "w", "action": "a2", "retry": {"max": 0}, "depends_on": ["s1"], "on_failure": "continue"},
                ],
            }),
            json!({"acts": {"a2": [{"after_ms": 3_000, "does": "refuse"}]}}),
        ),
        entry(
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
        ),
    ]
}

/// 4.3: what counts as done.
fn unknown_outcomes() -> Vec<Known> {
    vec![
        entry(
            Law::UnknownThenAnswered,
            "only the last failure says whether a step may be done",
            json!({"steps": [
                {"id": "s1", "agent_type": "w", "action": "a1", "retry": {"max": 0}, "undo": {"action": "u1", "retry": {"max": 0}}},
            ]}),
            json!({"acts": {"a1": [{"after_ms": 2_000, "does": "lost"}, {"after_ms": 3_000, "does": "refuse"}]}}),
        ),
        entry(
            Law::CutConnection,
            "a step whose last attempt ended with a 5xx counts as not done",
            json!({"steps": [
                {"id": "s1", "agent_type": "w", "action": "a1", "retry": {"max": 0}, "undo": {"action": "u1", "retry": {"max": 0}}},
            ]}),
            json!({"acts": {"a1": [{"after_ms": 2_000, "does": "cut"}]}}),
        ),
        entry(
            Law::RefusedAnswer,
            "a step whose answer was refused counts as not done",
            json!({"steps": [
                {"id": "s1", "agent_type": "w", "action": "a1", "retry": {"max": 0}, "expected_outputs": ["n"],
                 "undo": {"action": "u1", "retry": {"max": 0}}},
            ]}),
            json!({"acts": {"a1": [{"after_ms": 2_000, "does": {"answer": {}}}]}}),
        ),
        entry(
            Law::SkippedAfterUnknown,
            "a step that was skipped after a time-out counts as not done",
            json!({"steps": [
                {"id": "s1", "agent_type": "w", "action": "a1", "retry": {"max": 0}, "timeout": "2s", "on_failure": "skip",
                 "undo": {"action": "u1", "retry": {"max": 0}}},
                {"id": "s2", "agent_type": "w", "action": "a2", "retry": {"max": 0}, "depends_on": ["s1"]},
            ]}),
            json!({"acts": {"a1": [{"after_ms": 0, "does": "silent"}], "a2": [{"after_ms": 1_000, "does": "refuse"}]}}),
        ),
        entry(
            Law::UnknownItem,
            "an item without outputs is not undone after its map has completed",
            json!({"steps": [
                {"id": "s1", "agent_type": "w", "action": "a1", "retry": {"max": 0}, "for_each": [1], "timeout": "2s",
                 "on_item_failure": "continue", "undo": {"action": "u1", "retry": {"max": 0}}},
                {"id": "s2", "agent_type": "w", "action": "a2", "retry": {"max": 0}, "depends_on": ["s1"]},
            ]}),
            json!({"acts": {"a1": [{"after_ms": 0, "does": "silent"}], "a2": [{"after_ms": 1_000, "does": "refuse"}]}}),
        ),
        entry(
            Law::AnsweredThenCancelled,
            "a step is undone that was cancelled between two attempts, although its agent had said that it did nothing",
            json!({"steps": [
                {"id": "s1", "agent_type": "w", "action": "a1", "retry": {"max": 1, "initial": "9s", "jitter": "none"},
                 "undo": {"action": "u1", "retry": {"max": 0}}},
            ]}),
            json!({"acts": {"a1": [{"after_ms": 2_000, "does": "busy"}]}, "cancel_ms": 5_000}),
        ),
    ]
}

/// 4.4: the order of undo steps.
fn order() -> Vec<Known> {
    vec![
        entry(
            Law::LoopPerIteration,
            "only the last iteration of a loop is undone, and only if the loop completed",
            json!({"steps": [
                {"id": "s1", "agent_type": "w", "action": "a1", "retry": {"max": 0}, "repeat": {"until": "false", "max": 2},
                 "undo": {"action": "u1", "retry": {"max": 0}}},
            ]}),
            json!({}),
        ),
        entry(
            Law::OneMillisecond,
            "steps that were sent in one millisecond are undone in the order of the list",
            json!({"steps": [
                {"id": "s1", "agent_type": "w", "action": "a1", "retry": {"max": 0}, "priority": 1, "undo": {"action": "u1", "retry": {"max": 0}}},
                {"id": "s2", "agent_type": "w", "action": "a2", "retry": {"max": 0}, "priority": 9, "undo": {"action": "u2", "retry": {"max": 0}}},
            ]}),
            json!({"acts": {"a1": [{"after_ms": 2_000, "does": {"answer": {}}}], "a2": [{"after_ms": 3_000, "does": "refuse"}]}, "cancel_ms": 1_000}),
        ),
        entry(
            Law::FirstAttempt,
            "the last attempt of a step gives its place in the order of undo steps",
            json!({"steps": [
                {"id": "s1", "agent_type": "w", "action": "a1", "retry": {"max": 0}, "undo": {"action": "u1", "retry": {"max": 0}}},
                {"id": "s2", "kind": "wait", "wait": {"for": "1s"}},
                {"id": "s3", "agent_type": "w", "action": "a3", "retry": {"max": 0}, "depends_on": ["s2"],
                 "undo": {"action": "u3", "retry": {"max": 0}}},
            ]}),
            json!({
                "acts": {
                    "a1": [{"after_ms": 2_000, "does": "lost"}, {"after_ms": 7_000, "does": {"answer": {}}}],
                    "a3": [{"after_ms": 3_000, "does": {"answer": {}}}],
                },
                "cancel_ms": 6_000,
            }),
        ),
        entry(
            Law::CompletedInside,
            "a plan inside that has completed is not undone",
            json!({"steps": [
                {"id": "s1", "plan": {"steps": [
                    {"id": "s2", "agent_type": "w", "action": "a2", "retry": {"max": 0}, "undo": {"action": "u2", "retry": {"max": 0}}},
                ]}},
                {"id": "s3", "agent_type": "w", "action": "a3", "retry": {"max": 0}, "depends_on": ["s1"]},
            ]}),
            json!({"acts": {"a3": [{"after_ms": 1_000, "does": "refuse"}]}}),
        ),
    ]
}

/// 1.1, 5.1, 6.2, 8.3: items, iterations and plans inside.
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
            Law::OneEventOneWait,
            "one event completes every iteration of a loop",
            json!({"steps": [
                {"id": "s1", "kind": "wait", "wait": {"for": "3s"}},
                {"id": "s2", "plan": {"steps": [{"id": "s3", "kind": "wait", "wait": {"event": "paid", "timeout": "20s"}}]},
                 "repeat": {"until": "false", "max": 2, "on_max": "continue"}, "depends_on": ["s1"]},
            ]}),
            json!({"events": [{"at_ms": 1_000, "name": "paid", "key": "", "data": {"n": 1}}]}),
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
