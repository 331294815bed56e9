//! Limits of namespaces: what exceeds one is refused, and steps above one wait.

use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_broker::{embedded, redis};
use goalmill_common::clock::Clock;
use goalmill_common::config::NamespaceSettings;
use goalmill_common::id::PlanId;
use goalmill_common::wire::{Fields, PLAN_TYPE};
use goalmill_tests::installation::{Installation, settings, step};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until, until_some};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);
/// Steps of a wide plan.
const STEPS: usize = 6;

fn limited(limits: NamespaceSettings) -> goalmill_common::config::Settings {
    let mut all = settings();
    all.namespaces.insert("red".into(), limits);
    all
}

async fn start(limits: NamespaceSettings) -> Result<Installation> {
    Installation::start(embedded::open(None, Clock::system())?, limited(limits)).await
}

fn waiting(namespace: &str) -> Value {
    json!({"goal": {"description": "x", "namespace": namespace}, "steps": [step("a", "nobody", &[], json!({}))]})
}

fn wide(namespace: &str, agent_type: &str) -> Value {
    let steps: Vec<Value> = (0..STEPS).map(|n| step(&format!("s{n}"), agent_type, &[], json!({}))).collect();
    json!({"goal": {"description": "x", "namespace": namespace}, "steps": steps})
}

/// The plan, or the limit that is named and the seconds to wait.
async fn submit(url: &str, plan: &Value) -> Result<Result<PlanId, (String, u64)>> {
    let answer = reqwest::Client::new().post(format!("{url}/v1/plans")).json(plan).send().await?;
    let (status, wait) = (answer.status().as_u16(), answer.headers().get("retry-after").cloned());
    let body: Value = answer.json().await?;
    if status == 202 {
        return Ok(Ok(body["plan_id"].as_str().context("it is accepted")?.into()));
    }
    assert_eq!((status, &body["code"]), (429, &json!("NAMESPACE_LIMIT_REACHED")), "{body:#}");
    let wait = wait.context("it says when to come again")?.to_str()?.parse()?;
    assert_eq!(body["retry_after_s"], wait);
    let detail = body["detail"].as_str().unwrap_or_default();
    let (_, setting) = detail.split_once("`namespaces.\"red\".").with_context(|| detail.to_owned())?;
    Ok(Err((setting.split('`').next().unwrap_or_default().to_owned(), wait)))
}

/// Submits until a submission is refused, at most `tries` times.
async fn exceed(it: &Installation, plan: &Value, tries: usize) -> Result<(usize, String, u64)> {
    for accepted in 0..tries {
        if let Err((limit, wait)) = submit(&it.url(""), plan).await? {
            return Ok((accepted, limit, wait));
        }
    }
    anyhow::bail!("{tries} were accepted")
}

