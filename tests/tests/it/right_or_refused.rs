//! Expressions of plans, from submission to result: each gives what its author wrote, or an error that says why not.

use anyhow::Result;
use goalmill_broker::embedded;
use goalmill_common::clock::Clock;
use goalmill_tests::installation::{Installation, settings, step};
use goalmill_tests::wait::SOON;
use serde_json::{Value, json};

/// An installation in which fields over 2 KiB are stored.
async fn installation() -> Result<Installation> {
    let mut settings = settings();
    settings.limits.inline_bytes_max = 2 << 10;
    settings.limits.expression_bytes_max = 64 << 10;
    Installation::start(embedded::open(None, Clock::system())?, settings).await
}

fn when(id: &str, condition: &str) -> Value {
    let mut step = step(id, "echo", &["a"], json!({"ran": true}));
    step["when"] = condition.into();
    step
}

async fn run(it: &Installation, plan: &Value) -> Result<Value> {
    let id = it.submit(plan).await?;
    it.await_end(&id, SOON).await
}

fn of<'v>(plan: &'v Value, step: &str) -> &'v Value {
    let steps = plan["steps"].as_array().into_iter().flatten();
    steps.into_iter().find(|at| at["id"] == step).unwrap_or(&Value::Null)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_output_is_the_value_in_inputs_conditions_and_criteria() -> Result<()> {
    let it = installation().await?;
    let text = "word ".repeat(2_000);
    let rows: Vec<Value> = (0..100).map(|id| json!({"id": id, "t": "x".repeat(50)})).collect();
    let plan = json!({
        "goal": {"description": "read", "success_criteria": ["steps.a.outputs.rows | length == 100"]},
        "steps": [
            step("a", "echo", &[], json!({"text": text, "rows": rows})),
            step("b", "echo", &["a"], json!({
                "length": "{{ steps.a.outputs.text | length }}", "prompt": "{{ steps.a.outputs.text[:4] }}: read",
                "is_string": "{{ steps.a.outputs.text is string }}", "first": "{{ steps.a.outputs.rows | first }}",
            })),
            when("c", "steps.a.outputs.rows | length > 2"),
            when("d", "steps.a.outputs.rows | length > 200"),
            {"id": "e", "kind": "finish", "dependencies": ["a"], "inputs": {"last": "{{ steps.a.outputs.rows[99].id }}"}},
        ],
    });
    let ended = run(&it, &plan).await?;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    let outputs = &of(&ended, "b")["outputs"];
    assert_eq!((&outputs["length"], &outputs["prompt"]), (&json!(10_000), &json!("word: read")), "{outputs:#}");
    assert_eq!((&outputs["is_string"], &outputs["first"]["id"]), (&json!(true), &json!(0)));
    assert_eq!((&of(&ended, "c")["status"], &of(&ended, "d")["status"]), (&json!("completed"), &json!("skipped")));
    assert_eq!(of(&ended, "e")["outputs"], json!({"last": 99}));
    assert_eq!(ended["criteria"][0]["verdict"], "met", "{ended:#}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_over_the_limit_of_expressions_fails_the_step_that_reads_it() -> Result<()> {
    let it = installation().await?;
    let plan = json!({"continue_on_failure": true, "steps": [
        step("a", "echo", &[], json!({"text": "x".repeat(100_000)})),
        step("b", "echo", &["a"], json!({"n": "{{ steps.a.outputs.text | length }}"})),
        step("c", "echo", &["a"], json!({"n": "{{ steps.a.outputs.text }}"})),
    ]});
    let ended = run(&it, &plan).await?;
    let failure = &of(&ended, "b")["failure"];
    assert_eq!(failure["code"], "PAYLOAD_TOO_LARGE", "{ended:#}");
    let message = failure["message"].as_str().unwrap_or_default();
    for word in ["steps.a.outputs.text", "100002 bytes", "limits.expression_bytes_max"] {
        assert!(message.contains(word), "{word}: {message}");
    }
    assert_eq!(of(&ended, "c")["status"], "completed", "{ended:#}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn comparisons_across_types_fail_and_texts_that_say_no_are_false() -> Result<()> {
    let it = installation().await?;
    let conditions = [
        ("text_gt", "steps.a.outputs.one > 2"),
        ("text_lt", "steps.a.outputs.ten < 9"),
        ("word_gt", "steps.a.outputs.word > 5"),
        ("null_lt", "steps.a.outputs.nothing < 2"),
        ("list_gt", "steps.a.outputs.list > 1"),
    ];
    let values = json!({"one": "1", "ten": "10", "word": "abc", "nothing": null, "list": [], "no": "false"});
    let mut steps = vec![step("a", "echo", &[], values)];
    steps.extend(conditions.iter().map(|(id, condition)| when(id, condition)));
    steps.push(when("no_bool", "steps.a.outputs.no | bool"));
    let ended = run(&it, &json!({"continue_on_failure": true, "steps": steps})).await?;
    for (id, _) in conditions {
        assert_eq!(of(&ended, id)["failure"]["code"], "EXPRESSION_FAILED", "{id}: {ended:#}");
    }
    assert_eq!(of(&ended, "no_bool")["status"], "skipped", "{ended:#}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_over_64_bits_are_refused_wherever_they_come_in() -> Result<()> {
    let it = installation().await?;
    let plan = r#"{"steps": [{"id": "a", "agent_type": "echo", "inputs": {"n": 123456789012345678901}}]}"#;
    for (path, media, body) in [
        ("/v1/plans", "application/json", plan.to_owned()),
        (
            "/v1/plans",
            "application/yaml",
            "steps: [{id: a, agent_type: echo, inputs: {n: 123456789012345678901}}]".into(),
        ),
        ("/v1/plans:validate", "application/json", plan.to_owned()),
    ] {
        let request = it.http.post(it.url(path)).header("content-type", media).body(body);
        let answer: Value = request.send().await?.json().await?;
        let issues = answer["errors"].as_array().or(answer["issues"].as_array()).cloned().unwrap_or_default();
        let codes: Vec<&Value> = issues.iter().map(|issue| &issue["code"]).collect();
        assert!(codes.contains(&&json!("INVALID_NUMBER")), "{path} {media}: {answer:#}");
        assert_eq!(issues[0]["pointer"], "/steps/0/inputs/n", "{answer:#}");
    }
    let plan = json!({"steps": [
        step("a", "echo", &[], json!({"n": i64::MAX, "m": u64::MAX})),
        step("b", "echo", &["a"], json!({"n": "{{ steps.a.outputs.n }}", "m": "{{ steps.a.outputs.m + 0 }}"})),
    ]});
    let ended = run(&it, &plan).await?;
    assert_eq!(of(&ended, "b")["outputs"], json!({"n": i64::MAX, "m": u64::MAX}), "{ended:#}");
    it.stop().await;
    Ok(())
}
