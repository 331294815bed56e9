//! Start, registration and health of a worker.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::agent::Agent;
use goalmill_common::config::WorkerSettings;
use goalmill_common::failure::Failure;
use goalmill_common::report::What;
use goalmill_common::task::Task;
use goalmill_demo::agents as demo;
use goalmill_worker::executor::{ExecutionResult, Executor, Progress};
use goalmill_worker::{WorkerOptions, WorkerStartError};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::world::{Scripted, World, task};

#[tokio::test(start_paused = true)]
async fn a_worker_waits_for_redis() {
    let world = World::new().await;
    world.faults.away(true);
    world.queue(&[task("a", "fast", json!({}))]).await;
    let _worker = world.start(world.settings(), vec![("fast", Scripted::taking(0))]).await;
    world.until("some tries", async || world.faults.calls("meta") > 10).await;
    world.faults.away(false);
    assert_eq!(world.wait_final("a").await.what, What::Completed);
}

#[tokio::test(start_paused = true)]
async fn another_installation_gets_no_work_done() {
    let world = World::new().await;
    let fast = Scripted::taking(0);
    let _worker = world.start(world.settings(), vec![("fast", fast.clone())]).await;
    world.until("the beat", async || world.faults.calls("record_worker_heartbeat") > 0).await;
    world.faults.replace("two");
    world.faults.away(true);
    world.until("the loss", async || world.faults.calls("meta") > 3).await;
    world.faults.away(false);
    let asked = world.faults.calls("meta");
    world.queue(&[task("a", "fast", json!({}))]).await;
    world.until("some refusals", async || world.faults.calls("meta") > asked + 5).await;
    assert_eq!(fast.begun(), 0);
    world.faults.replace("one");
    assert_eq!(world.wait_final("a").await.what, What::Completed);
}

#[tokio::test(start_paused = true)]
async fn agent_types_are_registered_without_replacing_better_cards() {
    let world = World::new().await;
    let known = Agent { description: "by hand".into(), ..Agent::named("known".into()) };
    world.inner().register(&known).await.expect("it registers");
    let mut executors = vec![("known", Scripted::taking(0) as _), ("bare", Scripted::taking(0) as _)];
    executors.push(("echo", demo::executors()["echo"].clone()));
    let _worker = world.start(world.settings(), executors).await;
    world.until("the beat", async || world.inner().workers(5_000).await.is_ok_and(|w| w.len() == 1)).await;
    let agents = world.inner().agents().await.expect("they are listed").agents;
    let description = |name: &str| agents.iter().find(|a| a.agent_type.as_str() == name).map(|a| a.description.clone());
    assert_eq!(description("known").as_deref(), Some("by hand"));
    assert_eq!(description("bare").as_deref(), Some(""));
    assert_eq!(description("echo").as_deref(), Some("Gives its inputs back unchanged."));
    let beat = &world.inner().workers(5_000).await.expect("they are listed")[0];
    assert_eq!((beat.worker.as_str(), beat.slots, beat.agents.len(), beat.draining), ("w1", 4, 3, false));
}

