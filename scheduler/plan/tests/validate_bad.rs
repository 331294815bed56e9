//! Bad plans, and the exact code and place that each of them is answered with.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_plan::document::Format;
use goalmill_plan::validate;
use serde_json::{Value, json};

/// A name, a document, and what is wrong with it: code and pointer.
type Case = (&'static str, Value, &'static [(&'static str, &'static str)]);

#[test]
fn every_bad_plan_gets_its_code_and_place() {
    for (name, plan, expected) in cases() {
        let issues = validate::validate_plan(&plan, &Limits::default()).map(|_| ()).expect_err(name);
        assert_eq!(found(&issues), expected, "{name}: {issues:#?}");
        for issue in issues {
            assert!(!issue.hint.is_empty(), "{name}: {} has no hint", issue.code);
            assert!(issue.detail.len() < 400, "{name}: {}", issue.detail);
        }
    }
}

#[test]
fn schemas_of_one_plan_are_limited_in_sum_and_equal_ones_count_once() {
    let schema = |shift: usize| {
        let one = |i: usize| (format!("p{i}"), json!({"pattern": format!("[a-z]{{{}}}", 100 + shift + i)}));
        json!({"properties": (0..100).map(one).collect::<serde_json::Map<_, _>>()})
    };
    let plan = |shift: usize| {
        let step = |k: usize| json!({"id": format!("s{k}"), "agent_type": "echo", "output_schema": schema(k * shift)});
        json!({"steps": (0..8).map(step).collect::<Vec<_>>()})
    };
    assert!(validate::validate_plan(&plan(0), &Limits::default()).is_ok(), "eight times the same schema");
    let issues = validate::validate_plan(&plan(1), &Limits::default()).map(|_| ()).expect_err("it is too much");
    let found = found(&issues);
    assert_eq!((found.len(), found[0].0), (1, "SCHEMAS_TOO_LARGE"), "{issues:#?}");
    assert!(found[0].1.starts_with("/steps/") && found[0].1.ends_with("/output_schema"), "{issues:#?}");
    let limits = Limits { schemas_bytes_max: 1 << 30, ..Limits::default() };
    assert!(validate::validate_plan(&plan(1), &limits).is_ok(), "the limit is a setting");
}

#[test]
fn schemas_of_plans_inside_a_plan_and_of_questions_count_with_those_around_them() {
    let schema = |k: usize| json!({"properties": {"x": {"pattern": format!("[a-z]{{{k}}}")}}});
    let inner = json!({"steps": [{"id": "y", "agent_type": "echo", "output_schema": schema(200)}]});
    let plan = json!({"steps": [
        {"id": "a", "agent_type": "echo", "output_schema": schema(201)},
        {"id": "b", "agent_type": "echo", "ask": {"question": "q?", "schema": schema(202), "into": "x"}},
        {"id": "c", "kind": "plan", "plan": inner},
    ]});
    let code = |most: usize| {
        let limits = Limits { schemas_bytes_max: most, ..Limits::default() };
        validate::validate_plan(&plan, &limits).map(|_| ()).map_err(|issues| issues[0].pointer.clone())
    };
    assert_eq!(code(1 << 20), Ok(()));
    assert_eq!(code(400_000), Err("/steps/2/plan/steps/0/output_schema".into()));
    assert_eq!(code(200_000), Err("/steps/1/ask/schema".into()));
}

