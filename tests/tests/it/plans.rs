//! Plans run to their ends, over both back ends.

use std::time::Duration;

use anyhow::Result;
use goalmill_common::plan::Plan;
use goalmill_tests::audit::{Expect, audit};
use goalmill_tests::installation::{Installation, step};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::until_some;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);

fn diamond() -> Value {
    json!({
        "name": "diamond",
        "steps": [
            step("a", "echo", &[], json!({"x": 2})),
            step("b", "echo", &["a"], json!({"y": "{{ steps.a.outputs.x * 3 }}"})),
            step("c", "sleep", &["a"], json!({"ms": 5})),
            step("d", "echo", &["b", "c"], json!({"y": "{{ steps.b.outputs.y }}"})),
        ]
    })
}

async fn runs_a_diamond(installation: Installation) -> Result<()> {
    let id = installation.submit(&diamond()).await?;
    let plan = installation.await_end(&id, LIMIT).await?;
    assert_eq!(plan["status"], "completed", "{plan:#}");
    let results = installation.get(&format!("/v1/plans/{id}/results")).await?;
    assert_eq!(results["results"]["d"]["y"], json!(6), "{results:#}");
    let lines: Vec<Value> = installation
        .log(&id)
        .await?
        .iter()
        .map(|record| serde_json::from_str(&record.to_line()).expect("a line is JSON"))
        .collect();
    let spec: Plan = serde_json::from_value(installation.get(&format!("/v1/plans/{id}/graph")).await?)?;
    assert_eq!(audit(&spec, &lines, Expect::Completed), Vec::<String>::new());
    installation.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_runs_to_its_end_on_the_embedded_back_end() -> Result<()> {
    runs_a_diamond(Installation::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_runs_to_its_end_over_redis() -> Result<()> {
    let server = RedisServer::start().await?;
    runs_a_diamond(Installation::over(&server).await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_inside_a_step_is_routed_too() -> Result<()> {
    let installation = Installation::embedded().await?;
    let say = json!({"id": "say", "agent_type": "auto", "description": "echo the inputs", "inputs": {"x": 1}});
    let plan = json!({"steps": [{"id": "whole", "kind": "plan", "plan": {"steps": [say]}}]});
    let id = until_some(LIMIT, async || installation.submit(&plan).await.ok()).await.expect("an agent is there soon");
    assert_eq!(installation.await_end(&id, LIMIT).await?["status"], "completed");
    let step = installation.get(&format!("/v1/plans/{id}/steps/whole")).await?;
    let sub_plan = step["sub_plan"].as_str().expect("the step names its sub-plan");
    let inner = installation.get(&format!("/v1/plans/{sub_plan}")).await?;
    assert_eq!((&inner["status"], &inner["parent"]), (&json!("completed"), &json!(id)));
    assert_eq!(inner["steps"][0]["sub_plan"], json!(null));
    installation.stop().await;
    Ok(())
}
