//! Steps that wait, over the API and the command line, with real processes.

use anyhow::Result;
use goalmill_tests::dev::Dev;
use goalmill_tests::installation::step;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

/// Leases that are much longer than the test may take.
const SETTINGS: &str = "[scheduler]\nshard_lease_ms = 3600000\ntask_lease_ms = 3600000\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_outlasts_kill_9_and_ends_once() -> Result<()> {
    let data = tempfile::tempdir()?;
    let arguments = ["--data-dir", data.path().to_str().expect("a temporary directory has a plain name")];
    let mut dev = Dev::start(&arguments, SETTINGS).await?;
    let steps = [json!({"id": "pause", "kind": "wait", "for": "4s"}), step("after", "echo", &["pause"], json!({}))];
    let plan = submit(&dev, &json!({ "steps": steps }))?;
    until(SOON, async || step_of(&dev, &plan, 0)["status"] == "waiting").await;
    let explained = dev.says(&["explain", &plan], 0)?;
    assert!(explained.contains("`pause` waits until"), "{explained}");
    let due_at = step_of(&dev, &plan, 0)["due_at"].clone();
    dev.restart(&arguments).await?;
    until(SOON, async || view(&dev, &plan)["status"] == "completed").await;
    assert_eq!(step_of(&dev, &plan, 0)["outputs"], json!({"waited_until": due_at}));
    let of_pause: Vec<String> = dev.events(&plan)?.iter().filter_map(type_of_pause).collect();
    assert_eq!(of_pause, ["step_ready", "step_wait_started", "step_completed"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_ends_a_wait_whether_it_comes_before_or_after() -> Result<()> {
    let data = tempfile::tempdir()?;
    let arguments = ["--data-dir", data.path().to_str().expect("a temporary directory has a plain name")];
    let mut dev = Dev::start(&arguments, SETTINGS).await?;
    let schema = json!({"type": "object", "required": ["paid"]});
    let wait = |id: &str, event: &str, after: &[&str]| {
        let wait = json!({"event": event, "key": "17", "schema": schema, "timeout": "1h"});
        json!({"id": id, "kind": "wait", "wait": wait, "dependencies": after})
    };
    let steps = [wait("pause", "payment", &[]), wait("next", "delivery", &["pause"])];
    let plan = submit(&dev, &json!({ "steps": steps }))?;
    until(SOON, async || step_of(&dev, &plan, 0)["status"] == "waiting").await;
    assert_eq!(step_of(&dev, &plan, 0)["awaits"], json!({"event": "payment", "key": "17", "schema": schema}));
    let send = |dev: &Dev, name: &str, id: &str, data: &str, code: i32| {
        dev.says(&["event", "send", name, "--plan", &plan, "--key", "17", "--id", id, "--data", data], code)
    };
    send(&dev, "delivery", "d1", r#"{"paid": 2}"#, 0)?;
    dev.restart(&arguments).await?;
    send(&dev, "payment", "p0", r#"{"total": 1}"#, 8)?;
    send(&dev, "payment", "p1", r#"{"paid": 1}"#, 0)?;
    until(SOON, async || view(&dev, &plan)["status"] == "completed").await;
    assert_eq!(step_of(&dev, &plan, 0)["outputs"], json!({"paid": 1}));
    assert_eq!(step_of(&dev, &plan, 1)["outputs"], json!({"paid": 2}), "it was kept from before the wait");
    send(&dev, "payment", "p2", r#"{"paid": 3}"#, 1)?;
    Ok(())
}

fn submit(dev: &Dev, plan: &Value) -> Result<String> {
    let file = dev.file("plan.json");
    std::fs::write(&file, plan.to_string())?;
    Ok(dev.says(&["run", file.to_str().expect("it has a plain name"), "-o", "name"], 0)?.trim().to_owned())
}

fn view(dev: &Dev, plan: &str) -> Value {
    let text = dev.says(&["plan", "get", plan, "-o", "json"], 0).expect("the plan is there");
    serde_json::from_str(&text).expect("it is JSON")
}

fn step_of(dev: &Dev, plan: &str, place: usize) -> Value {
    view(dev, plan)["steps"][place].clone()
}

fn type_of_pause(event: &Value) -> Option<String> {
    (event["step_id"] == "pause").then(|| event["type"].as_str().unwrap_or_default().to_owned())
}
