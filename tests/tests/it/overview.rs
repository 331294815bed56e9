//! The numbers of all plans, and those that wait for people.

use anyhow::Result;
use goalmill_common::id::PlanId;
use goalmill_tests::installation::{Installation, step};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

/// More plans than a page of the list has.
const RUNNING: usize = 120;

/// Waits until the overview fits; gives it.
async fn overview_that(it: &Installation, query: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let read = async || it.get(&format!("/v1/overview{query}")).await.expect("the overview is there");
    let last = std::sync::Mutex::new(Value::Null);
    let is_there = until(SOON, async || {
        let found = read().await;
        let does_fit = fits(&found);
        *last.lock().expect("nobody panics with it") = found;
        does_fit
    });
    is_there.await;
    last.into_inner().expect("nobody panics with it")
}

fn ids(overview: &Value) -> Vec<String> {
    let items = overview["waiting"].as_array().expect("plans that wait");
    items.iter().map(|plan| plan["plan_id"].as_str().expect("it has an id").to_owned()).collect()
}

/// A plan whose approval has a time limit of so many minutes.
async fn awaiting(it: &Installation, minutes: u64, default: &str) -> Result<PlanId> {
    let approve = json!({"limit": format!("{minutes}m"), "default": default});
    it.submit(&json!({"approve": approve, "steps": [step("a", "nobody", &[], json!({}))]})).await
}

async fn counts_and_urgency(it: Installation) -> Result<()> {
    let plan = json!({"steps": [step("a", "nobody", &[], json!({}))]});
    for started in futures_util::future::join_all((0..RUNNING).map(|_| it.submit(&plan))).await {
        started?;
    }
    let failed = it.submit(&json!({"steps": [step("a", "fail", &[], json!({"code": "NO"}))]})).await?;
    let late = awaiting(&it, 180, "approve").await?;
    let soon = awaiting(&it, 20, "reject").await?;
    let mut gate = step("gate", "nobody", &[], json!({}));
    gate["approve"] = json!({"limit": "60m"});
    let mut asks = step("asks", "nobody", &[], json!({}));
    asks["ask"] = json!({"question": "How many?", "limit": "40m", "into": "n"});
    let two = it.submit(&json!({"steps": [gate, asks]})).await?;

    let is_complete = |found: &Value| found["waits"] == 4 && found["with_failures"] == 1;
    let found = overview_that(&it, "", is_complete).await;
    assert_eq!(found["plans"], RUNNING + 4, "{found:#}");
    assert_eq!(found["statuses"], json!({"running": RUNNING + 1, "awaiting_approval": 2, "failed": 1}), "{found:#}");
    assert_eq!(ids(&found), [soon.as_str(), two.as_str(), late.as_str()], "the soonest deadline comes first");
    assert_eq!(found["waiting"][1]["waits"]["count"], 2);
    assert_eq!(ids(&it.get("/v1/overview?limit=1").await?), [soon.as_str()]);
    assert_eq!(it.get("/v1/overview?limit=501").await?["code"], "INVALID_REQUEST");
    let listed = it.get("/v1/plans?with_failures=true").await?;
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(listed["items"][0]["plan_id"], failed.as_str());

    for (plan, default) in [(&soon, "reject"), (&late, "approve")] {
        let view = it.get(&format!("/v1/plans/{plan}")).await?;
        assert_eq!(view["decision"]["default"], default, "{view:#}");
        assert_eq!(view["decision"]["due_at"], view["waits"]["due_at"], "{view:#}");
        assert!(view["decision"]["due_at"].is_string(), "{view:#}");
    }
    let view = it.get(&format!("/v1/plans/{two}")).await?;
    assert_eq!(view["waits"]["due_at"], view["steps"][1]["question"]["due_at"], "the first of both: {view:#}");
    assert_eq!(view["steps"][0]["decision"]["default"], "reject", "{view:#}");
    assert!(view["steps"][1].get("decision").is_none() && view.get("decision").is_none(), "{view:#}");

    it.post(&format!("/v1/plans/{soon}:approve"), &json!({})).await?;
    it.post(&format!("/v1/plans/{two}/steps/asks:answer"), &json!({"answer": 3})).await?;
    let left = overview_that(&it, "", |found| found["waits"] == 2).await;
    assert_eq!(ids(&left), [two.as_str(), late.as_str()], "{left:#}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_counts_all_plans_and_lists_the_most_urgent_first() -> Result<()> {
    counts_and_urgency(Installation::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_over_redis_counts_all_plans_and_lists_the_most_urgent_first() -> Result<()> {
    let server = RedisServer::start().await?;
    counts_and_urgency(Installation::over(&server).await?).await
}
