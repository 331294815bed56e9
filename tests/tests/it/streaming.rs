//! A plan that runs while a model still writes it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::{StreamExt, stream};
use goalmill_broker::embedded;
use goalmill_common::clock::Clock;
use goalmill_common::config::{Dialect, ModelSettings};
use goalmill_common::event::{Event, PlanEvent, StepEvent};
use goalmill_common::id::PlanId;
use goalmill_tests::installation::{Installation, settings};
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;

const STEPS: usize = 20;
const LIMIT: Duration = Duration::from_mins(1);
/// Characters of one piece of the stream.
const PIECE: usize = 16;
/// A rule whose plan still runs when the model answers.
const RULE: &str = "
id: watch
version: 1
goal_type: watch
confidence: 0.5
match: {score: 1.0, signals: [{weight: 1.0, any: [watch the harbour]}]}
plan:
  name: Watch the harbour
  steps: [{id: ship, kind: wait, wait: {event: ship}}]
";

#[tokio::test(flavor = "multi_thread")]
async fn the_first_step_goes_out_before_a_quarter_of_the_plan_has_arrived() -> Result<()> {
    let text = plan().to_string();
    let (quarter, rest) = text.split_at(text.len() / 4);
    let model = Model::start(quarter, rest, "stop").await?;
    let at = start(&model).await?;
    let id = submit(&at, json!({})).await?;
    until(SOON, async || happened(&at, &id, |event| matches!(event, StepEvent::Queued(_))).await > 0).await;
    model.go_on.notify_one();
    let ended = at.await_end(&id, LIMIT).await?;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    assert_eq!(happened(&at, &id, |event| matches!(event, StepEvent::Completed(_))).await, STEPS);
    assert_eq!(model.calls.load(Ordering::SeqCst), 1);
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_cut_off_is_not_finished_by_another_planner() -> Result<()> {
    let text = plan().to_string();
    let model = Model::start(&text[..text.len() / 2], "", "length").await?;
    let at = start(&model).await?;
    // Rules have a plan for this goal, but not the rest of the model's.
    let id = accepted(&at, &json!({"description": "Watch the harbour and say the numbers"})).await?;
    until(SOON, async || happened(&at, &id, |event| matches!(event, StepEvent::Completed(_))).await > 0).await;
    model.go_on.notify_one();
    let ended = at.await_end(&id, LIMIT).await?;
    assert_eq!(
        (&ended["status"], &ended["failure"]["code"]),
        (&json!("failed"), &json!("PLANNING_FAILED")),
        "{ended:#}"
    );
    assert!(model.calls.load(Ordering::SeqCst) > 1, "its planner is asked for the rest");
    let log = at.log(&id).await?;
    let mut outcomes = BTreeMap::<String, usize>::new();
    for record in &log {
        if let Event::Step { step, event: StepEvent::Completed(_), .. } = &record.event {
            *outcomes.entry(step.to_string()).or_default() += 1;
        }
    }
    assert!(outcomes.contains_key("s0"), "the first step ran: {outcomes:?}");
    assert!(outcomes.iter().all(|(step, times)| *times == 1 && step.starts_with('s')), "{outcomes:?}");
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_a_person_must_agree_to_is_put_before_them_whole() -> Result<()> {
    let text = plan().to_string();
    let (begin, rest) = text.split_at(text.len() / 2);
    let model = Model::start(begin, rest, "stop").await?;
    let at = start(&model).await?;
    let id = submit(&at, json!({"require_approval": true})).await?;
    until(SOON, async || model.calls.load(Ordering::SeqCst) == 1).await;
    model.go_on.notify_one();
    let awaits = async || at.get(&format!("/v1/plans/{id}")).await.is_ok_and(|p| p["status"] == "awaiting_approval");
    until(SOON, awaits).await;
    let log = at.log(&id).await?;
    let shown = log.iter().find_map(|record| {
        if let Event::Plan(PlanEvent::PlanCreated(created)) = &record.event {
            Some((created.plan.steps.len(), created.open))
        } else {
            None
        }
    });
    assert_eq!(shown, Some((STEPS, false)));
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_hangs_does_not_hold_a_plan_up_and_its_better_plan_revises_it() -> Result<()> {
    let model = Model::start("", &plan().to_string(), "stop").await?;
    let at = start_with(&model, 100).await?;
    let id = accepted(&at, &json!({"description": "Watch the harbour and say the numbers"})).await?;
    let running = async || at.get(&format!("/v1/plans/{id}")).await.is_ok_and(|plan| plan["planner"] == "rules");
    until(SOON, running).await;
    assert_eq!(model.calls.load(Ordering::SeqCst), 1, "the model is still asked");
    model.go_on.notify_one();
    let ended = at.await_end(&id, LIMIT).await?;
    assert_eq!((ended["status"].as_str(), ended["revision"].as_u64()), (Some("completed"), Some(1)), "{ended:#}");
    let log = at.log(&id).await?;
    let revised = log.iter().find_map(|record| {
        if let Event::Plan(PlanEvent::Revised(revised)) = &record.event { Some(revised) } else { None }
    });
    let revised = revised.expect("the better plan is a revision");
    assert_eq!((revised.trigger.as_str(), revised.planner.as_str()), ("better_plan", "llm"));
    assert!(revised.confidence_after > revised.confidence_before, "{revised:?}");
    let done = happened(&at, &id, |event| matches!(event, StepEvent::Completed(_))).await;
    assert!(done >= STEPS, "{done} steps are completed");
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_plan_that_is_no_better_changes_nothing() -> Result<()> {
    let model = Model::start("", &plan().to_string(), "stop").await?;
    let at = start_with(&model, 100).await?;
    let id = accepted(&at, &json!({"description": "Watch the harbour"})).await?;
    let plan_of = async || at.get(&format!("/v1/plans/{id}")).await.unwrap_or_default();
    until(SOON, async || plan_of().await["planner"] == "rules").await;
    model.go_on.notify_one();
    let is_over = async || plan_of().await["model_calls"]["settled"] == 1;
    until(SOON, is_over).await;
    at.post(&format!("/v1/plans/{id}:cancel"), &json!({})).await?;
    let ended = at.await_end(&id, LIMIT).await?;
    assert_eq!(
        (ended["status"].as_str(), ended["revision"].as_u64().unwrap_or(0)),
        (Some("cancelled"), 0),
        "{ended:#}"
    );
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_goal_that_only_a_model_can_plan_or_names_its_planner_waits_for_it() -> Result<()> {
    for goal in [
        json!({"description": "say the numbers"}),
        json!({"description": "Watch the harbour", "planning": {"planner": "llm"}}),
    ] {
        let model = Model::start("", &plan().to_string(), "stop").await?;
        let at = start_with(&model, 1).await?;
        let id = accepted(&at, &goal).await?;
        until(SOON, async || model.calls.load(Ordering::SeqCst) == 1).await;
        assert_eq!(at.get(&format!("/v1/plans/{id}")).await?["status"], "planning");
        model.go_on.notify_one();
        assert_eq!(at.await_end(&id, LIMIT).await?["planner"], "llm");
        at.stop().await;
    }
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

/// A model that writes the beginning of one answer, and the rest when it is told to go on.
struct Model {
    base_url: String,
    go_on: Arc<Notify>,
    calls: Arc<AtomicUsize>,
}

impl Model {
    async fn start(begin: &str, rest: &str, finish: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let base_url = format!("http://{}/v1", listener.local_addr()?);
        let (go_on, calls) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (told, count) = (go_on.clone(), calls.clone());
        let (begin, mut rest) = (pieces(begin), pieces(rest));
        rest.push(frame(&json!({}), Some(finish)));
        rest.push("data: [DONE]\n\n".into());
        let answer = move || {
            let is_first = count.fetch_add(1, Ordering::SeqCst) == 0;
            std::future::ready(if is_first {
                in_two_parts(begin.clone(), rest.clone(), told.clone())
            } else {
                (StatusCode::INTERNAL_SERVER_ERROR, "there is no other answer").into_response()
            })
        };
        let router = Router::new().route("/v1/chat/completions", post(answer));
        #[expect(clippy::disallowed_methods, reason = "it serves until the test's runtime ends")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { base_url, go_on, calls })
    }

    fn settings(&self) -> ModelSettings {
        ModelSettings {
            name: "one".into(),
            provider: "scripted".into(),
            base_url: self.base_url.clone(),
            dialect: Dialect::Openai,
            // It is silent until the test goes on.
            idle_ms: 100_000,
            call_ms: 200_000,
            ..ModelSettings::default()
        }
    }
}

fn in_two_parts(begin: Vec<String>, rest: Vec<String>, told: Arc<Notify>) -> Response {
    let rest = stream::once(async move {
        told.notified().await;
        stream::iter(rest)
    });
    let all = stream::iter(begin).chain(rest.flatten()).map(Ok::<_, Infallible>);
    ([("content-type", "text/event-stream")], Body::from_stream(all)).into_response()
}

fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let piece = |part: &[char]| frame(&json!({"content": part.iter().collect::<String>()}), None);
    characters.chunks(PIECE).map(piece).collect()
}

fn frame(delta: &Value, finish: Option<&str>) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
}

async fn start(model: &Model) -> Result<Installation> {
    start_with(model, 0).await
}

async fn start_with(model: &Model, fallback_after_ms: u64) -> Result<Installation> {
    let mut settings = settings();
    let rules = tempfile::tempdir()?;
    std::fs::write(rules.path().join("watch.yaml"), RULE)?;
    settings.planner.rules_dir = rules.path().display().to_string();
    settings.planner.fallback_after_ms = fallback_after_ms;
    settings.models = vec![model.settings()];
    settings.planner.order = vec!["llm".into(), "rules".into()];
    settings.planner.timeout_ms = 200_000;
    let at = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    until(SOON, async || at.get("/v1/agents").await.is_ok_and(|agents| agents.to_string().contains("\"echo\""))).await;
    Ok(at)
}

async fn submit(at: &Installation, planning: Value) -> Result<PlanId> {
    accepted(at, &json!({"description": "say the numbers", "planning": planning})).await
}

async fn accepted(at: &Installation, goal: &Value) -> Result<PlanId> {
    at.accept("/v1/goals", goal).await
}

/// How many events of steps are of this kind so far.
async fn happened(at: &Installation, plan: &PlanId, is_it: impl Fn(&StepEvent) -> bool) -> usize {
    let log = at.log(plan).await.unwrap_or_default();
    log.iter().filter(|record| matches!(&record.event, Event::Step { event, .. } if is_it(event))).count()
}
