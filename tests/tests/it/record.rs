//! The record of a plan: `goalmill events` answers what each agent received, returned and cost, and why each step that
//! did not run did not.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use goalmill_common::id::PlanId;
use goalmill_tests::dev::program;
use goalmill_tests::installation::{Installation, settings};
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);

fn plan() -> Value {
    json!({"phases": [{"id": "look"}, {"id": "book"}], "steps": [
        {"id": "a", "agent_type": "echo", "phase": "look", "inputs": {"text": "hello", "password": "hunter2"}},
        {"id": "f", "agent_type": "flaky", "phase": "look", "dependencies": ["a"], "retry": {"max": 2, "initial_ms": 1},
         "inputs": {"failures": 1, "about": "{{ steps.a.outputs.text }}"}},
        {"id": "never", "agent_type": "echo", "phase": "look", "dependencies": ["a"], "when": "steps.a.outputs.text == 'bye'"},
        {"id": "broken", "agent_type": "fail", "phase": "look", "on_failure": "continue", "retry": {"max": 0}},
        {"id": "after", "agent_type": "echo", "phase": "look", "dependencies": ["broken"]},
        {"id": "gate", "agent_type": "echo", "phase": "book", "dependencies": ["f"], "approve": true},
        {"id": "x", "agent_type": "echo", "phase": "book", "dependencies": ["gate"]},
        {"id": "y", "agent_type": "echo", "phase": "book", "dependencies": ["gate"]},
        {"id": "z", "agent_type": "echo", "phase": "book", "dependencies": ["gate"]},
    ]})
}

/// The lines of `goalmill events`.
async fn events(it: &Installation, plan: &PlanId, more: &[&str]) -> Result<Vec<Value>> {
    let mut command = program();
    command.args(["events", plan.as_str(), "-o", "jsonl", "--server", it.url("").trim_end_matches('/')]).args(more);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_a_plan_say_what_agents_received_and_why_steps_did_not_run() -> Result<()> {
    let mut settings = settings();
    settings.record.redact.fields = vec!["password".into()];
    let broker = goalmill_broker::embedded::open(None, goalmill_common::clock::Clock::system())?;
    let it = Installation::start(broker, settings).await?;
    let id = it.submit(&plan()).await?;
    let awaits = async || {
        let view = it.get(&format!("/v1/plans/{id}")).await.unwrap_or_default();
        let steps = view["steps"].as_array().cloned().unwrap_or_default();
        steps.iter().any(|step| step["id"] == "gate" && step["status"] == "awaiting_approval")
    };
    until(SOON, awaits).await;
    let view = it.get(&format!("/v1/plans/{id}")).await?;
    let phases: Vec<&Value> = view["phases"].as_array().expect("a list").iter().map(|phase| &phase["status"]).collect();
    assert_eq!(phases, ["failed", "running"]);
    let changes = json!([{"remove_step": {"step": "x"}}, {"skip_step": {"step": "y", "reason": "it is closed"}}]);
    let (status, answer) =
        it.post(&format!("/v1/plans/{id}:edit"), &json!({"changes": changes, "reason": "a shorter trip"})).await?;
    assert_eq!(status, 200, "{answer}");
    it.post(&format!("/v1/plans/{id}:cancel"), &json!({"reason": "nobody goes"})).await?;
    it.await_end(&id, LIMIT).await?;

    let log = events(&it, &id, &[]).await?;
    let mut received: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut ended: BTreeMap<String, Value> = BTreeMap::new();
    for event in log.iter().filter(|event| event["step_id"].is_string()) {
        let step = event["step_id"].as_str().expect("it is a text").to_owned();
        assert!(event["phase"].is_string(), "{event}");
        match event["type"].as_str().expect("it is a text") {
            "step_queued" => received.entry(step).or_default().push(event["data"]["inputs"].clone()),
            "step_completed" | "step_failed" | "step_skipped" | "step_cancelled" | "step_removed" => {
                assert!(ended.insert(step, event.clone()).is_none(), "a step ends once: {event}");
            }
            _ => {}
        }
    }
    // What each agent received, in every attempt.
    assert_eq!(received["a"], [json!({"text": "hello", "password": "[redacted]"})]);
    assert_eq!(received["f"], vec![json!({"failures": 1, "about": "hello"}); 2]);
    assert_eq!(received.keys().collect::<Vec<_>>(), ["a", "broken", "f"]);
    // What it returned and took.
    let done = |step: &str| &ended[step]["data"];
    assert_eq!((&ended["a"]["type"], &done("a")["outputs"]["text"]), (&json!("step_completed"), &json!("hello")));
    assert!(done("a")["duration_ms"].is_u64() && done("f")["duration_ms"].is_u64());
    let retried = log.iter().find(|event| event["type"] == "step_retrying").expect("the first attempt failed");
    assert_eq!((&retried["step_id"], retried["data"]["failure"]["code"].is_string()), (&json!("f"), true));
    assert_eq!(ended["broken"]["type"], "step_failed");
    // Why each step that did not run did not.
    assert_eq!((&done("never")["cause"], &done("after")["cause"]), (&json!("condition"), &json!("dependency_failed")));
    let reason = |step: &str| done(step)["reason"].as_str().unwrap_or_default();
    assert!(reason("after").contains("broken"), "{}", reason("after"));
    assert_eq!((&done("y")["cause"], reason("y")), (&json!("revision"), "it is closed"));
    assert!(reason("x").contains("a shorter trip"), "{}", reason("x"));
    for step in ["gate", "z"] {
        assert_eq!(ended[step]["type"], "step_cancelled");
        assert!(reason(step).contains("nobody goes"), "{}", reason(step));
    }
    let view = it.get(&format!("/v1/plans/{id}")).await?;
    assert_eq!(ended.len(), view["steps"].as_array().map_or(0, Vec::len), "every step has an end");

    // The same questions, asked one by one.
    let attempts = events(&it, &id, &["--types", "step_queued", "--step", "f"]).await?;
    assert_eq!(attempts.len(), 2);
    let booked = events(&it, &id, &["--phase", "book"]).await?;
    assert!(booked.iter().all(|event| event["phase"] == "book" || event["data"]["phase"] == "book"), "{booked:?}");
    assert!(booked.iter().any(|event| event["type"] == "phase_started"));
    let page = it.get(&format!("/v1/plans/{id}/events?types=step_cancelled&phase=book&limit=1")).await?;
    assert_eq!(page["items"].as_array().map(Vec::len), Some(2), "{page}");
    let live =
        it.http.get(it.url(&format!("/v1/plans/{id}/events?types=step_failed"))).header("Accept", "text/event-stream");
    let live = tokio::time::timeout(LIMIT, live.send().await?.text()).await??;
    assert_eq!(live.matches("data:").count(), 1, "{live}");
    assert_eq!(it.get(&format!("/v1/plans/{id}/events?types=step_flew")).await?["code"], "INVALID_REQUEST");
    it.stop().await;
    Ok(())
}
