//! A plan that runs while a model still writes it.

use std::time::Duration;

use anyhow::Result;
use goalmill_broker::embedded;
use goalmill_common::clock::Clock;
use goalmill_common::config::Dialect;
use goalmill_common::event::{Event, PlanEvent, StepEvent};
use goalmill_scheduler::model::scripted::{Script, Scripted};
use goalmill_tests::installation::{Installation, settings};
use goalmill_tests::model_server::ModelServer;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

const STEPS: usize = 20;
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn the_first_step_goes_out_before_a_quarter_of_the_plan_has_arrived() -> Result<()> {
    let plan = plan();
    let server = ModelServer::start(script(Scripted {
        json: Some(plan.clone()),
        chunk: Some(16),
        chunk_delay_ms: 5,
        ..Scripted::default()
    }))
    .await?;
    let at = start(&server).await?;
    let (id, ended) = plan_and_run(&at).await?;
    assert_eq!(ended["status"], "completed", "{ended:#}");

    let log = at.log(&id).await?;
    let mut written = 0;
    for record in &log {
        match &record.event {
            Event::Plan(PlanEvent::PlanCreated(created)) => written += created.plan.steps.len(),
            Event::Step { event: StepEvent::Added(_), .. } => written += 1,
            Event::Step { event: StepEvent::Queued(_), .. } => break,
            _ => {}
        }
    }
    let text = plan.to_string();
    let step = text.find(&format!("\"s{written}\"")).expect("the step after those that were written");
    assert!(
        step * 4 < text.len(),
        "{written} steps, {step} of {} bytes, were there when the first went out",
        text.len()
    );
    let completed = |event: &Event| matches!(event, Event::Step { event: StepEvent::Completed(_), .. });
    assert_eq!(log.iter().filter(|record| completed(&record.event)).count(), STEPS);
    assert_eq!(server.calls(), 1);
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_cut_off_is_finished_around_what_ran() -> Result<()> {
    let half = plan().to_string().len() / 2;
    let cut = Scripted {
        json: Some(plan()),
        truncate: Some(half),
        chunk: Some(16),
        chunk_delay_ms: 2,
        ..Scripted::default()
    };
    let server = ModelServer::start(script(cut)).await?;
    let at = start(&server).await?;
    let (id, ended) = plan_and_run(&at).await?;
    assert_ne!(ended["status"], "running");
    let log = at.log(&id).await?;
    let mut outcomes = std::collections::BTreeMap::<String, usize>::new();
    for record in &log {
        if let Event::Step { step, event: StepEvent::Completed(_), .. } = &record.event {
            *outcomes.entry(step.to_string()).or_default() += 1;
        }
    }
    assert!(outcomes.contains_key("s0"), "the first step ran: {outcomes:?}");
    assert!(outcomes.values().all(|times| *times == 1), "{outcomes:?}");
    at.stop().await;
    Ok(())
}

/// Twenty steps of the same size, one after the other in pairs.
fn plan() -> Value {
    let step = |n: usize| {
        let before: Vec<String> = n.checked_sub(2).map(|before| format!("s{before}")).into_iter().collect();
        json!({"id": format!("s{n}"), "description": format!("say the number {n}"), "agent_type": "echo",
               "inputs": {"n": n}, "dependencies": before})
    };
    json!({"name": "numbers", "steps": (0..STEPS).map(step).collect::<Vec<_>>()})
}

fn script(answer: Scripted) -> Script {
    Script::of([answer])
}

async fn start(server: &ModelServer) -> Result<Installation> {
    let mut settings = settings();
    settings.models = vec![server.settings("one", Dialect::Openai)];
    settings.planner.order = vec!["llm".into(), "rules".into()];
    let at = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    until(SOON, async || at.get("/v1/agents").await.is_ok_and(|agents| agents.to_string().contains("\"echo\""))).await;
    Ok(at)
}

async fn plan_and_run(at: &Installation) -> Result<(goalmill_common::id::PlanId, Value)> {
    let (status, answer) = at.post("/v1/goals", &json!({"description": "say the numbers"})).await?;
    anyhow::ensure!(status == 202, "{answer:#}");
    let id = goalmill_common::id::PlanId::from(answer["plan_id"].as_str().unwrap_or_default());
    let ended = at.await_end(&id, LIMIT).await?;
    Ok((id, ended))
}
