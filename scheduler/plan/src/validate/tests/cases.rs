//! Documents with one issue each, and what its hint asks for.

use serde_json::{Map, Value, json};

use super::HintChange::{Remove, Rename, Set, Write};
use super::{HintCase, goal, plan, step, steps};

/// Names, kinds of values, ranges.
pub(super) fn fields() -> Vec<HintCase> {
    let mut cases = vec![
        step("UNKNOWN_FIELD", json!({"agnt_type": "echo"}), &[Rename("/steps/0/agnt_type")]),
        step("UNKNOWN_FIELD", json!({"colour": "red"}), &[Remove("/steps/0/colour")]),
        step(
            "UNKNOWN_FIELD",
            json!({"colour": "red"}),
            &[Remove("/steps/0/colour"), Set("/steps/0/metadata", json!({"colour": "red"}))],
        ),
        plan("UNKNOWN_FIELD", json!({"jobs": [{"id": "a"}], "steps": [{"id": "a"}]}), &[Remove("/jobs")]),
        plan("UNKNOWN_FIELD", json!({"jobs": [{"id": "a"}]}), &[Remove("/jobs"), Set("/steps", json!([{"id": "a"}]))]),
        step("CONFLICTING_FIELDS", json!({"agent": "b", "agent_type": "c"}), &[Remove("/steps/0/agent")]),
        step("OUT_OF_RANGE", json!({"estimated_cost": -1}), &[Set("/steps/0/estimated_cost", json!(1))]),
        step("WRONG_TYPE", json!({"description": 5}), &[Set("/steps/0/description", json!("five"))]),
        step("TEXT_TOO_LONG", json!({"description": "x".repeat(201)}), &[Set("/steps/0/description", json!("x"))]),
        step("OUT_OF_RANGE", json!({"priority": 11}), &[Set("/steps/0/priority", json!(10))]),
        step("INVALID_TIMEOUT", json!({"timeout": "soon"}), &[Write("/steps/0/timeout")]),
        step("OUT_OF_RANGE", json!({"timeout": "400d"}), &[Set("/steps/0/timeout", json!("1h"))]),
        step("INVALID_VALUE", json!({"on_failure": "explode"}), &[Write("/steps/0/on_failure")]),
        step("CONFLICTING_FIELDS", json!({"retry": {"max": 3, "max_attempts": 3}}), &[Remove("/steps/0/retry/max")]),
        step("INVALID_RETRY_POLICY", json!({"retry": {"factor": 0}}), &[Set("/steps/0/retry/factor", json!(1))]),
        step(
            "INVALID_RETRY_POLICY",
            json!({"retry": {"initial": "9s", "max_delay": "1s"}}),
            &[Set("/steps/0/retry/max_delay", json!("9s"))],
        ),
        plan(
            "INVALID_VALUE",
            json!({"steps": [{"id": "a"}], "revision": {"threshold": 2}}),
            &[Set("/revision/threshold", json!(1))],
        ),
        plan(
            "INVALID_VALUE",
            json!({"steps": [{"id": "a"}], "revision": {"model": " "}}),
            &[Remove("/revision/model")],
        ),
        step("MISSING_FIELD", json!({"ask": {}}), &[Set("/steps/0/ask/question", json!("How many?"))]),
        plan("OUT_OF_RANGE", json!({"steps": [{"id": "a"}], "confidence": 2}), &[Set("/confidence", json!(1))]),
    ];
    for field in [
        "finally", "on_exit", "trigger_rule", "matrix", "schedule", "delay", "rate_limit", "rollback", "env", "while",
        "pool", "image",
    ] {
        let mut case = step("UNKNOWN_FIELD", json!({}), &[]);
        case.document["steps"][0][field] = json!("x");
        let place: &'static str = Box::leak(format!("/steps/0/{field}").into_boxed_str());
        cases.push(HintCase { changes: vec![Remove(place)], ..case });
    }
    cases
}

