//! Submissions through the stream that any client may write to.

use std::time::Duration;

use anyhow::{Result, ensure};
use goalmill_broker::{Install, embedded};
use goalmill_common::clock::Clock;
use goalmill_common::keys::Keys;
use goalmill_common::limits::TaskLimits;
use goalmill_common::wire::{Fields, GOAL_TYPE, PLAN_TYPE};
use goalmill_tests::installation::{Installation, settings, step};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until, until_some};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_mins(1);

fn entry(id: &str, kind: &str, data: &str) -> Fields {
    [("specversion", "1.0"), ("id", id), ("source", "urn:test"), ("type", kind), ("data", data)]
        .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
        .to_vec()
}

fn plan() -> Value {
    json!({"steps": [step("a", "echo", &[], json!({"x": 1}))]})
}

async fn answer(it: &Installation, id: &str) -> Value {
    let found = until_some(SOON, async || {
        let answers = it.broker.answers(&[id.to_owned()]).await.ok()?;
        answers.into_iter().next().flatten()
    });
    let text = found.await.unwrap_or_else(|| panic!("`{id}` was never answered"));
    serde_json::from_str(&text).expect("an answer is JSON")
}

async fn submissions_are_answered(it: Installation) -> Result<()> {
    it.broker.submit(&entry("req-1", PLAN_TYPE, &plan().to_string())).await?;
    let accepted = answer(&it, "req-1").await;
    let id = accepted["plan_id"].as_str().unwrap_or_else(|| panic!("{accepted:#}")).into();
    assert_eq!(it.await_end(&id, LIMIT).await?["status"], "completed");
    it.broker.submit(&entry("req-2", GOAL_TYPE, r#"{"description": "Plan a trip"}"#)).await?;
    assert!(answer(&it, "req-2").await["plan_id"].is_string());

    // The same id again is the same plan, over either way.
    it.broker.submit(&entry("req-1", PLAN_TYPE, &plan().to_string())).await?;
    let again = it.http.post(it.url("/v1/plans")).header("Idempotency-Key", "req-1").json(&plan()).send().await?;
    assert_eq!(again.json::<Value>().await?, json!({"plan_id": id, "status": "completed"}));

    let mut latin: Fields = entry("bad-latin", PLAN_TYPE, "");
    latin.last_mut().expect("there are fields").1 = b"caf\xe9".to_vec();
    let mut no_data = entry("bad-no-data", PLAN_TYPE, "");
    no_data.pop();
    let unversioned: Fields = entry("bad-version", PLAN_TYPE, "{}").into_iter().skip(1).collect();
    let too_many: Vec<Value> = (0..10_001).map(|n| json!({"id": format!("s{n}"), "agent_type": "echo"})).collect();
    let nested = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let mut traced = entry("bad-trace", PLAN_TYPE, &plan().to_string());
    traced.push(("traceparent".into(), b"00-a\r\nx: y".to_vec()));
    let bad: Vec<(&str, Fields, &str)> = vec![
        ("bad-trace", traced, "INVALID_ENTRY"),
        ("bad-type", entry("bad-type", "goalmill.plan.submit.v9", "{}"), "UNSUPPORTED_TYPE"),
        ("bad-json", entry("bad-json", PLAN_TYPE, "{\"steps\": ["), "INVALID_JSON"),
        ("bad-empty", entry("bad-empty", PLAN_TYPE, ""), "INVALID_JSON"),
        ("bad-goal", entry("bad-goal", GOAL_TYPE, "{\"priority\": 99}"), "INVALID_GOAL"),
        (
            "bad-cycle",
            entry("bad-cycle", PLAN_TYPE, r#"{"steps":[{"id":"a","agent_type":"echo","dependencies":["a"]}]}"#),
            "INVALID_PLAN",
        ),
        ("bad-size", entry("bad-size", PLAN_TYPE, &json!({"steps": too_many}).to_string()), "INVALID_PLAN"),
        ("bad-nesting", entry("bad-nesting", PLAN_TYPE, &nested), "INVALID_PLAN"),
        ("bad-latin", latin, "INVALID_ENTRY"),
        ("bad-no-data", no_data, "INVALID_ENTRY"),
        ("bad-version", unversioned, "INVALID_ENTRY"),
    ];
    for (_, fields, _) in &bad {
        it.broker.submit(fields).await?;
    }
    for (id, _, code) in &bad {
        let problem = answer(&it, id).await;
        assert_eq!(problem["code"], *code, "{id}: {problem:#}");
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
    }
    // Nobody can be told about these; they must not stand in the way.
    for id in ["", "-x", "a b", &"x".repeat(500)] {
        it.broker.submit(&entry(id, PLAN_TYPE, "{}")).await?;
    }
    it.broker.submit(&vec![("hello".into(), b"world".to_vec())]).await?;
    it.broker.submit(&entry("req-3", PLAN_TYPE, &plan().to_string())).await?;
    let last = answer(&it, "req-3").await["plan_id"].as_str().expect("it is accepted").into();
    assert_eq!(it.await_end(&last, LIMIT).await?["status"], "completed");
    // All of it is acknowledged: there is nothing to take over.
    until(SOON, async || it.broker.reclaim_submissions("tester", 0, 100).await.is_ok_and(|left| left.is_empty())).await;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_submission_is_answered_on_the_embedded_back_end() -> Result<()> {
    submissions_are_answered(Installation::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_submission_is_answered_over_redis() -> Result<()> {
    let server = RedisServer::start().await?;
    submissions_are_answered(Installation::over(&server).await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_submission_is_answered_again_while_its_plan_runs() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    let mut waits = plan();
    waits["approve"] = json!(true);
    it.broker.submit(&entry("req-1", PLAN_TYPE, &waits.to_string())).await?;
    let first = answer(&it, "req-1").await;
    let mut redis = server.connection().await?;
    let _: u64 = redis::cmd("DEL").arg(Keys::default().answer("req-1")).query_async(&mut redis).await?;
    it.broker.submit(&entry("req-1", PLAN_TYPE, &waits.to_string())).await?;
    let again = answer(&it, "req-1").await;
    assert_eq!((&again["plan_id"], &again["status"]), (&first["plan_id"], &json!("awaiting_approval")));
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_submission_whose_answer_is_gone_does_not_shake_the_shard() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    it.broker.submit(&entry("req-1", PLAN_TYPE, &plan().to_string())).await?;
    let id = answer(&it, "req-1").await["plan_id"].as_str().expect("it is accepted").into();
    it.await_end(&id, LIMIT).await?;
    let owner =
        async || it.broker.owner(id.shard().expect("it has one")).await.expect("it answers").expect("it is owned");
    let before = owner().await.token;
    let mut redis = server.connection().await?;
    let gone: u64 = redis::cmd("DEL").arg(Keys::default().answer("req-1")).query_async(&mut redis).await?;
    assert_eq!(gone, 1);
    it.broker.submit(&entry("req-1", PLAN_TYPE, &plan().to_string())).await?;
    assert_eq!(answer(&it, "req-1").await, json!({"plan_id": id, "status": "completed"}));
    let again = it.http.post(it.url("/v1/plans")).header("Idempotency-Key", "req-1").json(&plan()).send().await?;
    assert_eq!(again.status().as_u16(), 202);
    assert_eq!(owner().await.token, before, "the shard was lost over it");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_holds_no_task_goes_away() -> Result<()> {
    let server = RedisServer::start().await?;
    // Nobody works on such entries, so that their leases run out.
    let mut settings = settings();
    (settings.scheduler.task_lease_ms, settings.worker.lease_margin_ms) = (3_000, 500);
    let it = Installation::start(goalmill_broker::redis::connect(&server.settings()).await?, settings).await?;
    let mut redis = server.connection().await?;
    let stream = Keys::default().steps(&"echo".into());
    let forged = json!({"plan": "p999-0000000000000000", "step": "a"}).to_string();
    for data in ["no task at all", forged.as_str()] {
        let _: String = redis::cmd("XADD")
            .arg(&stream)
            .arg("*")
            .arg("v")
            .arg("1")
            .arg("data")
            .arg(data)
            .query_async(&mut redis)
            .await?;
    }
    until(SOON, async || {
        let letters = it.get("/v1/dead-letters/echo").await.expect("it answers");
        letters["items"].as_array().is_some_and(|letters| letters.len() == 2)
    })
    .await;
    until(LIMIT, async || {
        let scaling = it.get("/v1/scaling/echo").await.expect("it answers");
        scaling["running"] == 0 && scaling["waiting"] == 0
    })
    .await;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn submissions_of_a_scheduler_whose_process_has_ended_do_not_wait_for_its_lease() -> Result<()> {
    let server = RedisServer::start().await?;
    let broker = goalmill_broker::redis::connect(&server.settings()).await?;
    let mut settings = settings();
    settings.scheduler.shard_lease_ms = 3_600_000;
    broker
        .open(&Install { instance: "i".into(), shards: settings.scheduler.shards, limits: TaskLimits::default() })
        .await?;
    broker.submit(&entry("held", PLAN_TYPE, &plan().to_string())).await?;
    broker.submit(&entry("orphan", PLAN_TYPE, &plan().to_string())).await?;
    broker.announce_presence("alive").await?;
    for scheduler in ["alive", "dead"] {
        assert_eq!(broker.reader().await?.submissions(scheduler, 1, 0).await?.len(), 1);
    }
    let it = Installation::start(broker, settings).await?;
    let accepted = answer(&it, "orphan").await;
    it.await_end(&accepted["plan_id"].as_str().expect("it is accepted").into(), LIMIT).await?;
    assert_eq!(it.broker.answers(&["held".into()]).await?, [None], "its scheduler lives");
    it.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_submission_over_which_schedulers_died_is_refused_and_the_next_one_is_taken() -> Result<()> {
    let broker = embedded::open(None, Clock::system())?;
    let mut settings = settings();
    settings.scheduler.id = "again".into();
    broker
        .open(&Install { instance: "i".into(), shards: settings.scheduler.shards, limits: TaskLimits::default() })
        .await?;
    let (deadly, good) =
        (entry("deadly", PLAN_TYPE, &plan().to_string()), entry("good", PLAN_TYPE, &plan().to_string()));
    let first = broker.submit(&deadly).await?;
    broker.submit(&good).await?;
    // A scheduler of the same name took both and died, as two before it had.
    assert_eq!(broker.reader().await?.submissions("again", 10, 0).await?.len(), 2);
    let tries = json!({ first.to_string(): ["one", "two", "three"] }).to_string();
    broker.put_blob(&Keys::default().submission_tries(), tries.as_bytes(), 60_000).await?;

    let it = Installation::start(broker, settings).await?;
    assert_eq!(answer(&it, "deadly").await["code"], "PLAN_QUARANTINED");
    let accepted = answer(&it, "good").await;
    it.await_end(&accepted["plan_id"].as_str().expect("it is accepted").into(), LIMIT).await?;
    let kept = it.broker.get_blob(&Keys::default().submission_tries()).await?;
    assert_eq!(kept.as_deref(), Some(b"{}".as_slice()), "what is dealt with is not counted any more");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_accepted_while_shards_move() -> Result<()> {
    let mut settings = settings();
    settings.scheduler.heartbeat_ms = 50;
    let mut it = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    let (url, http) = (it.url("/v1/plans"), it.http.clone());
    let mut clients = JoinSet::new();
    let moving = CancellationToken::new();
    for _ in 0..16 {
        let (url, http, moving) = (url.clone(), http.clone(), moving.clone());
        clients.spawn(async move {
            while !moving.is_cancelled() {
                let answer = http.post(&url).json(&plan()).send().await?;
                ensure!(answer.status() == 202, "{}", answer.text().await?);
            }
            Ok(())
        });
    }
    for _ in 0..3 {
        it.add_scheduler().await?;
        let added = it.schedulers.last().expect("it was added");
        let ready = format!("{}/readyz", added.api_url().expect("it has an API"));
        let owned = async || -> Result<usize> {
            let ready: Value = it.http.get(&ready).send().await?.json().await?;
            Ok(ready["shards"].as_array().map_or(0, Vec::len))
        };
        until(SOON, async || owned().await.is_ok_and(|shards| shards > 0)).await;
        it.schedulers.pop().expect("it was added").stop().await;
    }
    moving.cancel();
    while let Some(client) = clients.join_next().await {
        client??;
    }
    it.stop().await;
    Ok(())
}
