//! Numbers for autoscalers: the whole backlog of an agent type, at every scheduler.

use anyhow::Result;
use goalmill_tests::installation::{Installation, step};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

/// An agent type that no worker serves.
const UNSERVED: &str = "unserved";

/// Steps of each plan: more than a shard sends ahead to a queue without workers.
const STEPS: u64 = 100;

fn wide(limits: &Value) -> Value {
    let steps: Vec<Value> = (0..STEPS).map(|n| step(&format!("s{n}"), UNSERVED, &[], json!({}))).collect();
    let mut plan = json!({"steps": steps});
    for (name, value) in limits.as_object().expect("an object") {
        plan[name] = value.clone();
    }
    plan
}

async fn scaling(url: &str) -> Value {
    let answer = reqwest::get(format!("{url}/v1/scaling/{UNSERVED}")).await.expect("the scheduler answers");
    answer.json().await.expect("it is JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_that_wait_in_memory_count_at_every_scheduler() -> Result<()> {
    let server = RedisServer::start().await?;
    let mut it = Installation::over(&server).await?;
    it.add_scheduler().await?;
    let urls = it.urls();
    assert_eq!(urls.len(), 2);
    for _ in 0..8 {
        it.submit(&wide(&json!({}))).await?;
    }
    for url in &urls {
        until(SOON, async || scaling(url).await["desired_slots"] == 8 * STEPS).await;
        let seen = scaling(url).await;
        assert!(seen["ready"].as_u64() > Some(0), "streams are kept short: {seen}");
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_that_only_their_plan_holds_back_do_not_count() -> Result<()> {
    let it = Installation::embedded().await?;
    it.submit(&wide(&json!({"max_parallel": 3}))).await?;
    until(SOON, async || scaling(&it.url("")).await["waiting"] == 3).await;
    until(SOON, async || scaling(&it.url("")).await["desired_slots"] == 3).await;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_memory_does_not_count_while_the_queue_is_paused() -> Result<()> {
    let it = Installation::embedded().await?;
    it.submit(&wide(&json!({}))).await?;
    until(SOON, async || scaling(&it.url("")).await["desired_slots"] == STEPS).await;
    let sent = scaling(&it.url("")).await["waiting"].clone();
    let (status, answer) = it.post(&format!("/v1/queues/{UNSERVED}:pause"), &json!({})).await?;
    assert_eq!(status, 200, "{answer}");
    until(SOON, async || scaling(&it.url("")).await["desired_slots"] == sent).await;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_is_tried_again_soon_counts() -> Result<()> {
    let it = Installation::embedded().await?;
    for (initial_ms, counts) in [(20_000, 1), (600_000, 0)] {
        let mut failing = step("a", "fail", &[], json!({"class": "transient"}));
        failing["retry"] = json!({"max": 3, "initial_ms": initial_ms, "max_ms": initial_ms, "jitter": "none"});
        let plan = it.submit(&json!({"steps": [failing]})).await?;
        let url = it.url("/v1/scaling/fail");
        let due_soon =
            async || -> Result<Value> { Ok(reqwest::get(&url).await?.json::<Value>().await?["due_soon"].clone()) };
        until(SOON, async || {
            it.get(&format!("/v1/plans/{plan}")).await.expect("it answers")["steps"][0]["status"] == "retrying"
        })
        .await;
        until(SOON, async || due_soon().await.expect("it answers") == counts).await;
        it.post(&format!("/v1/plans/{plan}:cancel"), &json!({})).await?;
        until(SOON, async || due_soon().await.expect("it answers") == 0).await;
    }
    it.stop().await;
    Ok(())
}
