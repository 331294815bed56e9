//! Bad plans over HTTP: each refused with its code and place, at once, and nothing else suffers.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use goalmill_tests::installation::{Installation, step};
use serde_json::{Value, json};
use tokio::time::Instant;

const LIMIT: Duration = Duration::from_mins(1);
/// Bad input must not take longer than this to be refused; unoptimised code gets more time.
const AT_ONCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 300 } else { 1 });

/// What is sent, and how it must be refused: status, code, code and place of the first error.
struct Case {
    name: &'static str,
    body: Vec<u8>,
    status: u16,
    code: &'static str,
    issue: &'static str,
    pointer: &'static str,
}

fn case(
    name: &'static str,
    body: impl Into<Vec<u8>>,
    (status, code): (u16, &'static str),
    (issue, pointer): (&'static str, &'static str),
) -> Case {
    Case { name, body: body.into(), status, code, issue, pointer }
}

const SYNTAX: (u16, &str) = (400, "INVALID_JSON");
const PLAN: (u16, &str) = (422, "INVALID_PLAN");
const NONE: (&str, &str) = ("", "");
/// Some place too deep to be spelled out.
const DEEP: &str = "/…";

/// A plan of one step with more fields.
fn with(fields: &Value) -> String {
    let mut step = json!({"id": "a", "agent_type": "echo"});
    step.as_object_mut().expect("it is an object").extend(fields.as_object().expect("it is an object").clone());
    json!({"steps": [step]}).to_string()
}

fn chain(steps: usize) -> String {
    let mut text = String::from(r#"{"steps":["#);
    for n in 0..steps {
        let comma = if n == 0 { "" } else { "," };
        let before = n.checked_sub(1).map(|before| format!("\"s{before}\"")).unwrap_or_default();
        write!(text, r#"{comma}{{"id":"s{n}","agent_type":"echo","dependencies":[{before}]}}"#)
            .expect("memory takes it");
    }
    text + "]}"
}

/// Edges to steps that are not there but look like many that are.
fn slips(edges: usize) -> String {
    let edge = |n| json!({"from": "research-and-summary-0", "to": format!("research-ant-summary-{n}")});
    let node = |n| json!({"id": format!("research-and-summary-{n}"), "agent_type": "echo"});
    let nodes: Vec<Value> = (0..2_000).map(node).collect();
    json!({"nodes": nodes, "edges": (0..edges).map(edge).collect::<Vec<_>>()}).to_string()
}

/// Steps of phases that are not there but look like many that are.
fn phases(steps: usize) -> String {
    let phase = |n| json!({"id": format!("research-and-summary-{n}")});
    let step = |n| json!({"id": format!("s{n}"), "agent_type": "echo", "phase": format!("research-ant-summary-{n}")});
    let phases: Vec<Value> = (0..2_000).map(phase).collect();
    json!({"phases": phases, "steps": (0..steps).map(step).collect::<Vec<_>>()}).to_string()
}

fn unknown(fields: usize) -> String {
    let fields: Vec<String> = (0..fields).map(|n| format!("\"k{n}\":{n}")).collect();
    format!("{{{}}}", fields.join(","))
}

fn syntax() -> Vec<Case> {
    let utf16: Vec<u8> = r#"{"steps":[]}"#.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let nested = |open: &str, close: &str| format!("{{\"steps\":{}1{}}}", open.repeat(500), close.repeat(500));
    vec![
        case("empty body", "", SYNTAX, NONE),
        case("blanks only", " \n\t ", SYNTAX, NONE),
        case("trailing comma", r#"{"steps": [],}"#, SYNTAX, ("INVALID_JSON", "")),
        case("cut off", r#"{"steps": [{"id": "a""#, SYNTAX, ("INVALID_JSON", "/steps/0")),
        case("two documents", r#"{"steps": []} {"steps": []}"#, SYNTAX, ("INVALID_JSON", "")),
        case(
            "not a number",
            r#"{"steps": [{"id": "a", "priority": NaN}]}"#,
            PLAN,
            ("INVALID_NUMBER", "/steps/0/priority"),
        ),
        case(
            "infinite number",
            with(&json!({})).replace("\"echo\"", "\"echo\", \"cost\": 1e999"),
            PLAN,
            ("INVALID_NUMBER", "/steps/0/cost"),
        ),
        case("duplicate key", r#"{"steps": [], "steps": [{"id": "a"}]}"#, PLAN, ("DUPLICATE_KEY", "/steps")),
        case("duplicate key within", r#"{"steps": [{"id": "a", "id": "b"}]}"#, PLAN, ("DUPLICATE_KEY", "/steps/0/id")),
        case("nested lists", nested("[", "]"), PLAN, ("NESTING_TOO_DEEP", DEEP)),
        case("nested objects", nested("{\"a\":", "}"), PLAN, ("NESTING_TOO_DEEP", DEEP)),
        case("utf-16", utf16, PLAN, ("INVALID_ENCODING", "")),
        case("latin-1", b"{\"name\": \"caf\xe9\", \"steps\": []}".to_vec(), PLAN, ("INVALID_ENCODING", "")),
        case("a list", "[1, 2]", PLAN, ("WRONG_TYPE", "/0")),
        case("a text", "\"plan\"", PLAN, ("WRONG_TYPE", "")),
        case("yaml alias bomb", bomb(), PLAN, ("PLAN_TOO_LARGE", DEEP)),
    ]
}

fn bomb() -> String {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        let last = n - 1;
        writeln!(text, "a{n}: &a{n} [*a{last}, *a{last}, *a{last}, *a{last}, *a{last}, *a{last}, *a{last}, *a{last}]")
            .expect("memory takes it");
    }
    text + "steps: *a11\n"
}

fn graphs() -> Vec<Case> {
    let plan = |steps: Value| json!({"steps": steps}).to_string();
    let s = |id: &str, dependencies: &[&str]| step(id, "echo", dependencies, json!({}));
    let cycle = json!([s("a", &["c"]), s("b", &["a"]), s("c", &["b"])]);
    vec![
        case("no steps", "{}", PLAN, ("MISSING_FIELD", "/steps")),
        case("empty steps", plan(json!([])), PLAN, ("EMPTY_PLAN", "/steps")),
        case("cycle", plan(cycle), PLAN, ("PLAN_CYCLE", "/steps/0/dependencies/0")),
        case("depends on itself", plan(json!([s("a", &["a"])])), PLAN, ("SELF_DEPENDENCY", "/steps/0/dependencies/0")),
        case(
            "unknown dependency",
            plan(json!([s("a", &["zz"])])),
            PLAN,
            ("UNKNOWN_DEPENDENCY", "/steps/0/dependencies/0"),
        ),
        case("same id twice", plan(json!([s("a", &[]), s("a", &[])])), PLAN, ("DUPLICATE_STEP_ID", "/steps/1/id")),
        case("100,000 steps", chain(100_000), PLAN, ("TOO_MANY_STEPS", "/steps")),
        case("20,000 edges to slips", slips(20_000), PLAN, ("UNKNOWN_DEPENDENCY", "/edges/0/to")),
        case("9,000 slips of phases", phases(9_000), PLAN, ("PHASE_UNKNOWN", "/steps/0/phase")),
        case("steps as text", plan(json!("all of them")), PLAN, ("WRONG_TYPE", "/steps")),
        case("a step as a number", plan(json!([5])), PLAN, ("WRONG_TYPE", "/steps/0")),
        case("unknown field of a plan", r#"{"stpes": []}"#, PLAN, ("UNKNOWN_FIELD", "/stpes")),
        case("blank in an id", plan(json!([s("a b", &[])])), PLAN, ("INVALID_ID", "/steps/0/id")),
        case(
            "nul in an id",
            "{\"steps\":[{\"id\":\"a\\u0000\",\"agent_type\":\"echo\"}]}",
            PLAN,
            ("INVALID_ID", "/steps/0/id"),
        ),
        case("id of 10 KB", plan(json!([s(&"x".repeat(10_000), &[])])), PLAN, ("INVALID_ID", "/steps/0/id")),
    ]
}

fn fields() -> Vec<Case> {
    let at = |fields: Value, issue: &'static str, pointer: &'static str, name: &'static str| {
        case(name, with(&fields), PLAN, (issue, pointer))
    };
    let large = |field: &str| with(&json!({field: "x".repeat(7 << 20)}));
    vec![
        case("100,000 unknown fields", unknown(100_000), PLAN, ("UNKNOWN_FIELD", "/k0")),
        at(json!({"nonsense": 1}), "UNKNOWN_FIELD", "/steps/0/nonsense", "unknown field of a step"),
        at(json!({"dependencies": "a"}), "SELF_DEPENDENCY", "/steps/0/dependencies", "dependencies as text"),
        at(json!({"dependencies": [1]}), "UNKNOWN_DEPENDENCY", "/steps/0/dependencies/0", "a dependency as a number"),
        at(json!({"dependencies": {"a": 1}}), "WRONG_TYPE", "/steps/0/dependencies", "dependencies as an object"),
        at(json!({"timeout": 0}), "OUT_OF_RANGE", "/steps/0/timeout", "no time at all"),
        at(json!({"timeout": 1e18}), "OUT_OF_RANGE", "/steps/0/timeout", "time for ever"),
        at(json!({"timeout": "soon"}), "INVALID_TIMEOUT", "/steps/0/timeout", "time in words"),
        at(json!({"retry": {"max": 1_000_000_000}}), "OUT_OF_RANGE", "/steps/0/retry/max", "a billion retries"),
        at(json!({"retry": {"max": -1}}), "OUT_OF_RANGE", "/steps/0/retry/max", "negative retries"),
        at(json!({"retry": {"max": 2.5}}), "WRONG_TYPE", "/steps/0/retry/max", "half a retry"),
        at(json!({"retry": {"max": "3"}}), "WRONG_TYPE", "/steps/0/retry/max", "retries as text"),
        at(
            json!({"retry": {"initial": 60, "max_backoff": 1}}),
            "INVALID_RETRY_POLICY",
            "/steps/0/retry",
            "backoff that shrinks",
        ),
        at(json!({"on_failure": "panic"}), "INVALID_VALUE", "/steps/0/on_failure", "unknown policy"),
        at(json!({"inputs": {"x": "{{ 1 +"}}), "INVALID_EXPRESSION", "/steps/0/inputs/x", "broken expression"),
        at(
            json!({"inputs": {"x": "{{ steps.zz.outputs.y }}"}}),
            "REF_UNKNOWN_STEP",
            "/steps/0/inputs/x",
            "expression about no step",
        ),
        at(json!({"when": "((("}), "INVALID_EXPRESSION", "/steps/0/when", "broken condition"),
        at(
            json!({"output_schema": {"$ref": "http://evil.example/s.json"}}),
            "SCHEMA_REMOTE_REF",
            "/steps/0/output_schema/$ref",
            "schema from elsewhere",
        ),
        case("description of 7 MB", large("description"), PLAN, ("TEXT_TOO_LONG", "/steps/0/description")),
        case(
            "inputs of 7 MB",
            with(&json!({"inputs": {"x": "x".repeat(7 << 20)}})),
            PLAN,
            ("INPUT_TOO_LARGE", "/steps/0/inputs"),
        ),
        case("id of 7 MB", with(&json!({"id": "x".repeat(7 << 20)})), PLAN, ("INVALID_ID", "/steps/0/id")),
        case("body of 10 MB", large("description").repeat(2), (413, "BODY_TOO_LARGE"), NONE),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_plan_is_refused_at_once_with_its_place() -> Result<()> {
    let it = Installation::embedded().await?;
    let cases: Vec<Case> = syntax().into_iter().chain(graphs()).chain(fields()).collect();
    assert!(cases.len() >= 40);
    let mut wrong = String::new();
    let mut slowest = (Duration::ZERO, "");
    for case in cases {
        let begun = Instant::now();
        let answer = it.http.post(it.url("/v1/plans")).body(case.body.clone()).send().await?;
        let took = begun.elapsed();
        slowest = slowest.max((took, case.name));
        let status = answer.status().as_u16();
        let problem: Value = answer.json().await?;
        let first = &problem["errors"][0];
        let pointer = first["pointer"].as_str().unwrap_or_default();
        let pointer = if case.pointer == DEEP && pointer.len() > 2 { DEEP } else { pointer };
        let was =
            (status, problem["code"].as_str().unwrap_or_default(), first["code"].as_str().unwrap_or_default(), pointer);
        let expected = (case.status, case.code, case.issue, case.pointer);
        if was != expected || took > AT_ONCE {
            writeln!(wrong, "{}: {was:?} after {took:?}, not {expected:?}: {}", case.name, problem["detail"])?;
        }
        assert!(problem.to_string().len() < 20_000, "{}: a refusal does not repeat the input", case.name);
    }
    assert!(wrong.is_empty(), "{wrong}");
    eprintln!("the slowest refusal, {}: {} ms", slowest.1, slowest.0.as_millis());
    let good = it.submit(&json!({"steps": [step("a", "echo", &[], json!({"x": 1}))]})).await?;
    assert_eq!(it.await_end(&good, LIMIT).await?["status"], "completed");
    assert_eq!(it.get("/v1/plans").await?["items"].as_array().map(Vec::len), Some(1), "nothing bad was begun");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_plan_does_not_hold_up_others() -> Result<()> {
    let it = Installation::embedded().await?;
    let large = chain(10_000).replace("\"echo\"", "\"nobody\"");
    let submits: Vec<_> =
        (0..4).map(|_| it.http.post(it.url("/v1/plans:validate")).body(large.clone()).send()).collect();
    let large = futures_util::future::join_all(submits);
    let alive = async {
        let mut slowest = Duration::ZERO;
        for _ in 0..50 {
            let begun = Instant::now();
            it.http.get(it.url("/livez")).send().await?;
            slowest = slowest.max(begun.elapsed());
        }
        Ok::<_, reqwest::Error>(slowest)
    };
    let (answers, slowest) = tokio::join!(large, alive);
    for answer in answers {
        assert_eq!(answer?.json::<Value>().await?["valid"], true);
    }
    assert!(slowest? < AT_ONCE, "others waited");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_goal_is_refused_with_its_place() -> Result<()> {
    let it = Installation::embedded().await?;
    for (body, status, code, pointer) in [
        (json!({}), 422, "INVALID_GOAL", "/description"),
        (json!({"description": ""}), 422, "INVALID_GOAL", "/description"),
        (json!({"description": 7}), 422, "INVALID_GOAL", "/description"),
        (json!({"description": "x", "priority": 11}), 422, "INVALID_GOAL", "/priority"),
        (json!({"description": "x", "deadline": "yesterday"}), 422, "INVALID_GOAL", "/deadline"),
        (json!({"description": "x", "budget": {"tokens": -1}}), 422, "INVALID_GOAL", "/budget/tokens"),
        (json!({"description": "x".repeat(20_000)}), 422, "INVALID_GOAL", "/description"),
        (json!([1]), 422, "INVALID_GOAL", ""),
    ] {
        let (was, problem) = it.post("/v1/goals", &body).await?;
        let shown = problem["errors"][0]["pointer"].as_str();
        assert_eq!((was, problem["code"].as_str(), shown), (status, Some(code), Some(pointer)), "{problem:#}");
    }
    it.stop().await;
    Ok(())
}