#[test]
fn steps_of_plans_inside_a_plan_are_limited_in_sum() {
    let inner =
        json!({"steps": (0..100).map(|i| json!({"id": format!("x{i}"), "agent_type": "w"})).collect::<Vec<_>>()});
    let outer = |count: usize| {
        let step = |i: usize| json!({"id": format!("p{i}"), "kind": "plan", "plan": inner});
        json!({"steps": (0..count).map(step).collect::<Vec<_>>()})
    };
    let limits = Limits { family_steps_max: 1_000, ..Limits::default() };
    assert!(validate::validate_plan(&outer(9), &limits).is_ok());
    let issues = validate::validate_plan(&outer(10), &limits).map(|_| ()).expect_err("there are more than 1,000");
    assert_eq!(found(&issues), [("TOO_MANY_FAMILY_STEPS", "/steps/9/plan/steps")]);
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let step = |fields: Value| {
        let mut step = json!({"id": "a"});
        step.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"steps": [step]})
    };
    vec![
        ("a number is no plan", json!(3), &[("WRONG_TYPE", "")]),
        ("null is no plan", json!(null), &[("WRONG_TYPE", "")]),
        ("text is no plan", json!("go"), &[("WRONG_TYPE", "")]),
        ("nothing to do", json!({"steps": []}), &[("EMPTY_PLAN", "/steps")]),
        ("nothing to do, wrapped", json!({"plan": {"subtasks": []}}), &[("EMPTY_PLAN", "/plan/subtasks")]),
        ("nothing to do, bare", json!([]), &[("EMPTY_PLAN", "")]),
        ("phases without steps", json!({"phases": [{"id": "p"}]}), &[("EMPTY_PLAN", "/phases")]),
        ("no steps", json!({"name": "x"}), &[("MISSING_FIELD", "/steps")]),
        ("a slip in a name", json!({"stpes": [{"id": "a"}]}), &[("UNKNOWN_FIELD", "/stpes")]),
        ("steps as text", json!({"steps": "a, b"}), &[("WRONG_TYPE", "/steps")]),
        ("a step as text", json!({"steps": ["a"]}), &[("WRONG_TYPE", "/steps/0")]),
        ("a step without id", json!({"steps": [{"description": "x"}]}), &[("MISSING_FIELD", "/steps/0/id")]),
        ("an id with blanks", json!({"steps": [{"task_id": "my step"}]}), &[("INVALID_ID", "/steps/0/task_id")]),
        ("an empty id", json!({"steps": [{"id": ""}]}), &[("INVALID_ID", "/steps/0/id")]),
        ("an id with a null character", json!({"steps": [{"id": "a\u{0}b"}]}), &[("INVALID_ID", "/steps/0/id")]),
        ("an id too long", json!({"steps": [{"id": "a".repeat(129)}]}), &[("INVALID_ID", "/steps/0/id")]),
        ("a broken number as id", json!({"steps": [{"id": 1.5}]}), &[("WRONG_TYPE", "/steps/0/id")]),
        ("an id twice", json!({"steps": [{"id": "a"}, {"id": "b"}, {"name": "a"}]}), &[("DUPLICATE_STEP_ID", "/steps/2/name")]),
        ("an id twice, as number and text", json!([{"id": 1}, {"id": "1"}]), &[("DUPLICATE_STEP_ID", "/1/id")]),
        ("an unknown dependency", json!({"steps": [{"id": "flights"}, {"id": "b", "depends_on": ["flihgts"]}]}), &[("UNKNOWN_DEPENDENCY", "/steps/1/depends_on/0")]),
        ("an unknown single dependency", step(json!({"needs": "zz"})), &[("UNKNOWN_DEPENDENCY", "/steps/0/needs")]),
        ("a step that needs itself", step(json!({"depends_on": ["a"]})), &[("SELF_DEPENDENCY", "/steps/0/depends_on/0")]),
        ("dependencies of the wrong type", step(json!({"dependencies": {"b": 1}})), &[("WRONG_TYPE", "/steps/0/dependencies")]),
        ("a dependency of the wrong type", step(json!({"dependencies": [[]]})), &[("WRONG_TYPE", "/steps/0/dependencies/0")]),
        ("a cycle of three", json!({"steps": [{"id": "a", "dependencies": ["c"]}, {"id": "b", "dependencies": ["a"]}, {"id": "c", "dependencies": ["b"]}]}), &[("PLAN_CYCLE", "/steps/0/dependencies/0")]),
        ("two cycles", json!([{"id": "a", "needs": ["b"]}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["d", "a"]}, {"id": "d", "needs": ["c"]}]), &[("PLAN_CYCLE", "/0/needs/0"), ("PLAN_CYCLE", "/2/needs/0")]),
        ("a cycle of edges", json!({"nodes": [{"id": "a"}, {"id": "b"}], "edges": [["a", "b"], ["b", "a"]]}), &[("PLAN_CYCLE", "/edges/1")]),
        ("an edge from nowhere", json!({"nodes": [{"id": "a"}], "edges": [{"from": "x", "to": "a"}]}), &[("UNKNOWN_DEPENDENCY", "/edges/0/from")]),
        ("an edge to nowhere", json!({"nodes": [{"id": "a"}], "links": [{"source": "a", "target": "x"}]}), &[("UNKNOWN_DEPENDENCY", "/links/0/target")]),
        ("half an edge", json!({"nodes": [{"id": "a"}], "edges": [{"from": "a"}]}), &[("WRONG_TYPE", "/edges/0")]),
        ("an unknown field", step(json!({"colour": "red"})), &[("UNKNOWN_FIELD", "/steps/0/colour")]),
        ("a pointer with its escapes", step(json!({"a/b~c": 1})), &[("UNKNOWN_FIELD", "/steps/0/a~1b~0c")]),
        ("two names for one field", step(json!({"needs": [], "depends_on": ["b"]})), &[("CONFLICTING_FIELDS", "/steps/0/depends_on")]),
        ("a description of the wrong type", step(json!({"description": 3})), &[("WRONG_TYPE", "/steps/0/description")]),
        ("a long description", step(json!({"description": "ä".repeat(16_385)})), &[("TEXT_TOO_LONG", "/steps/0/description")]),
        ("10 MB of inputs", step(json!({"parameters": {"x": "x".repeat(10_000_000)}})), &[("INPUT_TOO_LARGE", "/steps/0/parameters")]),
        ("10 MB of description", step(json!({"description": "x".repeat(10_000_000)})), &[("TEXT_TOO_LONG", "/steps/0/description")]),
        ("an unknown kind", step(json!({"type": "tool_cal"})), &[("INVALID_VALUE", "/steps/0/type")]),
        ("an agent type with blanks", step(json!({"agent": "Flight Agent"})), &[("INVALID_ID", "/steps/0/agent")]),
        ("an agent type of the wrong type", step(json!({"assigned_agent": ["x"]})), &[("WRONG_TYPE", "/steps/0/assigned_agent")]),
        ("a fallback to anybody", step(json!({"fallback": {"agent_type": "auto"}})), &[("INVALID_VALUE", "/steps/0/fallback/agent_type")]),
        ("a fallback to anybody, in other words", step(json!({"fallback": {"agent": "auto"}})), &[("INVALID_VALUE", "/steps/0/fallback/agent")]),
        ("far too many retries", step(json!({"retry": {"max_attempts": 1_000_000_000}})), &[("OUT_OF_RANGE", "/steps/0/retry/max_attempts")]),
        ("negative retries", step(json!({"retry": -1})), &[("OUT_OF_RANGE", "/steps/0/retry")]),
        ("half a retry", step(json!({"retry": {"max": 2.5}})), &[("WRONG_TYPE", "/steps/0/retry/max")]),
        ("retries as text", step(json!({"retry": {"max": "3"}})), &[("WRONG_TYPE", "/steps/0/retry/max")]),
        ("a first wait above the last", step(json!({"retry": {"initial_ms": 5000, "max_ms": 100}})), &[("INVALID_RETRY_POLICY", "/steps/0/retry")]),
        ("a shrinking wait", step(json!({"retry": {"factor": 0.5}})), &[("INVALID_RETRY_POLICY", "/steps/0/retry/factor")]),
        ("a wait that is none", step(json!({"retry": {"backoff": {"initial": "soon"}}})), &[("INVALID_RETRY_POLICY", "/steps/0/retry/backoff/initial")]),
        ("no time at all", step(json!({"timeout_ms": 0})), &[("OUT_OF_RANGE", "/steps/0/timeout_ms")]),
        ("all the time in the world", step(json!({"timeout": 1e18})), &[("OUT_OF_RANGE", "/steps/0/timeout")]),
        ("a timeout that is none", step(json!({"timeout": "soon"})), &[("INVALID_TIMEOUT", "/steps/0/timeout")]),
        ("a timeout of the wrong type", step(json!({"timeout": true})), &[("WRONG_TYPE", "/steps/0/timeout")]),
        ("two timeouts", step(json!({"timeout": "5s", "timeout_ms": 6000})), &[("CONFLICTING_FIELDS", "/steps/0/timeout_ms")]),
        ("priority 11", step(json!({"priority": 11})), &[("OUT_OF_RANGE", "/steps/0/priority")]),
        ("priority 0", step(json!({"priority": 0})), &[("OUT_OF_RANGE", "/steps/0/priority")]),
        ("more than there is to wait for", json!([{"id": "a"}, {"id": "b", "needs": ["a"], "join": {"at_least": 2}}]), &[("JOIN_IMPOSSIBLE", "/1/join")]),
        ("nothing to wait for", json!([{"id": "a"}, {"id": "b", "needs": ["a"], "join": {"at_least": 0}}]), &[("JOIN_IMPOSSIBLE", "/1/join")]),
        ("an unknown join", step(json!({"join": "some"})), &[("INVALID_VALUE", "/steps/0/join")]),
        ("an unknown end of failures", step(json!({"on_failure": "explode"})), &[("INVALID_VALUE", "/steps/0/on_failure")]),
        ("a contradiction about failures", step(json!({"on_failure": "abort", "continue_on_failure": true})), &[("CONFLICTING_FIELDS", "/steps/0/continue_on_failure")]),
        ("an unknown strategy", json!({"strategy": "fast", "steps": [{"id": "a"}]}), &[("INVALID_VALUE", "/strategy")]),
        ("no width", json!({"max_parallel": 0, "steps": [{"id": "a"}]}), &[("OUT_OF_RANGE", "/max_parallel")]),
        ("a negative budget", json!({"budget": {"cost": -1}, "steps": [{"id": "a"}]}), &[("OUT_OF_RANGE", "/budget/cost")]),
        ("an unknown phase", json!({"phases": [{"id": "search"}], "steps": [{"id": "a", "phase": "serach"}]}), &[("PHASE_UNKNOWN", "/steps/0/phase")]),
        ("phases in the wrong order", json!({"phases": [{"id": "p", "steps": [{"id": "a", "needs": ["b"]}]}, {"id": "q", "steps": [{"id": "b"}]}]}), &[("PHASE_ORDER", "/phases/0/steps/0/needs/0")]),
        ("phases that wait for each other", json!({"phases": [{"id": "p"}, {"id": "q"}], "steps": [{"id": "a", "phase": "p", "needs": ["x"]}, {"id": "x", "needs": ["b"]}, {"id": "b", "phase": "q"}]}), &[("PHASE_ORDER", "/steps")]),
        ("a phase twice", json!({"phases": [{"id": "p", "steps": [{"id": "a"}]}, {"id": "p"}]}), &[("DUPLICATE_PHASE", "/phases/1")]),
        ("an expression that is none", step(json!({"inputs": {"q": ["{{ goal. }}"]}})), &[("INVALID_EXPRESSION", "/steps/0/inputs/q/0")]),
        ("an expression that runs code", step(json!({"args": "{{ ''.__class__.mro() }}"})), &[("INVALID_EXPRESSION", "/steps/0/args")]),
        ("an endless expression", step(json!({"when": "{% for i in range(10**9) %}x{% endfor %}"})), &[("INVALID_EXPRESSION", "/steps/0/when")]),
        ("an expression on any step", step(json!({"inputs": {"q": "{{ steps[goal.x].outputs }}"}})), &[("INVALID_EXPRESSION", "/steps/0/inputs/q")]),
        ("an expression on an unknown step", step(json!({"if": "steps.zz.outputs.x > 1"})), &[("REF_UNKNOWN_STEP", "/steps/0/if")]),
        ("an expression on its own step", step(json!({"cache": {"key": "{{ steps.a.outputs.x }}"}})), &[("REF_NOT_DEPENDENCY", "/steps/0/cache/key")]),
        ("an expression on another branch", json!([{"id": "a"}, {"id": "b"}, {"id": "c", "needs": ["a"], "inputs": {"x": "{{ steps.a.outputs }}{{ steps.b.status }}"}}]), &[("REF_NOT_DEPENDENCY", "/2/inputs/x")]),
        ("a schema that is none", step(json!({"output_schema": {"type": "strin"}})), &[("INVALID_SCHEMA", "/steps/0/output_schema")]),
        ("a schema that leads back to itself", step(json!({"output_schema": {"anyOf": [{"$ref": "#"}]}})), &[("SCHEMA_TOO_COMPLEX", "/steps/0/output_schema")]),
        ("a pattern without a bound", step(json!({"output_schema": {"pattern": "(a)\\1"}})), &[("INVALID_SCHEMA", "/steps/0/output_schema")]),
        ("a schema of the wrong type", step(json!({"output_schema": 3})), &[("WRONG_TYPE", "/steps/0/output_schema")]),
        ("a schema elsewhere", step(json!({"outputs": {"properties": {"x": {"$ref": "https://example.com/x"}}}})), &[("SCHEMA_REMOTE_REF", "/steps/0/outputs/properties/x/$ref")]),
        ("a plan step without plan", step(json!({"kind": "plan"})), &[("MISSING_FIELD", "/steps/0/plan")]),
        ("a bad plan inside", step(json!({"plan": {"steps": [{"id": "x", "needs": ["y"]}]}})), &[("UNKNOWN_DEPENDENCY", "/steps/0/plan/steps/0/needs/0")]),
        ("a bad plan inside a plan inside a plan", step(json!({"plan": {"steps": [{"id": "b", "plan": [{"id": "c", "plan": [{"id": "x", "needs": ["y"]}]}]}]}})), &[("UNKNOWN_DEPENDENCY", "/steps/0/plan/steps/0/plan/0/plan/0/needs/0")]),
        ("nothing to do inside", step(json!({"plan": []})), &[("EMPTY_PLAN", "/steps/0/plan")]),
        ("a plan inside another kind", step(json!({"kind": "llm", "plan": {"steps": [{"id": "x"}]}})), &[("INVALID_VALUE", "/steps/0/plan")]),
        ("an input that the step around the plan does not give", step(json!({"plan": [{"id": "b", "inputs": {"y": "{{ inputs.x }}"}}]})), &[("INPUT_MISSING", "/steps/0/plan/0/inputs/y")]),
        ("an input that the schema does not have", json!({"input_schema": {"properties": {"city": {}}}, "steps": [{"id": "a", "inputs": {"y": "{{ inputs.citty }}"}}]}), &[("INPUT_UNKNOWN", "/steps/0/inputs/y")]),
        ("a cache whose key is no text", step(json!({"cache": {"key": ["k"]}})), &[("WRONG_TYPE", "/steps/0/cache/key")]),
        ("an approval of the wrong type", step(json!({"approve": "yes"})), &[("WRONG_TYPE", "/steps/0/approve")]),
        ("everything at once", json!({"steps": [{"id": "a b", "timeout": 0}, {"id": "b", "needs": ["nope"], "retry": -1, "x": 1}], "strategy": 1}), &[
            ("WRONG_TYPE", "/strategy"), ("INVALID_ID", "/steps/0/id"), ("OUT_OF_RANGE", "/steps/0/timeout"), ("UNKNOWN_FIELD", "/steps/1/x"), ("OUT_OF_RANGE", "/steps/1/retry"), ("UNKNOWN_DEPENDENCY", "/steps/1/needs/0"),
        ]),
    ]
}