#[tokio::test(start_paused = true)]
async fn a_demo_agent_keeps_the_card_of_another_agent_of_its_name() {
    let shipped = demo::agents().into_iter().find(|card| card.agent_type.as_str() == "echo").expect("it is shipped");
    let own = |action: &str| {
        let card = serde_json::json!({"agent_type": "echo", "description": "ours", "actions": [{"name": action}]});
        serde_json::from_value::<Agent>(card).expect("it is a card")
    };
    let older = Agent { actions: Vec::new(), capabilities: vec!["older".into()], ..shipped.clone() };
    for (registered, expected) in [(own("shout"), own("shout")), (own("echo"), own("echo")), (older, shipped)] {
        let world = World::new().await;
        world.inner().register(&registered).await.expect("it registers");
        let _worker = world.start(world.settings(), vec![("echo", demo::executors()["echo"].clone())]).await;
        world.until("the beat", async || world.inner().workers(5_000).await.is_ok_and(|w| w.len() == 1)).await;
        let agents = world.inner().agents().await.expect("they are listed").agents;
        assert_eq!(agents, [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_card_is_registered_also_after_a_lost_connection() {
    struct Changing(Mutex<&'static str>);

    #[async_trait]
    impl Executor for Changing {
        async fn execute(&self, _: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
            Ok(ExecutionResult::default())
        }

        fn card(&self) -> Option<Agent> {
            Some(Agent { description: (*self.0.lock().unwrap()).into(), ..Agent::named("changing".into()) })
        }
    }

    let world = World::new().await;
    let executor = Arc::new(Changing(Mutex::new("one")));
    let _worker = world.start(world.settings(), vec![("changing", executor.clone())]).await;
    let is_registered = async |description: &str| {
        let agents = world.inner().agents().await.expect("they are listed").agents;
        agents.iter().any(|agent| agent.description == description)
    };
    world.until("the first card", async || is_registered("one").await).await;
    *executor.0.lock().unwrap() = "two";
    world.until("the second card", async || is_registered("two").await).await;
    world.faults.away(true);
    *executor.0.lock().unwrap() = "three";
    let asked = world.faults.calls("meta");
    world.until("some failures", async || world.faults.calls("meta") > asked + 3).await;
    assert!(!is_registered("three").await);
    world.faults.away(false);
    world.until("the third card", async || is_registered("three").await).await;
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let world = World::new().await;
    let cases = [
        (json!({"kind": "magic"}), "unknown variant `magic`"),
        (json!({"kind": "http", "url": "http://x", "methd": "GET"}), "unknown field `methd`"),
        (json!({"kind": "http", "url": "file:///etc/passwd"}), "http"),
        (json!({"kind": "command", "argv": []}), "`argv`"),
        (json!({"kind": "transform", "expression": "1 +"}), "`expression`"),
        (json!({"kind": "demo", "agent": "nobody"}), "`nobody`"),
        (json!({"kind": "demo", "agent": "echo", "card": {"cost": "x"}}), "`card/cost`"),
        (json!({"kind": "demo", "agent": "echo", "card": {"cots": 1}}), "`card/cots`"),
        (json!({"kind": "demo", "agent": "echo", "card": {"success_rate": 7}}), "`card/success_rate`"),
        (json!("echo"), "invalid type"),
    ];
    for (value, part) in cases {
        let agents = [("x".into(), value.clone())].into();
        let settings = WorkerSettings { agents, ..world.settings() };
        let refused = goalmill_worker::start(world.options(settings, Vec::new())).await.err();
        let text = refused.expect("it is refused").to_string();
        assert!(text.starts_with("agent type `x`: ") && text.contains(part), "{value}: {text}");
    }
    let none = goalmill_worker::start(world.options(world.settings(), Vec::new())).await.err();
    assert!(matches!(none, Some(WorkerStartError::NoAgents)));
    let listen = WorkerSettings { listen: "256.0.0.1:1".into(), ..world.settings() };
    let refused = goalmill_worker::start(world.options(listen, Vec::new())).await.err();
    assert!(matches!(refused, Some(WorkerStartError::Listen { .. })));
}

#[tokio::test]
async fn health_and_metrics_are_served() {
    let world = World::new().await;
    world.faults.away(true);
    let settings = WorkerSettings { listen: "127.0.0.1:0".into(), heartbeat_ms: 50, ..world.settings() };
    let options: WorkerOptions = world.options(settings, vec![("echo", demo::executors()["echo"].clone())]);
    let worker = goalmill_worker::start(options).await.expect("it starts");
    let address = worker.address().expect("it listens");
    let get = async |path: &str| {
        let answer = reqwest::get(format!("http://{address}{path}")).await.expect("it answers");
        (answer.status().as_u16(), answer.text().await.expect("it has a text"))
    };
    goalmill_http::install_tls();
    assert_eq!(get("/livez").await.0, 200);
    world
        .until("the reason", async || get("/readyz").await == (503, "redis cannot be reached: it is away\n".into()))
        .await;
    world.faults.away(false);
    world.until("readiness", async || get("/readyz").await.0 == 200).await;
    world.queue(&[Task { lease_ms: 60_000, ..task("a", "echo", json!({})) }]).await;
    world.wait_final("a").await;
    let metrics = get("/metrics").await.1;
    assert!(metrics.contains(r#"goalmill_tasks_total{agent_type="echo",outcome="completed"} 1"#), "{metrics}");
    assert!(metrics.contains(r#"goalmill_tasks_total{agent_type="echo",outcome="lost"} 0"#), "{metrics}");
    assert!(metrics.contains("goalmill_worker_slots 4"), "{metrics}");
    assert!(metrics.contains(r#"goalmill_task_run_seconds_count{agent_type="echo"} 1"#), "{metrics}");
    world.faults.away(true);
    world.until("the loss", async || get("/readyz").await.0 == 503).await;
    tokio::time::timeout(Duration::from_mins(1), worker.release_all()).await.expect("it ends");
}
