//! Callbacks: an agent accepts a task and reports later, also to a scheduler that was started meanwhile.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_tests::dev::Dev;
use goalmill_tests::installation::http_client;
use goalmill_tests::wait::{SOON, until};
use reqwest::StatusCode;
use serde_json::{Value, json};

/// Settings with an agent that keeps its task in a file, says that it accepts it, and ends.
fn settings(task: &Path) -> String {
    let file = task.display();
    let script = format!("cat > {file}.new && mv {file}.new {file} && echo '{{\"accepted\": true}}'");
    format!(
        "[scheduler]\nshard_lease_ms = 3600000\ntask_lease_ms = 3600000\n\n[worker.agents.printer]\nkind = \"command\"\n\
         argv = {}\nenv = [\"PATH\"]\n",
        json!(["/bin/sh", "-c", script])
    )
}

fn submit(dev: &Dev, timeout: &str) -> Result<String> {
    let print = json!({"id": "print", "agent_type": "printer", "callback": true, "timeout": timeout, "retry": 0});
    let ship = json!({"id": "ship", "kind": "finish", "depends_on": ["print"],
                      "inputs": {"pages": "{{ steps.print.outputs.pages }}"}});
    let file = dev.file("plan.json");
    std::fs::write(&file, json!({"name": "print", "steps": [print, ship]}).to_string())?;
    let path = file.to_str().context("the path is text")?;
    Ok(dev.says(&["run", path, "-o", "name"], 0)?.trim().to_owned())
}

fn step(dev: &Dev, plan: &str) -> Value {
    let text = dev.says(&["step", "get", plan, "print", "-o", "json"], 0).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// The callback of the task that the agent has kept.
fn callback(task: &Path) -> Result<(String, String)> {
    let task: Value = serde_json::from_str(&std::fs::read_to_string(task)?)?;
    let text = |field: &str| task["task"]["callback"][field].as_str().map(str::to_owned);
    text("url").zip(text("token")).context("the task has a callback")
}

async fn call_back(url: &str, token: &str, body: &Value) -> Result<(StatusCode, Value)> {
    let request = http_client().post(url).timeout(Duration::from_mins(1)).header("goalmill-callback-token", token);
    let answer = request.json(body).send().await?;
    Ok((answer.status(), answer.json().await?))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_completes_the_step_after_kill_9_and_once() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (task, data) = (dir.path().join("task"), dir.path().join("data"));
    let arguments = ["--data-dir", data.to_str().context("the path is text")?];
    let mut dev = Dev::start(&arguments, &settings(&task)).await?;
    let plan = submit(&dev, "1h")?;
    until(SOON, async || step(&dev, &plan)["status"] == "waiting").await;
    let explained = dev.says(&["explain", &plan], 0)?;
    assert!(explained.contains("reports by callback"), "{explained}");
    let (url, token) = callback(&task)?;
    assert!(url.starts_with(dev.server()), "{url}");
    dev.restart(&arguments).await?;
    let url = format!("{}/v1/callbacks/{plan}/print/1", dev.server());
    until(SOON, async || step(&dev, &plan)["status"] == "waiting").await;

    let done = json!({"outputs": {"pages": 3, "text": "x".repeat(200 << 10)}, "cost": 0.5});
    let (status, refused) = call_back(&url, "guess", &done).await?;
    assert_eq!((status, refused["code"].as_str()), (StatusCode::NOT_FOUND, Some("NOT_FOUND")));
    let (status, _) = call_back(&format!("{url}7"), &token, &done).await?;
    assert_eq!(status, StatusCode::NOT_FOUND, "the token is that of one attempt");
    let (status, refused) = call_back(&url, &token, &json!({"outputs": null})).await?;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
    let huge = json!({"outputs": "x".repeat(300 << 10)});
    assert_eq!(call_back(&url, &token, &huge).await?.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(step(&dev, &plan)["status"], "waiting");

    let (status, receipt) = call_back(&url, &token, &done).await?;
    assert_eq!((status, &receipt["step_id"]), (StatusCode::OK, &json!("print")), "{receipt}");
    dev.says(&["watch", &plan], 0)?;
    assert_eq!(step(&dev, &plan)["outputs"], done["outputs"]);
    assert_eq!(call_back(&url, &token, &done).await?.0, StatusCode::OK, "the same again, after the end");
    let (status, refused) = call_back(&url, &token, &json!({"outputs": {"pages": 4}})).await?;
    assert_eq!((status, refused["code"].as_str()), (StatusCode::CONFLICT, Some("NOT_ALLOWED")));
    let log = dev.says(&["events", &plan, "-o", "jsonl"], 0)?;
    assert!(!log.contains(&token), "the token is in no event");
    assert_eq!(log.matches("\"callback_received\"").count(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_after_its_time_is_refused_and_a_token_may_stand_in_the_body() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let task = dir.path().join("task");
    let dev = Dev::start(&[], &settings(&task)).await?;
    let plan = submit(&dev, "1s")?;
    dev.says(&["watch", &plan], 3)?;
    assert_eq!(step(&dev, &plan)["failure"]["code"], "CALLBACK_TIMEOUT");
    let (url, token) = callback(&task)?;
    let (status, refused) = call_back(&url, &token, &json!({"outputs": {}})).await?;
    assert_eq!((status, refused["code"].as_str()), (StatusCode::CONFLICT, Some("PLAN_FINAL")));

    let plan = submit(&dev, "1h")?;
    until(SOON, async || step(&dev, &plan)["status"] == "waiting").await;
    let (url, token) = callback(&task)?;
    let failed = json!({"token": token, "error": {"code": "NO_PAPER", "message": "there is no paper"}});
    assert_eq!(call_back(&url, "", &failed).await?.0, StatusCode::NOT_FOUND, "the header counts");
    let large = json!({"token": token, "outputs": "x".repeat(200 << 10)});
    let answer = http_client().post(&url).json(&large).send().await?;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE, "only the header allows it");
    let answer = http_client().post(&url).json(&failed).send().await?;
    assert_eq!(answer.status(), StatusCode::OK);
    dev.says(&["watch", &plan], 3)?;
    assert_eq!(step(&dev, &plan)["failure"]["code"], "NO_PAPER");
    Ok(())
}