#[test]
fn a_cycle_is_spelled_the_way_it_would_run() {
    let plan = json!([
        {"id": "a", "needs": ["c"]}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["b", "x"]},
        {"id": "x", "needs": ["y"]}, {"id": "y"}, {"id": "z", "needs": ["c"]},
    ]);
    let issues = validate::validate_plan(&plan, &Limits::default()).unwrap_err();
    assert!(issues[0].detail.contains("a -> b -> c -> a"), "{issues:?}");
    assert_eq!(issues.len(), 1);
}

#[test]
fn the_mend_names_what_was_probably_meant() {
    let hints = |plan: Value| validate::validate_plan(&plan, &Limits::default()).unwrap_err().remove(0).hint;
    assert!(hints(json!({"stpes": []})).contains("`steps`"));
    assert!(hints(json!([{"id": "flights"}, {"id": "b", "needs": ["flihgts"]}])).contains("`flights`"));
    let itself = json!([{"id": "a", "needs": ["b"]}, {"id": "other_step"}]);
    assert!(!hints(itself).contains('`'), "not the step itself");
    let own = json!([{"id": "flight", "inputs": {"x": "{{ steps.flihgt.outputs }}"}}]);
    assert!(!hints(own).contains('`'), "not the step itself");
    assert!(hints(json!([{"id": "My Step"}])).contains("`my_step`"));
    let twice = validate::validate_plan(&json!([{"id": "a"}, {"id": "a"}]), &Limits::default()).unwrap_err().remove(0);
    assert!(twice.detail.contains("/0"), "{}", twice.detail);
}