/// Maps over lists.
pub(super) fn of_maps() -> Vec<HintCase> {
    vec![
        step("UNUSED_FIELD", json!({"batch": 2}), &[Remove("/steps/0/batch")]),
        step("UNUSED_FIELD", json!({"batch": 2}), &[Set("/steps/0/for_each", json!([1]))]),
        step("MISSING_FIELD", json!({"for_each": {"as": "x"}}), &[Set("/steps/0/for_each/items", json!([1]))]),
        step("INVALID_VALUE", json!({"kind": "finish", "for_each": [1]}), &[Set("/steps/0/kind", json!("internal"))]),
        plan(
            "INVALID_VALUE",
            json!({"steps": [{"id": "a", "for_each": [1], "judges": ["c1"]}]}),
            &[Remove("/steps/0/judges")],
        ),
        step("TOO_MANY_ITEMS", json!({"for_each": [1, 2], "items_max": 1}), &[Set("/steps/0/items_max", json!(2))]),
        step("TOO_MANY_ITEMS", json!({"for_each": [1, 2], "items_max": 1}), &[Set("/steps/0/batch", json!(2))]),
        step("WRONG_TYPE", json!({"for_each": "cities"}), &[Set("/steps/0/for_each", json!(["Rome"]))]),
        step("WRONG_TYPE", json!({"for_each": 3}), &[Set("/steps/0/for_each", json!([3]))]),
        step("INVALID_VALUE", json!({"for_each": [1], "as": "Goal"}), &[Write("/steps/0/as")]),
        step(
            "MISSING_FIELD",
            json!({"for_each": [1], "on_item_failure": {}}),
            &[Set("/steps/0/on_item_failure", json!("continue"))],
        ),
        step("INVALID_EXPRESSION", json!({"inputs": {"x": "{{ item }}"}}), &[Set("/steps/0/for_each", json!([1]))]),
    ]
}

/// Loops.
pub(super) fn of_loops() -> Vec<HintCase> {
    let until = json!({"until": "outputs.n > 1", "max": 2});
    vec![
        step("WRONG_TYPE", json!({"repeat": 3}), &[Set("/steps/0/repeat", until.clone())]),
        step("MISSING_FIELD", json!({"repeat": {"max": 2}}), &[Set("/steps/0/repeat/until", json!("outputs.n > 1"))]),
        step("MISSING_FIELD", json!({"repeat": {"until": "outputs.n > 1"}}), &[Set("/steps/0/repeat/max", json!(5))]),
        step("INVALID_VALUE", json!({"kind": "internal", "repeat": until}), &[Remove("/steps/0/repeat")]),
        step("INVALID_VALUE", json!({"for_each": [1], "repeat": until}), &[Remove("/steps/0/repeat")]),
        step("INVALID_VALUE", json!({"cache": true, "repeat": until}), &[Remove("/steps/0/cache")]),
        step(
            "INVALID_VALUE",
            json!({"ask": "How many?", "repeat": {"until": "outputs.n > 1", "max": 3}}),
            &[Remove("/steps/0/repeat")],
        ),
        step(
            "INVALID_VALUE",
            json!({"ask": {"question": "How many?"}, "plan": {"steps": [{"id": "b", "kind": "message"}]}}),
            &[Set("/steps/0/ask/into", json!("n"))],
        ),
    ]
}

/// `always` and `undo`.
pub(super) fn of_cleanup() -> Vec<HintCase> {
    let with = |always: serde_json::Value| json!({"steps": [{"id": "a"}], "always": [always]});
    vec![
        step("WRONG_TYPE", json!({"undo": "cancel"}), &[Set("/steps/0/undo", json!({"action": "cancel"}))]),
        step(
            "CONFLICTING_FIELDS",
            json!({"for_each": [1], "undo": {"action": "x", "for_each": [2]}}),
            &[Remove("/steps/0/undo/for_each")],
        ),
        step(
            "INVALID_VALUE",
            json!({"for_each": [1], "undo": {"action": "x", "inputs": {"n": "{{ goal.metadata.n }}"}}}),
            &[
                Set("/steps/0/undo/inputs/n", json!("{{ inputs.n }}")),
                Set("/steps/0/inputs", json!({"n": "{{ goal.metadata.n }}"})),
            ],
        ),
        plan(
            "CLEANUP_DEPENDENCY",
            json!({"steps": [{"id": "a", "undo": {"action": "x", "depends_on": ["b"]}}, {"id": "b"}]}),
            &[Remove("/steps/0/undo/depends_on")],
        ),
        plan("CLEANUP_DEPENDENCY", with(json!({"id": "z", "depends_on": ["a"]})), &[Remove("/always/0/depends_on")]),
        plan(
            "CLEANUP_DEPENDENCY",
            json!({"steps": [{"id": "a", "depends_on": ["z"]}], "always": [{"id": "z"}]}),
            &[Remove("/steps/0/depends_on")],
        ),
        plan(
            "CLEANUP_DEPENDENCY",
            json!({"steps": [{"id": "a", "depends_on": ["z"]}, {"id": "b"}], "always": [{"id": "z"}]}),
            &[Remove("/steps/0"), Set("/always/1", json!({"id": "a", "depends_on": ["z"]}))],
        ),
        plan(
            "INVALID_VALUE",
            json!({"steps": [{"id": "a", "undoes": "zz"}, {"id": "b"}]}),
            &[Set("/steps/0/undoes", json!("b"))],
        ),
        plan(
            "INVALID_VALUE",
            json!({"steps": [{"id": "a"}], "always": [{"id": "z", "undo": {"action": "x"}}]}),
            &[Remove("/always/0/undo")],
        ),
        plan(
            "INVALID_VALUE",
            json!({"steps": [{"id": "a"}], "phases": [{"id": "p"}], "always": [{"id": "z", "phase": "p"}]}),
            &[Remove("/always/0/phase")],
        ),
        plan("INVALID_VALUE", with(json!({"id": "z", "kind": "finish"})), &[Set("/always/0/kind", json!("message"))]),
        plan(
            "INVALID_VALUE",
            json!({"steps": [{"id": "a"}], "undo_on": ["completed"]}),
            &[Set("/undo_on", json!(["failed", "cancelled"]))],
        ),
    ]
}