#[tokio::test(flavor = "multi_thread")]
async fn submissions_and_bytes_of_a_period_are_limited() -> Result<()> {
    let none = NamespaceSettings::default();
    // The period may end during the test, once.
    let it = start(NamespaceSettings { submissions_per_minute: Some(3), ..none.clone() }).await?;
    let (accepted, limit, wait) = exceed(&it, &waiting("red"), 7).await?;
    assert!(accepted >= 3 && limit == "submissions_per_minute" && (1..=60).contains(&wait), "{accepted} {limit}");
    assert!(submit(&it.url(""), &waiting("blue")).await?.is_ok(), "others have no limit");
    it.stop().await;

    let bytes = waiting("red").to_string().len() as u64;
    let it = start(NamespaceSettings { payload_bytes_per_day: Some(bytes * 2 + 1), ..none }).await?;
    let (accepted, limit, wait) = exceed(&it, &waiting("red"), 5).await?;
    assert!(accepted >= 2 && limit == "payload_bytes_per_day" && (1..=86_400).contains(&wait), "{accepted} {limit}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_at_the_same_time_are_limited() -> Result<()> {
    let it = start(NamespaceSettings { plans_max: Some(2), ..NamespaceSettings::default() }).await?;
    let send = |key: &'static str| {
        let request = it.http.post(it.url("/v1/plans")).header("Idempotency-Key", key);
        async move { anyhow::Ok(request.json(&waiting("red")).send().await?.json::<Value>().await?) }
    };
    let first: PlanId = send("k").await?["plan_id"].as_str().context("it is accepted")?.into();
    assert_eq!(send("k").await?["plan_id"], first.as_str(), "the same submission is the same plan");
    let (accepted, limit, _) = exceed(&it, &waiting("red"), 3).await?;
    assert_eq!((accepted, limit.as_str()), (1, "plans_max"));
    assert_eq!(send("k").await?["plan_id"], first.as_str(), "an accepted one is not refused later");

    let fields: Fields = [("specversion", "1.0"), ("id", "s"), ("source", "urn:test"), ("type", PLAN_TYPE)]
        .into_iter()
        .chain([("data", waiting("red").to_string().as_str())])
        .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
        .collect();
    it.broker.submit(&fields).await?;
    let answer = until_some(SOON, async || it.broker.answers(&["s".to_owned()]).await.ok()?.pop().flatten()).await;
    let answer: Value = serde_json::from_str(&answer.context("it is answered")?)?;
    assert!(answer.to_string().contains("NAMESPACE_LIMIT_REACHED"), "{answer:#}");

    it.post(&format!("/v1/plans/{first}:cancel"), &json!({})).await?;
    it.await_end(&first, LIMIT).await?;
    until(SOON, async || submit(&it.url(""), &waiting("red")).await.is_ok_and(|sent| sent.is_ok())).await;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn cost_and_tokens_of_a_day_are_limited() -> Result<()> {
    let none = NamespaceSettings::default();
    let limits = [
        (NamespaceSettings { cost_per_day: Some(0.5), ..none.clone() }, "cost_per_day"),
        (NamespaceSettings { tokens_per_day: Some(100), ..none }, "tokens_per_day"),
    ];
    for (limits, name) in limits {
        let it = start(limits).await?;
        let spends = json!({"goal": {"description": "x", "namespace": "red"},
            "steps": [step("a", "spend", &[], json!({"cost": 0.5, "tokens": 100}))]});
        let plan = submit(&it.url(""), &spends).await?.ok().context("nothing is used yet")?;
        let ended = it.await_end(&plan, LIMIT).await?;
        assert_eq!(ended["usage"]["tokens"], 100, "{ended:#}");
        // The counts follow the commit.
        until(
            SOON,
            async || matches!(submit(&it.url(""), &waiting("red")).await, Ok(Err((limit, _))) if limit == name),
        )
        .await;
        it.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_above_the_limit_wait_and_none_is_lost() -> Result<()> {
    let it = start(NamespaceSettings { steps_max: Some(2), ..NamespaceSettings::default() }).await?;
    let sent = async || {
        let queues = it.get("/v1/queues").await.unwrap_or_default();
        let queue = queues["items"].as_array().into_iter().flatten().find(|queue| queue["agent_type"] == "nobody");
        queue.and_then(|queue| queue["waiting"].as_u64()).unwrap_or(0)
    };
    let mut plans = Vec::new();
    for _ in 0..4 {
        plans.push(submit(&it.url(""), &wide("red", "nobody")).await?.ok().context("plans have no limit")?);
    }
    until(SOON, async || sent().await == 2).await;
    until(SOON, async || it.get("/v1/scaling/nobody").await.is_ok_and(|scaling| scaling["desired_slots"] == 2)).await;
    submit(&it.url(""), &wide("blue", "nobody")).await?.ok().context("others have no limit")?;
    until(SOON, async || sent().await == 2 + STEPS as u64).await;
    for plan in &plans {
        it.post(&format!("/v1/plans/{plan}:cancel"), &json!({})).await?;
    }
    let mut served = Vec::new();
    for _ in 0..4 {
        served.push(submit(&it.url(""), &wide("red", "echo")).await?.ok().context("plans have no limit")?);
    }
    for plan in &served {
        let ended = it.await_end(plan, LIMIT).await?;
        assert_eq!(
            (&ended["status"], &ended["counts"]["completed"]),
            (&json!("completed"), &json!(STEPS)),
            "{ended:#}"
        );
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn schedulers_share_what_they_count() -> Result<()> {
    let server = RedisServer::start().await?;
    let limits = NamespaceSettings { tokens_per_day: Some(100), ..NamespaceSettings::default() };
    let mut it = Installation::start(redis::connect(&server.settings()).await?, limited(limits)).await?;
    it.add_scheduler().await?;
    let urls = it.urls();
    let spends = json!({"goal": {"description": "x", "namespace": "red"},
        "steps": [step("a", "spend", &[], json!({"tokens": 100}))]});
    let plan = submit(&urls[0], &spends).await?.ok().context("nothing is used yet")?;
    it.await_end(&plan, LIMIT).await?;
    // Only the owner of the plan counts its tokens; the other scheduler learns of them.
    for url in &urls {
        let is_refused =
            async || matches!(submit(url, &waiting("red")).await, Ok(Err((limit, _))) if limit == "tokens_per_day");
        until(SOON, is_refused).await;
    }
    it.stop().await;
    Ok(())
}