#[test]
fn limits_on_steps_paths_and_depth_hold() {
    let code = |plan: &Value, limits: &Limits| {
        found(&validate::validate_plan(plan, limits).unwrap_err()).first().map(|(c, p)| (c.to_string(), p.to_string()))
    };
    let named = |code: &str, pointer: &str| Some((code.to_owned(), pointer.to_owned()));
    let many = json!({"steps": (0..100_000).map(|i| json!({"id": i})).collect::<Vec<_>>()});
    assert_eq!(code(&many, &Limits::default()), named("TOO_MANY_STEPS", "/steps"));
    let chain = json!(
        (0..11).map(|i| json!({"id": i, "needs": if i == 0 { vec![] } else { vec![i - 1] }})).collect::<Vec<_>>()
    );
    assert_eq!(code(&chain, &Limits { path_max: 10, ..Limits::default() }), named("PATH_TOO_LONG", ""));
    let wide = json!([{"id": "a"}, {"id": "b"}, {"id": "c", "needs": ["a", "b"]}]);
    assert_eq!(
        code(&wide, &Limits { dependencies_max: 1, ..Limits::default() }),
        named("TOO_MANY_DEPENDENCIES", "/2/needs")
    );
    let heavy = json!([{"id": "a", "inputs": "x".repeat(600)}, {"id": "b", "inputs": "x".repeat(600)}]);
    assert_eq!(code(&heavy, &Limits { plan_bytes_max: 1_000, ..Limits::default() }), named("PLAN_TOO_LARGE", ""));
    let mut deep = json!({"steps": [{"id": "x"}]});
    for _ in 0..4 {
        deep = json!({"steps": [{"id": "x", "plan": deep}]});
    }
    let issues = validate::validate_plan(&deep, &Limits::default()).unwrap_err();
    assert_eq!(issues[0].code, "PLAN_TOO_DEEP", "{issues:#?}");
    let later = json!([{"id": "a"}, {"id": "b", "kind": "plan", "description": "planned when it is reached"}]);
    assert_eq!(code(&later, &Limits::default().inside(3)), named("PLAN_TOO_DEEP", "/1/kind"));
    assert!(validate::validate_plan(&later, &Limits::default().inside(2)).is_ok());
}

