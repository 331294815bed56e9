//! Events from outside: what takes them, what keeps them, and what cannot hold them up.

use anyhow::Result;
use goalmill_broker::redis;
use goalmill_common::external_event::topic;
use goalmill_common::keys::Keys;
use goalmill_tests::installation::{Installation, settings};
use goalmill_tests::redis_server::{self, RedisServer};
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

/// A plan that waits for `name`, for data with a `done`.
fn waiting(name: &str) -> Value {
    json!({"steps": [{"id": "w", "wait": {"event": name, "schema": {"type": "object", "required": ["done"]}}}]})
}

fn event(name: &str, id: &str, done: impl Into<Value>) -> Value {
    json!({"name": name, "id": id, "data": {"done": done.into()}})
}

/// The plans of the registered waits, sorted.
async fn waits(it: &Installation) -> Vec<String> {
    let page = it.get("/v1/waits").await.expect("it is answered");
    let items = page["items"].as_array().cloned().unwrap_or_default();
    let mut plans: Vec<String> =
        items.iter().map(|wait| wait["plan_id"].as_str().unwrap_or_default().to_owned()).collect();
    plans.sort();
    plans
}

async fn await_waits(it: &Installation, count: usize) -> Vec<String> {
    until(SOON, async || waits(it).await.len() == count).await;
    waits(it).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_ends_one_iteration_also_when_the_next_one_begins_after_a_takeover() -> Result<()> {
    let server = RedisServer::start().await?;
    let mut it = Installation::over(&server).await?;
    let steps = json!([
        {"id": "w", "kind": "wait", "wait": {"event": "talk"}},
        {"id": "f", "kind": "finish", "depends_on": ["w"], "inputs": {"done": "{{ steps.w.outputs.done }}"}},
    ]);
    let repeat = json!({"until": "outputs.done", "max": 5});
    let talk = json!({"id": "talk", "kind": "plan", "repeat": repeat, "plan": {"steps": steps}});
    let plan = it.submit(&json!({ "steps": [talk] })).await?;
    let first = await_waits(&it, 1).await;
    let (status, told) = it.post("/v1/events", &event("talk", "e1", false)).await?;
    assert_eq!((status, &told["plans"]), (200, &json!(first)), "{told:#}");
    until(SOON, async || waits(&it).await.len() == 1 && waits(&it).await != first).await;
    for scheduler in std::mem::take(&mut it.schedulers) {
        scheduler.stop().await;
    }
    it.add_scheduler().await?;
    await_waits(&it, 1).await;
    let (status, told) = it.post("/v1/events", &event("talk", "e1", false)).await?;
    assert_eq!((status, &told["plans"]), (200, &json!([])), "it is the same event: {told:#}");
    // The owner may not have read the plan yet: then the event is kept, and the plan finds it.
    let (status, told) = it.post("/v1/events", &event("talk", "e2", true)).await?;
    assert_eq!(status, 200, "{told:#}");
    let view = it.await_end(&plan, SOON).await?;
    assert_eq!((&view["status"], &view["steps"][0]["outputs"]), (&json!("completed"), &json!({"done": true})));
    let taken = it.log(&plan).await?.into_iter().filter(|record| record.event.type_name() == "event_taken").count();
    assert_eq!(taken, 2);
    await_waits(&it, 0).await;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_refuses_only_what_no_plan_waits_for() -> Result<()> {
    let mut settings = settings();
    settings.events.kept_max = 2;
    let broker = goalmill_broker::embedded::open(None, goalmill_common::clock::Clock::system())?;
    let it = Installation::start(broker, settings).await?;
    let send = async |name: &str, id: &str, done: Value| {
        let (status, told) = it.post("/v1/events", &event(name, id, done)).await.expect("it is answered");
        (status, told["code"].as_str().unwrap_or_default().to_owned())
    };
    let kept = (200, String::new());
    // Those that a plan has taken do not count.
    for n in 0..5 {
        let name = format!("pay{n}");
        let plan = it.submit(&waiting(&name)).await?;
        await_waits(&it, 1).await;
        assert_eq!(send(&name, &format!("p{n}"), json!(n)).await, kept, "{n}");
        assert_eq!(it.await_end(&plan, SOON).await?["steps"][0]["outputs"], json!({ "done": n }));
        await_waits(&it, 0).await;
    }
    assert_eq!(
        (send("early", "k1", json!(1)).await, send("early", "k2", json!(2)).await),
        (kept.clone(), kept.clone())
    );
    assert_eq!(send("early", "k3", json!(3)).await, (429, "NAMESPACE_LIMIT_REACHED".into()));
    let plan = it.submit(&waiting("ship")).await?;
    await_waits(&it, 1).await;
    assert_eq!(send("ship", "s1", json!(7)).await, kept, "a plan waits for it");
    assert_eq!(it.await_end(&plan, SOON).await?["steps"][0]["outputs"], json!({"done": 7}));
    // One of those that were kept is taken by a plan that waits later, the first one.
    let plan = it.submit(&waiting("early")).await?;
    assert_eq!(it.await_end(&plan, SOON).await?["steps"][0]["outputs"], json!({"done": 1}));
    until(SOON, async || send("early", "k4", json!(4)).await == kept).await;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn data_that_fit_no_plan_that_waits_are_refused_and_not_kept() -> Result<()> {
    let it = Installation::embedded().await?;
    let plan = it.submit(&waiting("pay")).await?;
    await_waits(&it, 1).await;
    let (status, told) = it.post("/v1/events", &json!({"name": "pay", "id": "e1", "data": {"other": 1}})).await?;
    assert_eq!((status, &told["errors"][0]["code"]), (422, &json!("INVALID_EVENT")), "{told:#}");
    let any = it.submit(&json!({"steps": [{"id": "w", "wait": {"event": "pay"}}]})).await?;
    await_waits(&it, 2).await;
    let (status, told) = it.post("/v1/events", &event("pay", "e2", true)).await?;
    assert_eq!((status, told["plans"].as_array().map(Vec::len)), (200, Some(2)), "{told:#}");
    for plan in [plan, any] {
        assert_eq!(it.await_end(&plan, SOON).await?["steps"][0]["outputs"], json!({"done": true}));
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_for_the_outer_plan_reaches_the_waits_inside() -> Result<()> {
    let it = Installation::embedded().await?;
    let map = json!({"id": "m", "kind": "plan", "for_each": [1, 2], "plan": waiting("talk")});
    let plan = it.submit(&json!({ "steps": [map] })).await?;
    await_waits(&it, 2).await;
    let path = format!("/v1/plans/{plan}/events");
    for (id, status) in [("e1", 200), ("e1", 200), ("e2", 200)] {
        assert_eq!(it.post(&path, &event("talk", id, id)).await?.0, status);
    }
    let view = it.await_end(&plan, SOON).await?;
    let got = view["steps"][0]["outputs"].to_string();
    assert!(got.contains("e1") && got.contains("e2"), "{view:#}");
    it.stop().await;
    Ok(())
}

/// Programs write the stream; a namespace that is full and a key of another type hold up nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn one_namespace_or_key_does_not_stop_the_stream_of_all() -> Result<()> {
    let server = RedisServer::start().await?;
    let mut settings = settings();
    settings.events.kept_max = 1;
    let it = Installation::start(redis::connect(&server.settings()).await?, settings).await?;
    let keys = Keys::default();
    let mut connection = server.connection().await?;
    let add = |namespace: &str, name: &str, id: &str| {
        format!("XADD {} * name {name} id {id} namespace {namespace} data {{\"done\":\"{id}\"}}", keys.sent_events())
    };
    let stream =
        async |connection: &mut _| redis_server::send(connection, &format!("XLEN {}", keys.sent_events())).await;
    let of_broken = keys.waits_of(&"default".into(), &topic("broken", ""));
    redis_server::send(&mut connection, &format!("SET {of_broken} x")).await?;
    let plan = it.submit(&waiting("pay")).await?;
    await_waits(&it, 1).await;
    for line in
        [add("red", "a", "r1"), add("red", "b", "r2"), add("default", "broken", "b1"), add("default", "pay", "p1")]
    {
        redis_server::send(&mut connection, &line).await?;
    }
    assert_eq!(it.await_end(&plan, SOON).await?["steps"][0]["outputs"], json!({"done": "p1"}));
    assert_eq!(stream(&mut connection).await?, ::redis::Value::Int(2), "those that are not taken yet stay");
    // What held them up is over.
    redis_server::send(&mut connection, &format!("DEL {of_broken}")).await?;
    redis_server::send(&mut connection, &format!("DEL {}", keys.kept_events(&"red".into()))).await?;
    until(SOON, async || {
        let mut connection = server.connection().await.expect("Redis answers");
        stream(&mut connection).await.is_ok_and(|left| left == ::redis::Value::Int(0))
    })
    .await;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_redis_refuses_is_registered_later() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    let mut connection = server.connection().await?;
    let waits_of = Keys::default().waits_of(&"default".into(), &topic("pay", ""));
    redis_server::send(&mut connection, &format!("SET {waits_of} x")).await?;
    let plan = it.submit(&waiting("pay")).await?;
    let status =
        async || it.get(&format!("/v1/plans/{plan}")).await.expect("it is there")["steps"][0]["status"].clone();
    until(SOON, async || status().await == "waiting").await;
    redis_server::send(&mut connection, &format!("DEL {waits_of}")).await?;
    let (code, told) = it.post("/v1/events", &event("pay", "e1", 1)).await?;
    assert_eq!(code, 200, "{told:#}");
    assert_eq!(it.await_end(&plan, SOON).await?["steps"][0]["outputs"], json!({"done": 1}));
    it.stop().await;
    Ok(())
}
