//! Hostile plans and goals.

use std::fmt::Write;

use Expect::{Ends, Refused};
use serde_json::{Map, Value, json};

use super::{Expect, Hostile};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

pub(super) fn all() -> Vec<Hostile> {
    [schemas(), templates(), shapes(), texts(), numbers(), goals()].into_iter().flatten().collect()
}

/// A plan of one `echo` step with these fields besides.
fn one(fields: &Value) -> Value {
    let mut step = json!({"id": "a", "agent_type": "echo"});
    let extra = fields.as_object().cloned().unwrap_or_default();
    step.as_object_mut().expect("it is an object").extend(extra);
    json!({"steps": [step]})
}

/// A schema whose every level refers twice to the next one.
fn twice(levels: usize, keyword: &str) -> Value {
    let mut definitions = Map::new();
    for n in 0..levels {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        definitions.insert(format!("d{n}"), json!({ keyword: [next.clone(), next] }));
    }
    definitions.insert(format!("d{levels}"), json!({"type": "string"}));
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

fn schemas() -> Vec<Hostile> {
    const COSTLY: &[&str] = &["SCHEMA_TOO_COMPLEX", "INVALID_SCHEMA"];
    let with = |schema: Value| one(&json!({"output_schema": schema}));
    let cyclic = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
    let deep = (0..500).fold(json!({"type": "string"}), |inner, _| json!({"not": inner}));
    let many: Vec<Value> = (0..100_000).map(|n| json!({ "const": n })).collect();
    vec![
        Hostile::plan("schema-any-of", &with(twice(22, "anyOf")), Refused(422, COSTLY)),
        Hostile::plan("schema-all-of", &with(twice(60, "allOf")), Refused(422, COSTLY)),
        Hostile::plan("schema-one-of", &with(twice(40, "oneOf")), Refused(422, COSTLY)),
        Hostile::plan("schema-cycle", &with(cyclic), Refused(422, COSTLY)),
        Hostile::plan("schema-deep", &with(deep), Refused(422, &["SCHEMA_TOO_COMPLEX", "INVALID", "NESTING"])),
        Hostile::plan("schema-wide", &with(json!({ "anyOf": many })), Refused(422, COSTLY)),
        Hostile::plan(
            "schema-remote",
            &with(json!({"$ref": "http://127.0.0.1:1/x"})),
            Refused(422, &["SCHEMA_REMOTE_REF"]),
        ),
        Hostile::plan("schema-no-schema", &with(json!({"type": 7})), Refused(422, COSTLY)),
        Hostile::plan(
            "schema-pattern",
            &one(&json!({
                "inputs": {"t": format!("{}!", "a".repeat(50_000))},
                "output_schema": {"properties": {"t": {"pattern": "^(a+)+$"}}},
                "retry": {"max": 0}
            })),
            Ends(&["UNEXPECTED_RESULT", "OUTPUT_INVALID", "OUTPUT_MISMATCH"]),
        ),
    ]
}

fn templates() -> Vec<Hostile> {
    let with = |text: String| one(&json!({"kind": "finish", "inputs": {"x": text}}));
    let failing = |name, text: &str| {
        Hostile::plan(
            name,
            &with(text.to_owned()),
            Ends(&["TEMPLATE_FUEL_EXHAUSTED", "OUTPUT_TOO_LARGE", "EXPRESSION_FAILED", "INVALID_EXPRESSION"]),
        )
    };
    let refused = |name, text: &str| Hostile::plan(name, &with(text.to_owned()), Refused(422, &["INVALID_EXPRESSION"]));
    let copies: Vec<Value> = (0..5_000)
        .map(|n| {
            json!({"id": format!("c{n}"), "kind": "finish", "dependencies": ["a"],
                        "inputs": {"t": "{{ steps.a.outputs.t }}"}})
        })
        .collect();
    let mut copying = vec![json!({"id": "a", "agent_type": "echo", "inputs": {"t": "x".repeat(200_000)}})];
    copying.extend(copies);
    let mut doubling = vec![json!({"id": "s0", "kind": "finish", "inputs": {"t": "xxxxxxxx"}})];
    for n in 1..60 {
        let twice = format!("{{{{ steps.s{0}.outputs.t }}}}{{{{ steps.s{0}.outputs.t }}}}", n - 1);
        doubling.push(json!({"id": format!("s{n}"), "kind": "finish", "dependencies": [format!("s{}", n - 1)],
                             "inputs": {"t": twice}}));
    }
    let mut conditions =
        vec![json!({"id": "a", "agent_type": "echo", "inputs": {"l": (0..5_000).collect::<Vec<_>>()}})];
    let costly = "(steps.a.outputs.l | join('') | length) > 3";
    conditions.extend((0..2_000).map(|n| {
        json!({"id": format!("c{n}"), "kind": "finish", "dependencies": ["a"], "when": costly, "on_failure": "skip"})
    }));
    vec![
        Hostile::plan("copies", &json!({ "steps": copying }), Ends(&["PLAN_OUTPUTS_TOO_LARGE"])),
        Hostile::plan("doubling", &json!({ "steps": doubling }), Ends(&["OUTPUT_TOO_LARGE"])),
        Hostile::plan("conditions", &json!({ "steps": conditions }), Ends(&["", "TEMPLATE_FUEL_EXHAUSTED"])),
        refused("range", "{{ range(1000000000) | sum }}"),
        refused("repeat", "{{ 'aaaaaaaaaaaaaaaa' * 1000000000 }}"),
        failing("power", "{{ 9 ** 9 ** 9 ** 9 }}"),
        refused("loops", "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}"),
        Hostile::plan(
            "brackets",
            &with(format!("{{{{ {}1{} }}}}", "(".repeat(5_000), ")".repeat(5_000))),
            Refused(422, &["INVALID_EXPRESSION"]),
        ),
        Hostile::plan(
            "template-long",
            &with(format!("{{{{ 1 {} }}}}", "+ 1 ".repeat(20_000))),
            Refused(422, &["INVALID_EXPRESSION", "TEXT_TOO_LONG", "EXPRESSION_TOO_LONG"]),
        ),
        Hostile::plan("template-name", &with("{{ environ.HOME }}".into()), Refused(422, &["INVALID_EXPRESSION"])),
    ]
}

fn shapes() -> Vec<Hostile> {
    let step = |n: usize| json!({"id": format!("s{n}"), "agent_type": "echo"});
    let chain = |count: usize, last: &str| -> Vec<Value> {
        let before = |n: usize| if n == 0 { last.to_owned() } else { format!("s{}", n - 1) };
        let steps = 0..count;
        steps.map(|n| json!({"id": format!("s{n}"), "agent_type": "echo", "dependencies": [before(n)]})).collect()
    };
    let dependencies: Vec<String> = (0..100_000).map(|n| format!("s{n}")).collect();
    let nested = (0..20).fold(json!([step(0)]), |inner, n| json!([{"id": format!("p{n}"), "plan": {"steps": inner}}]));
    let sub_plans: Vec<Value> = (0..2_000)
        .map(|n| {
            let before: Vec<String> = (n > 0).then(|| format!("s{}", n - 1)).into_iter().collect();
            let inner = json!({"steps": [{"id": "x", "kind": "finish", "inputs": {}}]});
            json!({"id": format!("s{n}"), "kind": "plan", "plan": inner, "dependencies": before})
        })
        .collect();
    let phases: Vec<Value> = (0..50_000).map(|n| json!({"id": format!("p{n}")})).collect();
    let bomb = {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..12 {
            let next = vec![format!("*a{}", n - 1); 9].join(", ");
            writeln!(text, "a{n}: &a{n} [{next}]").expect("a string takes all text");
        }
        text + "steps: *a11\n"
    };
    vec![
        Hostile::plan(
            "steps",
            &json!({"steps": (0..10_001).map(step).collect::<Vec<_>>()}),
            Refused(422, &["TOO_MANY_STEPS"]),
        ),
        Hostile::plan("cycle", &json!({ "steps": chain(5_000, "s4999") }), Refused(422, &["PLAN_CYCLE"])),
        Hostile::plan("self", &json!({ "steps": chain(1, "s0") }), Refused(422, &["SELF_DEPENDENCY"])),
        Hostile::plan(
            "dependencies",
            &one(&json!({ "dependencies": dependencies })),
            Refused(422, &["TOO_MANY_DEPENDENCIES", "UNKNOWN_DEPENDENCY"]),
        ),
        Hostile::plan("same-id", &json!({"steps": [step(0), step(0)]}), Refused(422, &["DUPLICATE_STEP"])),
        Hostile::plan("sub-plans-deep", &json!({ "steps": nested }), Refused(422, &["PLAN_TOO_DEEP", "INVALID"])),
        Hostile::plan("sub-plans-chain", &json!({ "steps": sub_plans }), Ends(&[""])),
        Hostile::plan("phases", &json!({"phases": phases, "steps": [step(0)]}), Refused(422, &["TOO_MANY_PHASES"])),
        Hostile::text("yaml-bomb", "/v1/plans", YAML, bomb, Refused(422, &["INVALID", "YAML", "TOO_LARGE"])),
        Hostile::text(
            "yaml-tag",
            "/v1/plans",
            YAML,
            "steps: !!python/object:os.system [x]",
            Refused(422, &["INVALID"]),
        ),
        Hostile::text(
            "json-deep",
            "/v1/plans",
            JSON,
            format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
            Refused(422, &["NESTING_TOO_DEEP"]),
        ),
        Hostile::text("json-cut", "/v1/plans", JSON, r#"{"steps": [{"id": "a""#, Refused(400, &["INVALID_JSON"])),
        Hostile::text(
            "no-utf-8",
            "/v1/plans",
            JSON,
            b"{\"steps\": \"\xff\"}".to_vec(),
            Refused(422, &["INVALID_ENCODING"]),
        ),
    ]
}

fn texts() -> Vec<Hostile> {
    let many: Map<String, Value> = (0..100_000).map(|n| (format!("k{n}"), json!(n))).collect();
    vec![
        Hostile::plan(
            "id-long",
            &one(&json!({"id": "x".repeat(10_000)})),
            Refused(422, &["INVALID_ID", "INVALID_STEP_ID"]),
        ),
        Hostile::plan("id-control", &one(&json!({"id": "a\r\nb"})), Refused(422, &["INVALID_ID", "INVALID_STEP_ID"])),
        Hostile::plan("agent-type", &one(&json!({"agent_type": "a b\n{x}"})), Refused(422, &["INVALID_ID"])),
        Hostile::plan(
            "description",
            &one(&json!({"description": "x".repeat(100_000)})),
            Refused(422, &["TEXT_TOO_LONG"]),
        ),
        Hostile::plan("key-huge", &one(&json!({"inputs": {"k".repeat(1 << 20): 1}})), Ends(&["", "INPUT_TOO_LARGE"])),
        Hostile::plan("keys-many", &one(&json!({ "inputs": many })), Ends(&[""])),
        Hostile::plan(
            "inputs-large",
            &one(&json!({"inputs": {"t": "x".repeat(3 << 20)}})),
            Refused(422, &["TOO_LARGE"]),
        ),
        Hostile::plan(
            "resource-long",
            &one(&json!({"resource": "r".repeat(100_000)})),
            Refused(422, &["INVALID", "TEXT_TOO_LONG"]),
        ),
        Hostile::plan("ask-nothing", &one(&json!({"ask": {}})), Refused(422, &["INVALID", "MISSING", "QUESTION"])),
        Hostile::plan("unknown-field", &one(&json!({"no_such_field": 1})), Refused(422, &["UNKNOWN_FIELD"])),
    ]
}

fn numbers() -> Vec<Hostile> {
    let refused = Refused(422, &["INVALID", "OUT_OF_RANGE", "TOO_"]);
    let plan = |name, fields: Value| Hostile::plan(name, &one(&fields), refused.clone());
    vec![
        plan("timeout-negative", json!({"timeout": -1})),
        plan("timeout-huge", json!({"timeout": "99999999999h"})),
        plan("retries", json!({"retry": {"max": 1_000_000_000}})),
        plan("backoff", json!({"retry": {"initial": "-5s"}})),
        plan("join", json!({"join": {"at_least": 1_000_000_000}})),
        plan("priority", json!({"priority": 99})),
        plan("estimate-negative", json!({"estimates": {"cost": -1}})),
        Hostile::text(
            "cost-infinite",
            "/v1/plans",
            JSON,
            r#"{"budget": {"cost": 1e999}, "steps": [{"id": "a", "agent_type": "echo"}]}"#,
            Refused(422, &["INVALID_NUMBER"]),
        ),
        Hostile::plan(
            "budget-huge",
            &json!({"budget": {"cost": 1.7e308}, "steps": [{"id": "a", "agent_type": "echo"}]}),
            Refused(422, &["INVALID", "OUT_OF_RANGE"]),
        ),
    ]
}

fn goals() -> Vec<Hostile> {
    let goal = |name, goal: Value, codes| Hostile::text(name, "/v1/goals", JSON, goal.to_string(), Refused(422, codes));
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    vec![
        goal("goal-empty", json!({"description": ""}), &["INVALID_GOAL"]),
        goal("goal-long", json!({"description": "x".repeat(1 << 20)}), &["INVALID_GOAL"]),
        goal("goal-control", json!({"description": "Plan\u{1b}[2Ja trip\u{0}"}), &["INVALID_GOAL"]),
        goal("goal-priority", json!({"description": "Plan a trip", "priority": 99}), &["INVALID_GOAL"]),
        goal("goal-budget", json!({"description": "Plan a trip", "budget": {"cost": -1}}), &["INVALID_GOAL"]),
        goal("goal-past", json!({"description": "Plan a trip", "deadline": "2001-01-01T00:00:00Z"}), &["INVALID_GOAL"]),
        Hostile::text(
            "goal-deep",
            "/v1/goals",
            JSON,
            json!({"description": "Plan a trip", "metadata": {"x": deep}}).to_string(),
            Refused(422, &["NESTING_TOO_DEEP"]),
        ),
    ]
}