#[test]
fn issues_are_counted_beyond_those_that_are_listed() {
    let plan = json!((0..500).map(|i| json!({"id": i, "needs": ["nope"]})).collect::<Vec<_>>());
    let issues = validate::validate_plan(&plan, &Limits::default()).unwrap_err();
    assert_eq!(issues.len(), 50);
    assert_eq!(issues[49].code, "MORE_ISSUES");
    assert!(issues[49].detail.contains("451") && issues[49].detail.contains("500"), "{}", issues[49].detail);
}

#[test]
fn bad_texts_get_their_code_and_place() {
    let latin = b"{\"steps\": [{\"id\": \"caf\xe9\"}]}".to_vec();
    let utf16: Vec<u8> = "{\"steps\": []}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut utf16_bom = vec![0xFF, 0xFE];
    utf16_bom.extend(&utf16);
    let brackets = "[".repeat(1_000_000).into_bytes();
    let cases: Vec<(&str, Format, Vec<u8>, &str, &str)> = vec![
        ("nothing", Format::Json, b"".to_vec(), "INVALID_JSON", ""),
        ("blanks", Format::Yaml, b" \n ".to_vec(), "INVALID_YAML", ""),
        ("a comma too many", Format::Json, b"{\"goal\": \"x\",}".to_vec(), "INVALID_JSON", ""),
        ("an end too early", Format::Auto, b"{\"steps\": [{\"id\": ".to_vec(), "INVALID_JSON", "/steps/0/id"),
        ("two texts", Format::Json, b"{\"steps\": []} {}".to_vec(), "INVALID_JSON", ""),
        (
            "a key twice",
            Format::Json,
            b"{\"steps\": [{\"id\": 1, \"id\": 2}]}".to_vec(),
            "DUPLICATE_KEY",
            "/steps/0/id",
        ),
        ("a key twice, in YAML", Format::Yaml, b"steps:\n- id: a\n  id: b\n".to_vec(), "DUPLICATE_KEY", "/steps/0/id"),
        ("NaN", Format::Json, b"{\"steps\": [{\"priority\": NaN}]}".to_vec(), "INVALID_NUMBER", "/steps/0/priority"),
        ("infinity", Format::Json, b"{\"x\": -Infinity}".to_vec(), "INVALID_NUMBER", "/x"),
        ("a number too large", Format::Json, b"{\"x\": 1e999}".to_vec(), "INVALID_NUMBER", "/x"),
        ("NaN in YAML", Format::Yaml, b"steps:\n- priority: .nan\n".to_vec(), "INVALID_NUMBER", "/steps/0/priority"),
        ("infinity in YAML", Format::Yaml, b"x: [1, -.inf]\n".to_vec(), "INVALID_NUMBER", "/x/1"),
        ("a million brackets", Format::Auto, brackets.clone(), "NESTING_TOO_DEEP", "*"),
        ("a million brackets in YAML", Format::Yaml, brackets, "NESTING_TOO_DEEP", ""),
        ("a million dashes in YAML", Format::Yaml, "- ".repeat(1_000_000).into_bytes(), "NESTING_TOO_DEEP", "*"),
        ("a million marks in YAML", Format::Yaml, "? ".repeat(1_000_000).into_bytes(), "*", "*"),
        ("65 brackets", Format::Json, ("[".repeat(65) + &"]".repeat(65)).into_bytes(), "NESTING_TOO_DEEP", "*"),
        ("65 brackets in YAML", Format::Yaml, ("[".repeat(65) + &"]".repeat(65)).into_bytes(), "NESTING_TOO_DEEP", "*"),
        ("Latin-1", Format::Json, latin, "INVALID_ENCODING", ""),
        ("UTF-16", Format::Auto, utf16, "INVALID_ENCODING", ""),
        ("UTF-16 with a mark", Format::Auto, utf16_bom, "INVALID_ENCODING", ""),
        ("bad indentation", Format::Yaml, b"steps:\n  - id: a\n bad: [\n".to_vec(), "INVALID_YAML", "*"),
        ("two documents", Format::Yaml, b"steps: []\n---\nsteps: []\n".to_vec(), "MULTIPLE_DOCUMENTS", ""),
        ("an unknown anchor", Format::Yaml, b"a: *nowhere\n".to_vec(), "INVALID_YAML", "*"),
        ("a tag", Format::Yaml, b"a: !python/object x\n".to_vec(), "INVALID_YAML", "/a"),
        ("a bomb of aliases", Format::Yaml, bomb().into_bytes(), "PLAN_TOO_LARGE", "*"),
        ("9 MB", Format::Json, vec![b' '; 9 << 20], "PLAN_TOO_LARGE", ""),
    ];
    for (name, format, text, code, pointer) in cases {
        let issues = validate::validate_text(&text, format, &Limits::default()).expect_err(name);
        assert!(code == "*" || issues[0].code == code, "{name}: {issues:?}");
        assert!(pointer == "*" || issues[0].pointer == pointer, "{name}: {issues:?}");
    }
}

