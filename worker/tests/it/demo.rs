//! The shipped agents, in the worker and over HTTP, and the other kinds of settings.

use goalmill_common::config::WorkerSettings;
use goalmill_common::failure::FailureClass;
use goalmill_common::report::What;
use goalmill_common::task::Task;
use goalmill_demo::agents as demo;
use serde_json::json;

use crate::world::{World, task};

#[tokio::test(start_paused = true)]
async fn sleeping_not_at_all_is_instant_and_sleeping_takes_its_time() {
    let world = World::new().await;
    let settings = WorkerSettings { agents: [("sleep".into(), json!({"kind": "demo"}))].into(), ..world.settings() };
    let tasks = [
        task("a", "sleep", json!({})),
        task("b", "sleep", json!({"seconds": 1.5})),
        task("c", "sleep", json!({"ms": "x"})),
    ];
    world.queue(&tasks).await;
    let _worker = world.start(settings, Vec::new()).await;
    assert_eq!(world.wait_final("a").await.outputs.expect("it slept").text(), r#"{"slept_ms":0}"#);
    let slept = world.wait_final("b").await;
    assert_eq!(slept.outputs.expect("it slept").text(), r#"{"slept_ms":1500}"#);
    let took = slept.finished_ms.expect("it ended") - slept.started_ms.expect("it began");
    // The last 2 ms of a sleep are the system's, which virtual time does not see.
    assert!((1_498..1_600).contains(&took), "{took}");
    assert_eq!(world.wait_final("c").await.failure.expect("it failed").code, "INPUT_INVALID");
}

#[tokio::test(start_paused = true)]
async fn a_transform_computes_over_the_inputs() {
    let world = World::new().await;
    let settings = |expression: &str| json!({"kind": "transform", "expression": expression});
    let agents = [
        ("total".into(), settings("{'total': inputs.prices | sum, 'step': step}")),
        ("wrong".into(), settings("inputs.nobody.knows")),
    ];
    let settings = WorkerSettings { agents: agents.into(), ..world.settings() };
    let tasks = [task("a", "total", json!({"prices": [1, 2, 39]})), task("c", "wrong", json!({}))];
    world.queue(&tasks).await;
    let _worker = world.start(settings, Vec::new()).await;
    assert_eq!(world.wait_final("a").await.outputs.expect("it is computed").value(), json!({"total": 42, "step": "a"}));
    assert_eq!(world.wait_final("c").await.failure.expect("it failed").code, "EXPRESSION_FAILED");
}

#[tokio::test]
async fn the_shipped_agents_work_over_http() {
    let world = World::new().await;
    let server = demo::serve().await.expect("it serves");
    let settings = WorkerSettings { agents: server.settings(), ..world.settings() };
    let _worker = world.start(settings, Vec::new()).await;
    // Time is real here: a machine that stands still must not lose the task.
    let long = |task: Task| Task { lease_ms: 60_000, ..task };
    let first = long(task("first", "hotel_agent", json!({"nights": 3, "latency_ms": 0})));
    world.queue(std::slice::from_ref(&first)).await;
    let refused = world.wait_final("first").await.failure.expect("it is told to slow down");
    assert_eq!((refused.class, refused.retry_after_ms), (FailureClass::RateLimited, Some(200)));
    world.queue(&[Task { step: "again".into(), attempt: 2, token: "t2".into(), ..first }]).await;
    let report = world.wait_final("again").await;
    assert_eq!(report.what, What::Completed);
    assert_eq!(report.outputs.expect("it has outputs").value()["total"], json!(504.0));
    world.queue(&[long(task("told", "fail", json!({"class": "permanent", "code": "AS_TOLD"})))]).await;
    assert_eq!(world.wait_final("told").await.failure.expect("it failed").code, "AS_TOLD");
}
