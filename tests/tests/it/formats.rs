//! Documents of other planners over the interfaces: read and run.

use std::time::Duration;

use anyhow::Result;
use goalmill_tests::installation::Installation;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);

const SUBTASKS: &str = include_str!("../../../scheduler/formats/tests/formats/subtasks-plan.json");
const SUBTASKS_GOAL: &str = include_str!("../../../scheduler/formats/tests/formats/subtasks-goal.json");
const PHASES: &str = include_str!("../../../scheduler/formats/tests/formats/phases-plan.json");

/// A plan with phases, a plan inside, and results, whose steps `echo` does.
fn nested() -> Value {
    let echo = |id: &str, after: &[&str]| json!({"id": id, "description": format!("Echo {id}"), "agent_type": "echo", "inputs": {"said": id}, "dependencies": after});
    let mut copy = json!({"id": "copy", "description": "Copy", "dependencies": ["first"]});
    copy["subtasks"] = json!([echo("inner", &[])]);
    json!({"id": "old", "goal": "Say it", "strategy": "hierarchical",
           "subtasks": [echo("first", &[]), copy, echo("last", &["copy"])],
           "metadata": {"replan_count": 0, "max_replans": 1}})
}

fn id_of(answer: &Value) -> String {
    answer["plan_id"].as_str().unwrap_or_else(|| panic!("{answer:#}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_other_planners_are_taken_with_notes_or_refused_at_their_place() -> Result<()> {
    let it = Installation::embedded().await?;
    let (status, answer) = it.post("/v1/goals", &serde_json::from_str::<Value>(SUBTASKS_GOAL)?).await?;
    assert_eq!((status, &answer["warnings"][0]["code"]), (202, &json!("FORMAT_CONVERTED")), "{answer:#}");
    let mut phases: Value = serde_json::from_str(PHASES)?;
    for place in ["/phases/0/steps/0", "/phases/1/steps/0", "/phases/1/steps/1"] {
        let step = phases.pointer_mut(place).and_then(Value::as_object_mut).expect("there is such a step");
        step.insert("agent_type".into(), json!("echo"));
    }
    let (status, answer) = it.post("/v1/plans:validate", &phases).await?;
    assert_eq!((status, &answer["valid"]), (200, &json!(true)), "{answer:#}");
    assert_eq!(answer["warnings"][0]["code"], "FORMAT_CONVERTED");
    let mut wrong: Value = serde_json::from_str(SUBTASKS)?;
    wrong["subtasks"][1]["estimated_duration_secnds"] = json!(3);
    let (status, problem) = it.post("/v1/plans", &wrong).await?;
    assert_eq!(status, 422, "{problem:#}");
    assert_eq!(problem["errors"][0]["code"], "UNKNOWN_FIELD");
    assert_eq!(problem["errors"][0]["pointer"], "/subtasks/1/estimated_duration_secnds");
    assert!(problem["errors"][0]["hint"].as_str().is_some_and(|hint| hint.contains("estimated_duration_seconds")));
    let card = json!({"agent_type": "venue", "capabilities": ["search"], "specialization": "Venues", "cost_per_invocation": 0.03,
                      "avg_latency_ms": 1400, "success_rate": 0.91});
    let (status, agent) = it.post("/v1/agents", &card).await?;
    assert_eq!((status, &agent["description"], &agent["latency_ms"]), (201, &json!("Venues"), &json!(1400)));
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_actions_answer_in_their_shape() -> Result<()> {
    let it = Installation::embedded().await?;
    let (status, made) =
        it.post("/v1/actions/decompose", &json!({"goal": "Plan a 3-day trip to Paris", "max_subtasks": 9})).await?;
    assert_eq!(status, 200, "{made:#}");
    assert_eq!(
        made["plan"]["subtasks"].as_array().map(Vec::len).map(|n| json!(n)),
        Some(made["subtask_count"].clone())
    );
    assert_eq!((&made["success"], &made["plan"]["id"]), (&json!(true), &made["plan_id"]));
    let run = json!({"plan": nested(), "parallel": true, "max_concurrent": 2, "on_subtask_failure": "retry", "max_retries": 1,
                     "retry_delay": 0.1});
    let (status, ran) = it.post("/v1/actions/execute", &run).await?;
    assert_eq!((status, &ran["success"]), (200, &json!(true)), "{ran:#}");
    assert_eq!((&ran["plan_status"]["total"], &ran["plan_status"]["completed"]), (&json!(3), &json!(3)));
    assert!(
        ran["subtask_results"]["first"].is_object() && ran["plan"]["subtasks"][0]["status"] == "completed",
        "{ran:#}"
    );
    let (status, again) = it.post("/v1/plans", &ran["plan"]).await?;
    assert_eq!(status, 202, "{again:#}");
    let [graph, copy] = [&ran, &again].map(|answer| format!("/v1/plans/{}/graph", id_of(answer)));
    assert_eq!(it.get(&copy).await?, it.get(&graph).await?, "what is written with its state is the same plan");
    let ask = json!({"plan": ran["plan"], "include_details": true, "include_completed": false});
    let (status, seen) = it.post("/v1/actions/status", &ask).await?;
    assert_eq!((status, &seen["progress"], &seen["subtasks"]), (200, &json!(1.0), &json!([])), "{seen:#}");
    assert_eq!((&seen["status"]["completed"], &seen["goal"]), (&json!(3), &json!("Say it")));
    let (status, problem) = it.post("/v1/actions/execute", &json!({"plan": ran["plan_id"], "parallel": true})).await?;
    assert_eq!((status, &problem["errors"][0]["pointer"]), (400, &json!("/parallel")), "{problem:#}");
    let (status, problem) = it.post("/v1/actions/replan", &json!({"plan": ran["plan_id"]})).await?;
    assert_eq!((status, &problem["code"]), (409, &json!("PLAN_FINAL")));
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_of_plan_actions_is_a_goal_that_is_executed_as_it_says() -> Result<()> {
    let it = Installation::embedded().await?;
    let workflow = json!({"state": {"user_goal": "Plan a 3-day trip to Paris"}, "nodes": [
        {"name": "make", "action": "plan.decompose", "with": {"goal": "{{ state.user_goal }}"}},
        {"name": "run", "action": "plan.execute", "with": {"plan": "{{ state.plan }}", "parallel": false, "max_concurrent": 2,
            "on_subtask_failure": "skip", "max_retries": 1}}]});
    for address in ["/v1/goals", "/v1/plans"] {
        let (status, answer) = it.post(address, &workflow).await?;
        assert_eq!((status, &answer["warnings"][0]["code"]), (202, &json!("FORMAT_CONVERTED")), "{answer:#}");
        let id = id_of(&answer);
        it.await_end(&id.as_str().into(), LIMIT).await?;
        let view = it.get(&format!("/v1/plans/{id}")).await?;
        assert_eq!(view["goal"]["description"], "Plan a 3-day trip to Paris");
        let graph = it.get(&format!("/v1/plans/{id}/graph")).await?;
        assert_eq!((&graph["strategy"], &graph["max_parallel"]), (&json!("sequential"), &json!(2)), "{graph:#}");
        assert_eq!((&graph["steps"][0]["on_failure"], &graph["steps"][0]["retry"]["max"]), (&json!("skip"), &json!(1)));
    }
    let mut open = workflow.clone();
    open["state"] = json!({});
    let (status, problem) = it.post("/v1/goals", &open).await?;
    assert_eq!((status, &problem["errors"][0]["pointer"]), (422, &json!("/state/user_goal")), "{problem:#}");
    it.stop().await;
    Ok(())
}
