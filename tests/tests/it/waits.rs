//! Steps that wait, over the API and the command line, with real processes.

use anyhow::{Context, Result};
use goalmill_broker::redis;
use goalmill_common::id::PlanId;
use goalmill_common::json::Json as Payload;
use goalmill_common::keys::Keys;
use goalmill_common::view::PlanView;
use goalmill_tests::dev::Dev;
use goalmill_tests::installation::{Installation, settings, step};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

/// Leases that are much longer than the test may take.
const SETTINGS: &str = "[scheduler]\nshard_lease_ms = 3600000\ntask_lease_ms = 3600000\n";

/// The numbers are of no other test: all schedulers of this process share their metrics.
#[tokio::test(flavor = "multi_thread")]
async fn waits_maps_failed_undo_steps_and_kept_events_have_metrics() -> Result<()> {
    let mut settings = settings();
    settings.metrics.listen = "127.0.0.1:0".into();
    settings.events.kept_max = 13;
    let broker = goalmill_broker::embedded::open(None, goalmill_common::clock::Clock::system())?;
    let it = Installation::start(broker, settings).await?;
    let wait = |n: usize| json!({"id": format!("w{n}"), "kind": "wait", "wait": {"event": "never"}});
    let waiting: Vec<Value> = (0..7).map(wait).collect();
    it.submit(&json!({"name": "waits", "steps": waiting})).await?;
    let undo = json!({"agent_type": "fail", "action": "fail", "retry": 0});
    let failing = json!({"name": "fails", "steps": [
        {"id": "map", "agent_type": "echo", "for_each": [1, 2, 3], "inputs": {"n": "{{ item }}"}},
        {"id": "book", "agent_type": "echo", "depends_on": ["map"], "undo": undo},
        {"id": "pay", "agent_type": "fail", "depends_on": ["book"], "retry": 0},
    ]});
    it.await_end(&it.submit(&failing).await?, SOON).await?;
    for n in 0..5 {
        let (status, told) = it.post("/v1/events", &json!({"name": "kept", "id": format!("k{n}"), "data": n})).await?;
        assert!(status < 300, "{told}");
    }
    let metrics = it.schedulers[0].metrics().context("the settings name an address")?;
    let wanted = [
        "goalmill_waits_open{for=\"event\"} 7",
        "goalmill_events_kept_ratio 0.384",
        "goalmill_undo_failures_total{plans_namespace=\"other\"} ",
        "goalmill_maps_total ",
        "goalmill_map_items_total ",
    ];
    for part in wanted {
        until(SOON, async || {
            let answer = it.http.get(format!("http://{metrics}/metrics")).send().await.expect("it answers");
            answer.text().await.expect("it is text").lines().any(|line| line.starts_with(part))
        })
        .await;
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_outlasts_kill_9_and_ends_once() -> Result<()> {
    let data = tempfile::tempdir()?;
    let arguments = ["--data-dir", data.path().to_str().expect("a temporary directory has a plain name")];
    let mut dev = Dev::start(&arguments, SETTINGS).await?;
    let steps = [json!({"id": "pause", "kind": "wait", "for": "4s"}), step("after", "echo", &["pause"], json!({}))];
    let plan = submit(&dev, &json!({ "steps": steps }))?;
    until(SOON, async || step_of(&dev, &plan, 0)["status"] == "waiting").await;
    let explained = dev.says(&["explain", &plan], 0)?;
    assert!(explained.contains("`pause` waits until"), "{explained}");
    let due_at = step_of(&dev, &plan, 0)["due_at"].clone();
    dev.restart(&arguments).await?;
    until(SOON, async || view(&dev, &plan)["status"] == "completed").await;
    assert_eq!(step_of(&dev, &plan, 0)["outputs"], json!({"waited_until": due_at}));
    let of_pause: Vec<String> = dev.events(&plan)?.iter().filter_map(type_of_pause).collect();
    assert_eq!(of_pause, ["step_ready", "step_wait_started", "step_completed"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_ends_a_wait_whether_it_comes_before_or_after() -> Result<()> {
    let data = tempfile::tempdir()?;
    let arguments = ["--data-dir", data.path().to_str().expect("a temporary directory has a plain name")];
    let mut dev = Dev::start(&arguments, SETTINGS).await?;
    let schema = json!({"type": "object", "required": ["paid"]});
    let wait = |id: &str, event: &str, after: &[&str]| {
        let wait = json!({"event": event, "key": "17", "schema": schema, "timeout": "1h"});
        json!({"id": id, "kind": "wait", "wait": wait, "dependencies": after})
    };
    let steps = [wait("pause", "payment", &[]), wait("next", "delivery", &["pause"])];
    let plan = submit(&dev, &json!({ "steps": steps }))?;
    until(SOON, async || step_of(&dev, &plan, 0)["status"] == "waiting").await;
    assert_eq!(step_of(&dev, &plan, 0)["awaits"], json!({"event": "payment", "key": "17", "schema": schema}));
    let send = |dev: &Dev, name: &str, id: &str, data: &str, code: i32| {
        dev.says(&["event", "send", name, "--plan", &plan, "--key", "17", "--id", id, "--data", data], code)
    };
    send(&dev, "delivery", "d1", r#"{"paid": 2}"#, 0)?;
    dev.restart(&arguments).await?;
    send(&dev, "payment", "p0", r#"{"total": 1}"#, 8)?;
    send(&dev, "payment", "p1", r#"{"paid": 1}"#, 0)?;
    until(SOON, async || view(&dev, &plan)["status"] == "completed").await;
    assert_eq!(step_of(&dev, &plan, 0)["outputs"], json!({"paid": 1}));
    assert_eq!(step_of(&dev, &plan, 1)["outputs"], json!({"paid": 2}), "it was kept from before the wait");
    send(&dev, "payment", "p2", r#"{"paid": 3}"#, 1)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_reaches_every_plan_of_its_namespace_that_waits_for_it() -> Result<()> {
    let server = RedisServer::start().await?;
    an_event_reaches_all(Installation::over(&server).await?, Some(&server)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_reaches_every_plan_in_the_embedded_mode_too() -> Result<()> {
    an_event_reaches_all(Installation::embedded().await?, None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_plans_are_taken_over_by_their_marks_and_each_ends_once() -> Result<()> {
    let server = RedisServer::start().await?;
    let mut settings = settings();
    settings.scheduler.park_ms = 1;
    let mut it = Installation::start(redis::connect(&server.settings()).await?, settings).await?;
    let wait = |wait: Value| json!({"steps": [{"id": "paid", "kind": "wait", "wait": wait}]});
    let for_event = |key: &str| wait(json!({"event": "payment", "key": key}));
    let plans =
        [for_event("1"), for_event("2"), wait(json!({"for": "1h"})), wait(json!({"for": "5s"})), for_event("1")];
    let mut ids: Vec<PlanId> = Vec::new();
    for plan in &plans {
        ids.push(it.submit(plan).await?);
    }
    let marks = async |ids: &[PlanId]| it.broker.park_marks(ids).await.expect("Redis answers");
    until(SOON, async || marks(&ids).await.iter().all(Option::is_some)).await;
    for scheduler in std::mem::take(&mut it.schedulers) {
        scheduler.stop().await;
    }
    // The shards have no owner, and the log of the last plan is damaged.
    let client = ::redis::Client::open(server.url())?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut damage = ::redis::cmd("XTRIM");
    damage.arg(Keys::default().events(&ids[4])).arg("MAXLEN").arg(0);
    damage.query_async::<u64>(&mut connection).await?;
    it.add_scheduler().await?;
    assert_eq!(it.get("/v1/waits").await?["items"].as_array().map(Vec::len), Some(3));
    let (status, receipt) =
        it.post("/v1/events", &json!({"name": "payment", "key": "2", "id": "e2", "data": {"by": 2}})).await?;
    assert_eq!((status, &receipt["plans"]), (200, &json!([ids[1]])), "{receipt:#}");
    let (status, answer) = it.post(&format!("/v1/plans/{}:cancel", ids[2]), &json!({})).await?;
    assert_eq!(status, 200, "{answer:#}");
    for (plan, status) in [(1, "completed"), (2, "cancelled"), (3, "completed")] {
        assert_eq!(it.await_end(&ids[plan], SOON).await?["status"], status, "{plan}");
    }
    // The event wakes both plans; the one whose log cannot be folded does not hold the other up.
    let event = json!({"name": "payment", "key": "1", "id": "e1", "data": {"by": 1}});
    until(SOON, async || it.post("/v1/events", &event).await.is_ok_and(|(status, _)| status == 200)).await;
    assert_eq!(it.await_end(&ids[0], SOON).await?["steps"][0]["outputs"], json!({"by": 1}));
    let (_, explained) = it.post(&format!("/v1/plans/{}:cancel", ids[4]), &json!({})).await?;
    assert!(explained.to_string().contains("quarantine"), "{explained:#}");
    for plan in &ids[..4] {
        let log = it.log(plan).await?;
        let ends = log.iter().filter(|record| record.event.type_name().starts_with("plan_c") && record.seq > 3);
        assert_eq!(ends.count(), 1, "{log:#?}");
    }
    it.stop().await;
    Ok(())
}

/// While a plan waits for what plans inside it do, it only seems idle: it must be there when they have done it.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_not_parked_while_plans_inside_it_undo_their_work() -> Result<()> {
    let mut settings = settings();
    settings.scheduler.park_ms = 1;
    let broker = goalmill_broker::embedded::open(None, goalmill_common::clock::Clock::system())?;
    let it = Installation::start(broker, settings).await?;
    let undo = json!({"agent_type": "sleep", "inputs": {"seconds": 1}});
    let book = json!({"id": "book", "agent_type": "echo", "undo": undo});
    let trip = |steps: Value| json!({"id": "trip", "kind": "plan", "plan": {"steps": steps}});
    // What a completed plan inside did is undone.
    let pay = json!({"id": "pay", "agent_type": "fail", "depends_on": ["trip"], "retry": {"max": 0}});
    let undone = it.submit(&json!({"steps": [trip(json!([book])), pay]})).await?;
    assert_eq!(it.await_end(&undone, SOON).await?["status"], "failed");
    // A plan whose step is skipped is stopped.
    let long = json!({"id": "long", "wait": {"event": "never"}, "depends_on": ["book"]});
    let skipped = it.submit(&json!({"steps": [trip(json!([book, long]))]})).await?;
    let skip = format!("/v1/plans/{skipped}/steps/trip:skip");
    let waits = async || it.get("/v1/waits").await.expect("it is answered")["items"].as_array().map(Vec::len);
    until(SOON, async || waits().await == Some(1)).await;
    assert_eq!(it.post(&skip, &json!({})).await?.0, 200);
    assert_eq!(it.await_end(&skipped, SOON).await?["status"], "completed");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_with_a_start_is_paused_until_then() -> Result<()> {
    let it = Installation::embedded().await?;
    let plan = it.submit(&json!({"start_in": "2s", "steps": [step("a", "echo", &[], json!({"x": 1}))]})).await?;
    let explained = it.get(&format!("/v1/plans/{plan}/explain")).await?;
    assert_eq!(explained["status"], "paused", "{explained:#}");
    assert!(explained["summary"].as_str().is_some_and(|text| text.starts_with("the plan starts at")), "{explained:#}");
    assert_eq!(it.await_end(&plan, SOON).await?["status"], "completed");
    let (status, refused) =
        it.post("/v1/goals", &json!({"description": "x", "start_at": "2999-01-01T00:00:00Z"})).await?;
    assert_eq!((status, &refused["errors"][0]["code"]), (422, &json!("OUT_OF_RANGE")), "{refused:#}");
    it.stop().await;
    Ok(())
}

async fn an_event_reaches_all(mut it: Installation, server: Option<&RedisServer>) -> Result<()> {
    let plan = |key: &str| json!({"steps": [{"id": "paid", "wait": {"event": "payment", "key": key}}]});
    let event = |id: &str, key: &str| json!({"name": "payment", "key": key, "id": id, "data": {"by": id}});
    let (one, two) = (it.submit(&plan("17")).await?, it.submit(&plan("17")).await?);
    let waits = async || it.get("/v1/waits").await.expect("it is answered")["items"].clone();
    until(SOON, async || waits().await.as_array().is_some_and(|items| items.len() == 2)).await;
    assert_eq!((&waits().await[0]["event"], &waits().await[0]["key"]), (&json!("payment"), &json!("17")));
    let (status, receipt) = it.post("/v1/events", &event("e1", "17")).await?;
    let reached = receipt["plans"].as_array().map_or(0, Vec::len);
    assert_eq!((status, reached), (200, 2), "{receipt:#}");
    for plan in [&one, &two] {
        let view = it.await_end(plan, SOON).await?;
        assert_eq!(view["steps"][0]["outputs"], json!({"by": "e1"}), "{view:#}");
    }
    until(SOON, async || waits().await == json!([])).await;

    // It is kept for plans that wait later, and for those the first one wins.
    let (status, receipt) = it.post("/v1/events", &event("e2", "18")).await?;
    assert_eq!((status, &receipt["plans"]), (200, &json!([])), "{receipt:#}");
    it.post("/v1/events", &event("e3", "18")).await?;
    let late = it.submit(&plan("18")).await?;
    assert_eq!(it.await_end(&late, SOON).await?["steps"][0]["outputs"], json!({"by": "e2"}));

    let (status, refused) = it.post("/v1/events", &json!({"name": "two words"})).await?;
    assert_eq!((status, &refused["errors"][0]["pointer"]), (400, &json!("/name")), "{refused:#}");
    // `null` is data too: kept for the namespace, kept by a plan, and read by a client.
    it.post("/v1/events", &json!({"name": "payment", "key": "20", "id": "e4", "data": null})).await?;
    let of_null = it.submit(&plan("20")).await?;
    let view: PlanView = serde_json::from_value(it.await_end(&of_null, SOON).await?)?;
    assert_eq!(view.steps[0].outputs, Some(Payload::null()));
    assert_eq!(view.final_output, Some(Payload::null()));
    let wait = |id: &str, key: &str| json!({"id": id, "wait": {"event": "payment", "key": key}});
    let two = json!({"strategy": "sequential", "steps": [wait("first", "21"), wait("second", "22")]});
    let keeps = it.submit(&two).await?;
    let own = json!({"name": "payment", "key": "22", "id": "e5", "data": null});
    let (status, told) = it.post(&format!("/v1/plans/{keeps}/events"), &own).await?;
    assert_eq!(status, 200, "{told:#}");
    for scheduler in std::mem::take(&mut it.schedulers) {
        scheduler.stop().await;
    }
    it.add_scheduler().await?;
    it.post("/v1/events", &json!({"name": "payment", "key": "21", "id": "e6"})).await?;
    let view = it.await_end(&keeps, SOON).await?;
    assert_eq!((&view["steps"][0]["outputs"], view["steps"][1].get("outputs")), (&json!({}), Some(&Value::Null)));

    if let Some(server) = server {
        let waiting = it.submit(&plan("19")).await?;
        let client = ::redis::Client::open(server.url())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let mut add = ::redis::cmd("XADD");
        add.arg(Keys::default().sent_events()).arg("*");
        add.arg("name").arg("payment").arg("key").arg("19").arg("data").arg("{\"by\":\"stream\"}");
        add.query_async::<String>(&mut connection).await?;
        assert_eq!(it.await_end(&waiting, SOON).await?["steps"][0]["outputs"], json!({"by": "stream"}));
    }
    it.stop().await;
    Ok(())
}

fn submit(dev: &Dev, plan: &Value) -> Result<String> {
    let file = dev.file("plan.json");
    std::fs::write(&file, plan.to_string())?;
    Ok(dev.says(&["run", file.to_str().expect("it has a plain name"), "-o", "name"], 0)?.trim().to_owned())
}

fn view(dev: &Dev, plan: &str) -> Value {
    let text = dev.says(&["plan", "get", plan, "-o", "json"], 0).expect("the plan is there");
    serde_json::from_str(&text).expect("it is JSON")
}

fn step_of(dev: &Dev, plan: &str, place: usize) -> Value {
    view(dev, plan)["steps"][place].clone()
}

fn type_of_pause(event: &Value) -> Option<String> {
    (event["step_id"] == "pause").then(|| event["type"].as_str().unwrap_or_default().to_owned())
}
