//! The stream of a preview: how far planning has come, and the plan or the problem at its end.

use anyhow::Result;
use goalmill_broker::embedded;
use goalmill_client::{Client, ClientError};
use goalmill_common::clock::Clock;
use goalmill_common::config::Dialect;
use goalmill_common::problem::ErrorCode;
use goalmill_common::view::PlanningProgress;
use goalmill_demo::scripted::Scripted;
use goalmill_tests::installation::{Installation, settings};
use goalmill_tests::model_server::ModelServer;
use goalmill_tests::wait::{SOON, until};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_tells_model_mode_and_tokens_while_the_model_writes() -> Result<()> {
    let step =
        json!({"id": "s1", "description": "say it", "agent_type": "echo", "inputs": {"n": 1}, "dependencies": []});
    // About twenty pieces: two seconds.
    let slow =
        Scripted { json: Some(json!({"steps": [step]})), chunk: Some(6), chunk_delay_ms: 100, ..Scripted::default() };
    let server = ModelServer::says([slow]).await?;
    let at = start(&server).await?;
    let mut told: Vec<PlanningProgress> = Vec::new();
    let goal = json!({"description": "Say one thing"});
    let preview = client(&at)?.preview_with_progress(&goal, |progress| told.push(progress.clone())).await?;
    assert_eq!((preview.valid, preview.planner.as_str(), server.calls()), (true, "llm", 1));
    let last = told.last().expect("the model takes longer than one interval");
    assert_eq!((last.model.as_str(), last.mode.as_str(), last.calls), ("m0", "json_schema", 1), "{told:?}");
    assert!(last.output_tokens > 0 && last.seconds > 0.4, "{told:?}");
    assert!(
        told.is_sorted_by(|one, next| one.output_tokens <= next.output_tokens && one.seconds < next.seconds),
        "{told:?}"
    );
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_that_fails_ends_its_stream_with_the_problem() -> Result<()> {
    let refusal = Scripted { text: Some("I would rather not".into()), times: Some(100), ..Scripted::default() };
    let server = ModelServer::says([refusal]).await?;
    let at = start(&server).await?;
    let failed = client(&at)?.preview_with_progress(&json!({"description": "Say one thing"}), |_| {}).await;
    let Err(ClientError::Problem(problem)) = failed else { panic!("there is no plan: {failed:?}") };
    assert_eq!(problem.code, ErrorCode::PlanningFailed);
    assert!(problem.planning_trace.is_some(), "{problem:?}");
    // What is no goal is refused before the stream begins.
    let invalid = client(&at)?.preview_with_progress(&json!({"priority": 99}), |_| {}).await;
    let Err(ClientError::Problem(problem)) = invalid else { panic!("it is no goal: {invalid:?}") };
    assert_eq!(problem.code, ErrorCode::InvalidGoal);
    at.stop().await;
    Ok(())
}

fn client(at: &Installation) -> Result<Client> {
    Ok(Client::new(at.url("").trim_end_matches('/'))?)
}

async fn start(server: &ModelServer) -> Result<Installation> {
    let mut settings = settings();
    settings.models = vec![server.settings("m0", Dialect::Openai)];
    settings.planner.order = vec!["llm".into()];
    let at = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    until(SOON, async || at.get("/v1/agents").await.is_ok_and(|agents| agents.to_string().contains("\"echo\""))).await;
    Ok(at)
}