pub(super) fn of_steps() -> Vec<HintCase> {
    let mut cases = vec![
        plan("MISSING_FIELD", json!({"steps": [{"description": "x"}]}), &[Set("/steps/0/id", json!("a"))]),
        step("INVALID_ID", json!({"agent_type": "the writer"}), &[Write("/steps/0/agent_type")]),
        step("UNUSED_FIELD", json!({"kind": "message", "agent_type": "echo"}), &[Remove("/steps/0/agent_type")]),
        step("UNUSED_FIELD", json!({"kind": "message", "agent_type": "echo"}), &[Set("/steps/0/kind", json!("tool"))]),
        step("UNUSED_FIELD", json!({"ask": "How many?", "action": "count"}), &[Remove("/steps/0/action")]),
        step(
            "UNUSED_FIELD",
            json!({"ask": {"question": "How many?"}, "action": "count"}),
            &[Set("/steps/0/ask/into", json!("n"))],
        ),
        step("INVALID_ID", json!({"action": "a\u{7}b"}), &[Set("/steps/0/action", json!("ab"))]),
        step(
            "INPUT_TOO_LARGE",
            json!({"inputs": {"x": "x".repeat(1_600)}}),
            &[Set("/steps/0/inputs", json!({"x": "s3://bucket/x"}))],
        ),
        step("INVALID_VALUE", json!({"join": "some"}), &[Set("/steps/0/join", json!("all"))]),
        step("INVALID_VALUE", json!({"join": {"some": 2}}), &[Set("/steps/0/join", json!("any"))]),
        step(
            "PLAN_TOO_DEEP",
            json!({"plan": {"steps": [{"id": "b", "kind": "plan", "description": "Do b"}]}}),
            &[Set("/steps/0/plan/steps/0", json!({"id": "b", "agent_type": "echo"}))],
        ),
        step("CONFLICTING_FIELDS", json!({"timeout": "1s", "timeout_ms": 5}), &[Remove("/steps/0/timeout_ms")]),
        step("INVALID_ID", json!({"fallback": {"agent_type": "the writer"}}), &[Write("/steps/0/fallback/agent_type")]),
        step(
            "INVALID_VALUE",
            json!({"fallback": {"agent_type": "auto"}}),
            &[Set("/steps/0/fallback/agent_type", json!("echo"))],
        ),
        step(
            "CONFLICTING_FIELDS",
            json!({"retry": {"initial": "1s"}, "retry_delay": 5}),
            &[Remove("/steps/0/retry_delay")],
        ),
        step(
            "CONFLICTING_FIELDS",
            json!({"on_failure": "abort", "continue_on_failure": true}),
            &[Remove("/steps/0/on_failure")],
        ),
        step("MISSING_FIELD", json!({"kind": "plan"}), &[Set("/steps/0/plan", json!({"steps": [{"id": "b"}]}))]),
        step(
            "INVALID_VALUE",
            json!({"kind": "tool", "plan": {"steps": [{"id": "b"}]}}),
            &[Set("/steps/0/kind", json!("plan"))],
        ),
        step(
            "PLAN_TOO_DEEP",
            json!({"plan": {"steps": [{"id": "b", "plan": {"steps": [{"id": "c"}]}}]}}),
            &[Set("/steps/0/plan/steps/0", json!({"id": "c"}))],
        ),
        step(
            "SCHEMA_REMOTE_REF",
            json!({"output_schema": {"$ref": "https://x.org/s.json"}}),
            &[Set("/steps/0/output_schema", json!({"$defs": {"s": {"type": "object"}}, "$ref": "#/$defs/s"}))],
        ),
        step(
            "INVALID_SCHEMA",
            json!({"output_schema": {"type": "no-such-type"}}),
            &[Set("/steps/0/output_schema/type", json!("object"))],
        ),
        step(
            "INVALID_EXPRESSION",
            json!({"inputs": {"x": "{{ 1 +"}}),
            &[Set("/steps/0/inputs/x", json!("{% raw %}{{ 1 +{% endraw %}"))],
        ),
        step(
            "REF_NOT_DEPENDENCY",
            json!({"inputs": {"x": "{{ steps.a.outputs.x }}"}}),
            &[
                Set("/steps/1", json!({"id": "b"})),
                Set("/steps/0/dependencies", json!(["b"])),
                Set("/steps/0/inputs/x", json!("{{ steps.b.outputs.x }}")),
            ],
        ),
        step(
            "REF_UNKNOWN_STEP",
            json!({"inputs": {"x": "{{ steps.zzz.outputs.x }}"}}),
            &[
                Set("/steps/1", json!({"id": "b"})),
                Set("/steps/0/dependencies", json!(["b"])),
                Set("/steps/0/inputs/x", json!("{{ steps.b.outputs.x }}")),
            ],
        ),
        plan(
            "TOO_MANY_DEPENDENCIES",
            json!({"steps": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d", "dependencies": ["a", "b", "c"]}]}),
            &[
                Set("/steps/4", json!({"id": "e", "kind": "internal", "dependencies": ["a", "b"]})),
                Set("/steps/3/dependencies", json!(["e", "c"])),
            ],
        ),
    ];
    for id in ["Überprüfung", "审批-1", "审批", "Ø ß?", "a b", "-x", "Ж", "", &"é".repeat(200)] {
        cases.push(plan("INVALID_ID", json!({"steps": [{"id": id}]}), &[Write("/steps/0/id")]));
    }
    cases
}

pub(super) fn of_layouts() -> Vec<HintCase> {
    let inner = json!({"steps": [{"id": "b", "plan": {"steps": [{"id": "c"}]}}]});
    vec![
        plan("WRONG_TYPE", json!("do it"), &[Set("", steps(&["a"]))]),
        plan("EMPTY_PLAN", json!([]), &[Set("", steps(&["a"]))]),
        plan("FOREIGN_FORMAT", json!({"nodes": [{"action": "llm.call", "with": {}}]}), &[Set("", steps(&["a"]))]),
        plan("FOREIGN_FORMAT", json!({"apiVersion": "argoproj.io/v1alpha1", "spec": {}}), &[Set("", steps(&["a"]))]),
        plan("EMPTY_PLAN", json!({"steps": []}), &[Set("/steps/0", json!({"id": "a"}))]),
        plan("MISSING_FIELD", json!({"name": "n"}), &[Set("/steps", json!([{"id": "a"}]))]),
        plan("TOO_MANY_STEPS", steps(&["a", "b", "c", "d", "e", "f", "g"]), &[Remove("/steps/6"), Remove("/steps/5")]),
        plan(
            "TOO_MANY_PHASES",
            json!({"phases": (0..7).map(|n| json!({"id": format!("p{n}"), "steps": []})).collect::<Vec<_>>(), "steps": [{"id": "a"}]}),
            &[Remove("/phases/6")],
        ),
        plan(
            "PLAN_TOO_LARGE",
            json!({"steps": [{"id": "a", "inputs": {"x": "x".repeat(1_200)}}, {"id": "b", "inputs": {"x": "x".repeat(1_200)}}]}),
            &[Set("/steps/1/inputs/x", json!("s3://bucket/x"))],
        ),
        plan(
            "PLAN_TOO_DEEP",
            json!({"steps": [{"id": "a", "plan": inner}]}),
            &[Set("/steps/0/plan", json!({"steps": [{"id": "c"}]}))],
        ),
        plan(
            "TOO_MANY_EVENTS",
            json!({"steps": (0..6).map(|n| json!({"id": format!("s{n}"), "retry": 0})).chain([json!({"id": "x"})]).take(6).collect::<Vec<_>>(), "phases": []}),
            &[Remove("/steps/5")],
        ),
        step("EVENTS_AT_RISK", json!({"retry": 20}), &[Set("/steps/0/retry", json!(1))]),
        plan(
            "DUPLICATE_PHASE",
            json!({"phases": [{"id": "p"}, {"id": "p"}], "steps": [{"id": "a", "phase": "p"}]}),
            &[Set("/phases/1/id", json!("q"))],
        ),
        plan(
            "INVALID_ID",
            json!({"phases": [{"id": "p".repeat(129)}], "steps": [{"id": "a"}]}),
            &[Set("/phases/0/id", json!("p"))],
        ),
        plan(
            "WRONG_TYPE",
            json!({"steps": [{"id": "a"}, {"id": "b"}], "edges": [5]}),
            &[Set("/edges/0", json!({"from": "a", "to": "b"}))],
        ),
    ]
}

/// What is said of steps behind a condition, of types, and of limits in sum.
pub(super) fn of_conditions() -> Vec<HintCase> {
    let behind = |last: Value| {
        json!({"steps": [
            {"id": "a", "output_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            {"id": "b", "dependencies": ["a"], "when": "steps.a.outputs.n > 1"},
            last,
        ]})
    };
    let five = |n: &str| -> Vec<Value> { (0..5).map(|i| json!({"id": format!("{n}{i}")})).collect() };
    let mut family = five("s");
    family[0]["plan"] = json!({"steps": five("t")});
    vec![
        plan(
            "CONDITIONAL_OUTPUTS",
            behind(json!({"id": "c", "dependencies": ["b"], "inputs": {"x": "{{ steps.b.outputs.x }}"}})),
            &[Set("/steps/2/inputs/x", json!("{{ steps.b.outputs.x | default(1) }}"))],
        ),
        plan("RUNS_AFTER_SKIP", behind(json!({"id": "c", "dependencies": ["b"]})), &[Write("/steps/2/when")]),
        plan(
            "MIXED_TYPES",
            behind(json!({"id": "c", "dependencies": ["a"], "when": "steps.a.outputs.n == '1'"})),
            &[Set("/steps/2/when", json!("steps.a.outputs.n == ('1' | int)"))],
        ),
        step(
            "SCHEMAS_TOO_LARGE",
            json!({"output_schema": {"properties": {"x": {"pattern": "\\w{900}"}}}}),
            &[Set("/steps/0/output_schema/properties/x/pattern", json!("\\w{2}"))],
        ),
        plan("TOO_MANY_FAMILY_STEPS", json!({"steps": family}), &[Remove("/steps/0/plan")]),
        goal(
            "INVALID_EXPRESSION",
            json!({"success_criteria": ["steps.total.outputs.sum && 1"]}),
            &[Write("/success_criteria/0")],
        ),
    ]
}

/// Dependencies that name statuses.
pub(super) fn of_dependencies() -> Vec<HintCase> {
    let two = |second: Value| json!({"steps": [{"id": "a"}, second]});
    vec![
        plan(
            "WRONG_TYPE",
            two(json!({"id": "b", "dependencies": [true]})),
            &[Set("/steps/1/dependencies/0", json!({"step": "a", "is": "failed"}))],
        ),
        plan(
            "WRONG_TYPE",
            two(json!({"id": "b", "dependencies": [{"step": ["a"]}]})),
            &[Set("/steps/1/dependencies/0/step", json!("a"))],
        ),
        plan(
            "WRONG_TYPE",
            two(json!({"id": "b", "dependencies": ["a"], "dependency_status": "failed"})),
            &[Set("/steps/1/dependency_status", json!({"a": ["failed"]}))],
        ),
        plan(
            "UNUSED_FIELD",
            two(json!({"id": "b", "dependency_status": {"a": ["failed"]}})),
            &[Set("/steps/1/dependencies", json!(["a"]))],
        ),
        plan(
            "MISSING_FIELD",
            two(json!({"id": "b", "depends_on": [{"is": ["failed"]}]})),
            &[Set("/steps/1/depends_on/0", json!({"step": "a", "is": ["failed"]}))],
        ),
        plan(
            "INVALID_VALUE",
            two(json!({"id": "b", "depends_on": [{"step": "a", "is": []}]})),
            &[Set("/steps/1/depends_on/0", json!("a"))],
        ),
        plan(
            "INVALID_VALUE",
            two(json!({"id": "b", "depends_on": [{"step": "a", "is": "cancelled"}]})),
            &[Write("/steps/1/depends_on/0/is")],
        ),
        plan(
            "INVALID_VALUE",
            json!({"steps": [{"id": "a", "undo": {"action": "x"}}, {"id": "b", "depends_on": [{"step": "a", "is": "undone"}]}]}),
            &[Set("/always", json!([{"id": "b", "depends_on": ["a:undo"]}])), Remove("/steps/1")],
        ),
        plan(
            "CONFLICTING_FIELDS",
            two(json!({"id": "b", "depends_on": [{"step": "a", "is": "failed"}, {"step": "a", "is": "skipped"}]})),
            &[Set("/steps/1/depends_on", json!([{"step": "a", "is": ["failed", "skipped"]}]))],
        ),
        plan(
            "STATUS_IMPOSSIBLE",
            json!({"steps": [{"id": "a", "on_failure": "skip"}, {"id": "b", "depends_on": [{"step": "a", "is": "failed"}]}]}),
            &[Set("/steps/1/depends_on/0/is", json!("skipped"))],
        ),
        plan(
            "STATUS_IMPOSSIBLE",
            two(
                json!({"id": "b", "depends_on": [{"step": "a", "is": "failed"}], "inputs": {"x": "{{ steps.a.outputs.x }}"}}),
            ),
            &[Set("/steps/1/inputs/x", json!("{{ steps['a'].failure.message }}"))],
        ),
    ]
}

pub(super) fn of_graphs() -> Vec<HintCase> {
    let two = |second: Value| json!({"steps": [{"id": "a"}, second]});
    vec![
        plan(
            "TOO_MANY_DEPENDENCIES",
            json!({"steps": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}], "edges": [["a", "d"], ["b", "d"], ["c", "d"]]}),
            &[
                Set("/steps/4", json!({"id": "e", "kind": "internal"})),
                Set("/edges", json!([["a", "e"], ["b", "e"], ["e", "d"], ["c", "d"]])),
            ],
        ),
        plan(
            "PATH_TOO_LONG",
            json!({"steps": [{"id": "a"}, {"id": "b", "dependencies": ["a"]}, {"id": "c", "dependencies": ["b"]}, {"id": "d", "dependencies": ["c"]}]}),
            &[Set("/steps/3/dependencies", json!(["a"]))],
        ),
        plan("DUPLICATE_STEP_ID", two(json!({"id": "a"})), &[Set("/steps/1/id", json!("b"))]),
        plan("SELF_DEPENDENCY", two(json!({"id": "b", "dependencies": ["b"]})), &[Remove("/steps/1/dependencies/0")]),
        plan(
            "DUPLICATE_DEPENDENCY",
            two(json!({"id": "b", "dependencies": ["a", "a"]})),
            &[Remove("/steps/1/dependencies/1")],
        ),
        plan(
            "UNKNOWN_DEPENDENCY",
            two(json!({"id": "b", "dependencies": ["zzz"]})),
            &[Remove("/steps/1/dependencies/0")],
        ),
        plan(
            "PLAN_CYCLE",
            json!({"steps": [{"id": "a", "dependencies": ["b"]}, {"id": "b", "dependencies": ["a"]}]}),
            &[Remove("/steps/0/dependencies")],
        ),
        plan(
            "JOIN_IMPOSSIBLE",
            two(json!({"id": "b", "dependencies": ["a"], "join": {"at_least": 2}})),
            &[Set("/steps/1/join/at_least", json!(1))],
        ),
        plan("JOIN_IMPOSSIBLE", json!({"steps": [{"id": "b", "join": {"at_least": 2}}]}), &[Remove("/steps/0/join")]),
        plan(
            "PHASE_UNKNOWN",
            json!({"phases": [{"id": "search"}], "steps": [{"id": "a", "phase": "serch"}]}),
            &[Write("/steps/0/phase")],
        ),
        plan(
            "PHASE_UNKNOWN",
            json!({"phases": [{"id": "search"}], "steps": [{"id": "a", "phase": "book"}]}),
            &[Set("/phases/1", json!({"id": "book"}))],
        ),
        plan(
            "PHASE_ORDER",
            json!({"phases": [{"id": "p"}, {"id": "q"}], "steps": [{"id": "a", "phase": "q"}, {"id": "b", "phase": "p", "dependencies": ["a"]}]}),
            &[Set("/steps/1/phase", json!("q"))],
        ),
        plan(
            "PHASE_ORDER",
            json!({"phases": [{"id": "p"}, {"id": "q"}], "steps": [{"id": "a", "phase": "q"}, {"id": "b", "dependencies": ["a"]}, {"id": "c", "phase": "p", "dependencies": ["b"]}]}),
            &[Set("/steps/1/phase", json!("q")), Set("/steps/2/phase", json!("q"))],
        ),
        plan(
            "REDUNDANT_STEP",
            json!({"steps": [{"id": "a", "action": "x", "inputs": {"n": 1}}, {"id": "b", "action": "x", "inputs": {"n": 1}}]}),
            &[Remove("/steps/1")],
        ),
        plan(
            "DEPENDENCY_INFERRED",
            two(json!({"id": "b", "inputs": {"x": "{{ steps.a.outputs.x }}"}})),
            &[Set("/steps/1/dependencies", json!(["a"]))],
        ),
        plan(
            "REF_NOT_DEPENDENCY",
            two(json!({"id": "b", "inputs": {"x": "{{ steps.a.status }}"}})),
            &[Set("/steps/1/dependencies", json!(["a"]))],
        ),
    ]
}

pub(super) fn of_goals() -> Vec<HintCase> {
    let turn = json!({"role": "user", "text": "hello"});
    vec![
        HintCase {
            is_goal: true,
            document: json!({"priority": 5}),
            code: "MISSING_FIELD",
            changes: vec![Set("/description", json!("Do it"))],
        },
        goal(
            "CONFLICTING_FIELDS",
            json!({"start_at": "2027-01-31T12:00:00Z", "start_in": "1h"}),
            &[Remove("/start_at")],
        ),
        goal("MISSING_FIELD", json!({"start_in": "1h", "tz": "Europe/Berlin"}), &[Remove("/tz")]),
        goal(
            "CONFLICTING_FIELDS",
            json!({"constraints": {"deadline": {"value": "2027-01-31T12:00:00Z", "tz": "Europe/Berlin"}}}),
            &[Remove("/constraints/deadline/tz")],
        ),
        goal("INVALID_VALUE", json!({"type": "travel"}), &[Set("/type", json!("travel_planning"))]),
        goal("INVALID_VALUE", json!({"type": "no_such"}), &[Set("/type", json!("custom:no_such"))]),
        goal("INVALID_VALUE", json!({"description": " "}), &[Set("/description", json!("Do it"))]),
        goal("INVALID_VALUE", json!({"description": "a\u{1b}b"}), &[Set("/description", json!("ab"))]),
        goal("INVALID_VALUE", json!({"deadline": "soon"}), &[Set("/deadline", json!("2027-01-31T12:00:00Z"))]),
        goal("INVALID_ID", json!({"namespace": "../x"}), &[Set("/namespace", json!("x"))]),
        goal("TEXT_TOO_LONG", json!({"context": {"memory": "x".repeat(400)}}), &[Set("/context/memory", json!("x"))]),
        goal(
            "OUT_OF_RANGE",
            json!({"context": {"transcript": vec![turn; 2_000]}}),
            &[Set("/context/transcript", json!([]))],
        ),
        goal(
            "MISSING_FIELD",
            json!({"context": {"documents": [{"source": "s"}]}}),
            &[Set("/context/documents/0/text", json!("x"))],
        ),
        goal("MISSING_FIELD", json!({"constraints": [{"value": 5}]}), &[Set("/constraints/0/type", json!("budget"))]),
        goal(
            "OUT_OF_RANGE",
            json!({"constraints": {"budget": {"value": 5, "priority": 11}}}),
            &[Set("/constraints/budget/priority", json!(10))],
        ),
        goal(
            "OUT_OF_RANGE",
            json!({"constraints": {"budget": {"max": -5}}}),
            &[Set("/constraints/budget/max", json!(0))],
        ),
        goal(
            "INVALID_EXPRESSION",
            json!({"constraints": {"budget": {"max": 5, "of": "1 +"}}}),
            &[Write("/constraints/budget/of")],
        ),
        goal(
            "INVALID_EXPRESSION",
            json!({"constraints": {"budget": {"max": 5, "of": "5"}}}),
            &[Write("/constraints/budget/of")],
        ),
        goal(
            "OUT_OF_RANGE",
            json!({"constraints": (0..65).map(|n| (format!("c{n}"), json!(n))).collect::<Map<_, _>>()}),
            &[Set("/constraints", json!({"c": 5}))],
        ),
        goal(
            "INVALID_ID",
            json!({"success_criteria": [{"id": "x", "description": "a"}, {"id": "x", "description": "b"}]}),
            &[Set("/success_criteria/1/id", json!("y"))],
        ),
        goal(
            "INVALID_ID",
            json!({"success_criteria": [{"id": "x y", "description": "a"}]}),
            &[Set("/success_criteria/0/id", json!("x_y"))],
        ),
        goal(
            "INVALID_EXPRESSION",
            json!({"success_criteria": [{"check": "1 +"}]}),
            &[Write("/success_criteria/0/check")],
        ),
        goal(
            "MISSING_FIELD",
            json!({"success_criteria": [{"id": "x"}]}),
            &[Set("/success_criteria/0/description", json!("It is done"))],
        ),
        goal("INVALID_VALUE", json!({"planning": {"prompt": " "}}), &[Set("/planning/prompt", json!("Plan well"))]),
        goal("OUT_OF_RANGE", json!({"planning": {"temperature": 3}}), &[Set("/planning/temperature", json!(2))]),
        goal(
            "INVALID_VALUE",
            json!({"planning": {"features": ["loop"]}}),
            &[Set("/planning/features/0", json!("loops"))],
        ),
    ]
}

/// Stored plans, and the inputs of plans inside.
pub(super) fn of_stored_plans() -> Vec<HintCase> {
    let typed = |inputs: Value| {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        json!({"inputs": inputs, "plan": {"input_schema": schema, "steps": [{"id": "b"}]}})
    };
    vec![
        step("INVALID_VALUE", json!({"use": "two words", "plan": [{"id": "b"}]}), &[Write("/steps/0/use")]),
        step(
            "STORED_PLAN_NOT_FOUND",
            json!({"use": "trip@3"}),
            &[Remove("/steps/0/use"), Set("/steps/0/plan", json!([{"id": "b"}]))],
        ),
        step("INPUT_MISSING", typed(json!({})), &[Set("/steps/0/inputs/n", json!(1))]),
        step("INPUT_INVALID", typed(json!({"n": "x"})), &[Set("/steps/0/inputs/n", json!(1))]),
    ]
}

/// Inputs of a plan that is submitted with `city`.
pub(super) fn of_inputs() -> Vec<HintCase> {
    let reads = |text: &str| json!({"inputs": {"x": text}});
    let inside = json!({"steps": [{"id": "b", "inputs": {"x": "{{ inputs.n }}"}}]});
    vec![
        step("INPUT_UNKNOWN", reads("{{ inputs.citty }}"), &[Set("/steps/0/inputs/x", json!("{{ inputs.city }}"))]),
        step(
            "INPUT_MISSING",
            reads("{{ inputs.days }}"),
            &[Set("/steps/0/inputs/x", json!("{{ inputs.days | default(3) }}"))],
        ),
        step("INPUT_MISSING", json!({"plan": inside}), &[Set("/steps/0/inputs", json!({"n": 1}))]),
        step(
            "CONFLICTING_FIELDS",
            json!({"plan": {"inputs": {"n": 1}, "steps": [{"id": "b"}]}}),
            &[Remove("/steps/0/plan/inputs")],
        ),
    ]
}

pub(super) fn of_waits() -> Vec<HintCase> {
    let until = |value: Value| Set("/steps/0/wait", json!({ "until": value }));
    vec![
        step("INVALID_VALUE", json!({"kind": "message", "for": "2s"}), &[Set("/steps/0/kind", json!("wait"))]),
        step("UNUSED_FIELD", json!({"wait": "2s", "resource": "r"}), &[Remove("/steps/0/resource")]),
        step(
            "CONFLICTING_FIELDS",
            json!({"wait": "2s", "action": "x"}),
            &[Remove("/steps/0/action"), Set("/steps/1", json!({"id": "b", "action": "x", "dependencies": ["a"]}))],
        ),
        step(
            "INVALID_VALUE",
            json!({"wait": "2s", "ask": "When?"}),
            &[Remove("/steps/0/ask"), Set("/steps/1", json!({"id": "b", "ask": "When?"}))],
        ),
        step("CONFLICTING_FIELDS", json!({"wait": "2s", "for": "3s"}), &[Remove("/steps/0/for")]),
        step(
            "CONFLICTING_FIELDS",
            json!({"wait": {"for": "2s", "until": "{{ goal.metadata.t }}"}}),
            &[Remove("/steps/0/wait/until")],
        ),
        step("UNUSED_FIELD", json!({"wait": {"for": "2s", "key": "x"}}), &[Remove("/steps/0/wait/key")]),
        step("INVALID_ID", json!({"event": "two words"}), &[Set("/steps/0/event", json!("two_words"))]),
        step("MISSING_FIELD", json!({"event": "x", "on_timeout": {}}), &[Set("/steps/0/on_timeout", json!("skip"))]),
        step(
            "INVALID_VALUE",
            json!({"wait": {"event": "x", "schema": {"type": "object"}, "on_timeout": {"default": 1}}}),
            &[Set("/steps/0/wait/on_timeout/default", json!({}))],
        ),
        step("INVALID_VALUE", json!({"wait": "2s", "callback": true}), &[Remove("/steps/0/callback")]),
        step("MISSING_FIELD", json!({"kind": "wait"}), &[Set("/steps/0/for", json!("3d"))]),
        step("WAIT_TOO_LONG", json!({"wait": "8d"}), &[Set("/steps/0/wait", json!("7d"))]),
        step("WRONG_TYPE", json!({"wait": {"until": true}}), &[until(json!("2027-01-31T12:00:00Z"))]),
        step(
            "CONFLICTING_FIELDS",
            json!({"wait": {"until": "2027-01-31T12:00:00Z", "tz": "UTC"}}),
            &[Remove("/steps/0/wait/tz")],
        ),
        step(
            "INVALID_VALUE",
            json!({"wait": {"until": "2027-01-31", "tz": "Berlin, Germany"}}),
            &[Set("/steps/0/wait/tz", json!("Europe/Berlin"))],
        ),
        step(
            "INVALID_VALUE",
            json!({"wait": {"until": "2027-01-31T12:00:00"}}),
            &[Set("/steps/0/wait/tz", json!("Europe/Berlin"))],
        ),
        step("UNUSED_FIELD", json!({"wait": {"for": "2s", "tz": "UTC"}}), &[Remove("/steps/0/wait/tz")]),
        step("INVALID_VALUE", json!({"wait": {"until": "soon"}}), &[until(json!("{{ goal.metadata.t }}"))]),
    ]
}
