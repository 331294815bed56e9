//! Plans that a model writes part by part, each from the results of those before.

use std::time::Duration;

use anyhow::Result;
use goalmill_broker::embedded;
use goalmill_common::clock::Clock;
use goalmill_common::config::{Dialect, PlanningStrategy, Settings};
use goalmill_demo::scripted::{Script, Scripted};
use goalmill_tests::installation::{Installation, settings};
use goalmill_tests::model_server::ModelServer;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);
/// What only the prompt of an iterative plan's checkpoint says.
const AT_CHECKPOINT: &str = "\"checkpoint\": true";

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_three_parts_runs_all_three_and_completes() -> Result<()> {
    let whole = json!({"strategy": "replan_remaining", "summary": "all is said", "changes": []});
    let server = server([part("two"), part("three"), whole]).await?;
    let ended = run(&server, &json!({})).await?;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    assert_eq!(done(&ended), ["one", "two", "three"], "{ended:#}");
    assert_eq!(server.calls(), 4, "the first part, two more, and the word that nothing is missing");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_needs_more_parts_than_it_may_have_keeps_those_it_had() -> Result<()> {
    let server = server([part("two"), part("three")]).await?;
    let ended = run(&server, &json!({"revision": {"max": 1}})).await?;
    assert_eq!(ended["status"], "failed", "{ended:#}");
    assert_eq!(ended["failure"]["code"], "MAX_REVISIONS_EXCEEDED", "{ended:#}");
    assert_eq!(done(&ended), ["one", "two"], "{ended:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_of_a_part_knows_how_deep_it_is() -> Result<()> {
    let once = |json: Value| Scripted { json: Some(json), times: Some(1), ..Scripted::default() };
    let deepest = Scripted { when: vec!["kind `plan`".into()], ..once(json!({"steps": [step("one")]})) };
    let part = json!({"id": "part", "kind": "plan", "description": "say the part"});
    let answers = vec![deepest, once(json!({"steps": [part]}))];
    let server = ModelServer::start(Script { answers, ..Script::default() }).await?;
    let mut settings = settings();
    settings.limits.depth_max = 1;
    settings.planner.llm.strategy = PlanningStrategy::Hierarchical;
    let ended = run_with(&server, settings, &json!({})).await?;
    assert_eq!((ended["status"].as_str(), done(&ended)), (Some("completed"), vec!["part"]), "{ended:#}");
    // A machine that is busy may make the model correct something else: the number of calls says nothing.
    let seen: Vec<String> = server.seen().into_iter().map(|seen| seen.prompt).collect();
    assert!(seen.iter().any(|prompt| prompt.contains("kind `plan`")), "the part's plan is not told: {seen:#?}");
    assert!(!seen.iter().any(|prompt| prompt.contains("PLAN_TOO_DEEP")), "it was told too late: {seen:#?}");
    Ok(())
}

fn step(id: &str) -> Value {
    json!({"id": id, "description": "say a part", "agent_type": "echo", "inputs": {"part": id}})
}

/// The next part; that it ends in a checkpoint is forgotten, as models do.
fn part(id: &str) -> Value {
    let phase = json!({"id": format!("part_{id}")});
    json!({"strategy": "replan_remaining", "summary": "the next part",
           "changes": [{"add_phase": {"phase": phase, "steps": [step(id)]}}]})
}

/// A model that plans the step `one`, and answers so at the checkpoints.
async fn server(answers: impl IntoIterator<Item = Value>) -> Result<ModelServer> {
    let once = |json: Value| Scripted { json: Some(json), times: Some(1), ..Scripted::default() };
    let at_checkpoint = |json: Value| Scripted { when: vec![AT_CHECKPOINT.into()], ..once(json) };
    let mut script: Vec<Scripted> = answers.into_iter().map(at_checkpoint).collect();
    script.push(once(json!({"steps": [step("one")]})));
    ModelServer::start(Script { answers: script, ..Script::default() }).await
}

async fn run(server: &ModelServer, planning: &Value) -> Result<Value> {
    let mut settings = settings();
    settings.planner.llm.strategy = PlanningStrategy::Iterative;
    run_with(server, settings, planning).await
}

async fn run_with(server: &ModelServer, mut settings: Settings, planning: &Value) -> Result<Value> {
    settings.models = vec![server.settings("m0", Dialect::Openai)];
    settings.planner.order = vec!["llm".into(), "rules".into()];
    let at = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    until(SOON, async || at.get("/v1/agents").await.is_ok_and(|agents| agents.to_string().contains("\"echo\""))).await;
    let goal = json!({"description": "say it in parts", "planning": planning});
    let id = at.accept("/v1/goals", &goal).await?;
    let ended = at.await_end(&id, LIMIT).await?;
    at.stop().await;
    Ok(ended)
}

fn done(ended: &Value) -> Vec<&str> {
    let steps = ended["steps"].as_array().into_iter().flatten();
    steps.filter(|step| step["status"] == "completed").filter_map(|step| step["id"].as_str()).collect()
}
