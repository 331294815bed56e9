//! Keys of a wrong type, and a server that takes no writes: what they stop, and what they do not.

use std::time::Duration;

use anyhow::Result;
use goalmill_common::id::{PlanId, ShardId};
use goalmill_common::keys::Keys;
use goalmill_tests::installation::{Installation, step};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until, until_some};
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);

fn plan(agent_type: &str) -> Value {
    json!({"steps": [step("a", agent_type, &[], json!({}))]})
}

/// Puts a text where something else belongs.
async fn spoil(raw: &mut MultiplexedConnection, key: &str) -> Result<()> {
    Ok(redis::cmd("SET").arg(key).arg("wrong").query_async(raw).await?)
}

async fn set(raw: &mut MultiplexedConnection, name: &str, value: &str) -> Result<()> {
    Ok(redis::cmd("CONFIG").arg("SET").arg(name).arg(value).query_async(raw).await?)
}

/// Submits a plan as a patient client does: its shard may just be read again.
async fn submit(it: &Installation, agent_type: &str) -> PlanId {
    until_some(SOON, async || it.submit(&plan(agent_type)).await.ok()).await.expect("it is accepted")
}

/// The status and the body of `/readyz`.
async fn ready(it: &Installation) -> Result<(u16, Value)> {
    let answer = it.http.get(it.url("/readyz")).send().await?;
    Ok((answer.status().as_u16(), answer.json().await?))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_a_wrong_type_holds_up_its_own_steps_only_until_its_key_is_repaired() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    let mut raw = server.connection().await?;
    let key = Keys::default().steps(&"echo".into());
    let first = it.submit(&plan("echo")).await?;
    assert_eq!(it.await_end(&first, LIMIT).await?["status"], "completed");
    spoil(&mut raw, &key).await?;
    let held = submit(&it, "echo").await;
    let other = submit(&it, "sleep").await;
    assert_eq!(it.await_end(&other, LIMIT).await?["status"], "completed");
    let explained = until_some(SOON, async || {
        let explained = it.get(&format!("/v1/plans/{held}/explain")).await.ok()?;
        (explained["steps"][0]["status"] == "ready").then_some(explained)
    });
    let explained = explained.await.expect("the step waits");
    let because = explained["steps"][0]["because"].to_string();
    assert!(because.contains("in quarantine") && because.contains(&key), "{explained:#}");
    let queues = it.get("/v1/queues").await?;
    let queue = queues["items"].as_array().and_then(|all| all.iter().find(|queue| queue["agent_type"] == "echo"));
    let problem = queue.and_then(|queue| queue["quarantined"].as_str()).unwrap_or_default();
    assert!(problem.contains(&key) && problem.contains("rename this key"), "{queues:#}");
    for advice in [&because, problem] {
        assert!(!advice.contains("delete"), "{advice}");
    }

    redis::cmd("RENAME").arg(&key).arg("renamed").query_async::<()>(&mut raw).await?;
    assert_eq!(it.await_end(&held, LIMIT).await?["status"], "completed");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_whose_key_is_of_a_wrong_type_stops_alone() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    let mut raw = server.connection().await?;
    let gate = json!({"steps": [{"id": "a", "agent_type": "echo", "ask": {"question": "go on?", "into": "answer"}}]});
    let (spoilt, healthy) = (it.submit(&gate).await?, it.submit(&gate).await?);
    spoil(&mut raw, &Keys::default().events(&spoilt)).await?;
    for plan in [&spoilt, &healthy] {
        let path = format!("/v1/plans/{plan}/steps/a:answer");
        // The shard of the spoilt plan is read again without it.
        until(SOON, async || {
            let (status, _) = it.post(&path, &json!({"answer": "yes"})).await.unwrap_or_default();
            status == 200 || (plan == &spoilt && status != 0)
        })
        .await;
    }
    assert_eq!(it.await_end(&healthy, LIMIT).await?["status"], "completed");
    let after = submit(&it, "echo").await;
    assert_eq!(it.await_end(&after, LIMIT).await?["status"], "completed");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_cannot_commit_is_not_ready() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    let mut raw = server.connection().await?;
    until(SOON, async || ready(&it).await.is_ok_and(|(status, _)| status == 200)).await;
    set(&mut raw, "min-replicas-to-write", "1").await?;
    until(SOON, async || {
        ready(&it).await.is_ok_and(|(status, problem)| {
            status == 503 && problem["code"] == "STORE_REFUSED" && problem.to_string().contains("NOREPLICAS")
        })
    })
    .await;
    let refused = it.http.post(it.url("/v1/plans")).header("idempotency-key", "k").json(&plan("echo")).send().await?;
    assert_eq!((refused.status().as_u16(), refused.headers().contains_key("retry-after")), (503, true));
    let problem = refused.json::<Value>().await?;
    assert_eq!(problem["code"], "STORE_REFUSED");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("NOREPLICAS") && detail.contains("min-replicas-to-write"), "{detail}");
    set(&mut raw, "min-replicas-to-write", "0").await?;
    until(SOON, async || ready(&it).await.is_ok_and(|(status, _)| status == 200)).await;

    let key = Keys::default().index(ShardId(0));
    spoil(&mut raw, &key).await?;
    until(SOON, async || {
        ready(&it).await.is_ok_and(|(status, problem)| status == 503 && problem.to_string().contains(&key))
    })
    .await;
    redis::cmd("DEL").arg(&key).query_async::<()>(&mut raw).await?;
    until(SOON, async || ready(&it).await.is_ok_and(|(status, _)| status == 200)).await;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_that_cannot_be_used_is_named_with_its_place_and_affects_no_other() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    let mut raw = server.connection().await?;
    for (name, card) in [
        ("loud", json!({"agent_type": "loud", "success_rate": 7})),
        ("odd", json!({"agent_type": "odd", "cots": 1})),
        ("one", json!({"agent_type": "other"})),
        ("soft", json!({"agent_type": "soft", "description": "whispers"})),
    ] {
        write_card(&mut raw, name, &card.to_string()).await?;
    }
    write_card(&mut raw, "torn", "{\"agent_type\":").await?;
    let warnings = async || ready(&it).await.map(|(_, answer)| answer["warnings"].to_string()).unwrap_or_default();
    let is_named = |warnings: &str| {
        ["`loud`", "/success_rate", "`odd`", "/cots", "`one`", "/agent_type", "`torn`"]
            .iter()
            .all(|w| warnings.contains(w))
    };
    until(SOON, async || is_named(&warnings().await)).await;
    let known = it.get("/v1/agents").await?.to_string();
    assert!(known.contains("whispers") && known.contains("echo") && !known.contains("loud"), "{known}");
    let text = json!({"text": "whisper something"});
    until(SOON, async || {
        let routed = it.post("/v1/agents:route", &text).await;
        routed.is_ok_and(|(_, routed)| routed["candidates"][0]["agent_type"] == "soft")
    })
    .await;
    let id = submit(&it, "echo").await;
    assert_eq!(it.await_end(&id, LIMIT).await?["status"], "completed");

    for name in ["loud", "odd", "one", "torn"] {
        write_card(&mut raw, name, &json!({"agent_type": name}).to_string()).await?;
    }
    until(SOON, async || !warnings().await.contains("is refused")).await;
    it.stop().await;
    Ok(())
}

/// Registers an agent type as a program without Goalmill does.
async fn write_card(raw: &mut MultiplexedConnection, name: &str, card: &str) -> Result<()> {
    let _: i64 = redis::cmd("HSET").arg(Keys::default().agents()).arg(name).arg(card).query_async(raw).await?;
    let _: i64 = redis::cmd("PUBLISH").arg(Keys::default().agents_changed()).arg(name).query_async(raw).await?;
    Ok(())
}