#[test]
fn a_syntax_error_names_line_and_column() {
    let issues = validate::validate_text(b"{\"goal\": \"x\",}", Format::Json, &Limits::default()).unwrap_err();
    assert!(issues[0].detail.contains("line 1 column 14"), "{}", issues[0].detail);
    let issues = validate::validate_text(b"steps:\n  - {id: a\n", Format::Yaml, &Limits::default()).unwrap_err();
    assert!(issues[0].detail.contains("line 3 column 1"), "{}", issues[0].detail);
}

#[test]
fn bad_goals_get_their_code_and_place() {
    for (goal, expected) in [
        (json!(""), vec![("INVALID_VALUE", "")]),
        (json!({"description": "  "}), vec![("INVALID_VALUE", "/description")]),
        (json!({}), vec![("MISSING_FIELD", "/description")]),
        (json!({"descripton": "x"}), vec![("UNKNOWN_FIELD", "/descripton")]),
        (json!(7), vec![("WRONG_TYPE", "")]),
        (json!({"goal": 7}), vec![("WRONG_TYPE", "/goal")]),
        (json!({"query": "x", "priority": 0}), vec![("OUT_OF_RANGE", "/priority")]),
        (json!({"query": "x", "deadline": "tomorrow"}), vec![("INVALID_VALUE", "/deadline")]),
        (json!({"query": "x", "deadline": -1}), vec![("OUT_OF_RANGE", "/deadline")]),
        (json!({"query": "x".repeat(20_000)}), vec![("TEXT_TOO_LONG", "/query")]),
        (json!({"query": "x", "success_criteria": [1]}), vec![("WRONG_TYPE", "/success_criteria/0")]),
    ] {
        let issues = validate::goal(&goal, &Limits::default()).map(|_| ()).unwrap_err();
        assert_eq!(found(&issues), expected, "{issues:#?}");
    }
}

fn found(issues: &[Issue]) -> Vec<(&str, &str)> {
    issues.iter().map(|issue| (issue.code.as_str(), issue.pointer.as_str())).collect()
}

/// Ten levels of ten: a few hundred bytes that stand for ten billion values.
fn bomb() -> String {
    let mut text = String::from("l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..10 {
        let list = vec![format!("*l{}", i - 1); 10].join(", ");
        text.push_str(&format!("l{i}: &l{i} [{list}]\n"));
    }
    text
}
