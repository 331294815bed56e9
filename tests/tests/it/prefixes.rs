//! Several installations in one Redis, told apart by the prefix of their keys.

use anyhow::Result;
use goalmill_broker::redis;
use goalmill_common::config::RedisSettings;
use goalmill_common::event::LOG_FORMAT;
use goalmill_tests::installation::{Installation, settings, step};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::SOON;
use serde_json::{Value, json};

async fn start(server: &RedisServer, prefix: &str) -> Result<Installation> {
    let redis = RedisSettings { prefix: prefix.into(), ..server.settings() };
    Installation::start(redis::connect(&redis).await?, settings()).await
}

/// A plan of three steps in a row that hand the installation's name on.
fn plan(name: &str) -> Value {
    let inputs = json!({"x": name});
    json!({"name": name, "steps": [
        step("a", "echo", &[], inputs.clone()), step("b", "echo", &["a"], inputs.clone()), step("c", "echo", &["b"], inputs),
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn two_prefixes_in_one_redis_run_their_plans_and_do_not_see_each_other() -> Result<()> {
    let server = RedisServer::start().await?;
    let (one, two) = tokio::try_join!(start(&server, "one"), start(&server, "two"))?;
    let documents = [plan("one"), plan("two")];
    let (plan_one, plan_two) = tokio::try_join!(one.submit(&documents[0]), two.submit(&documents[1]))?;
    for (it, id, other, name) in [(&one, &plan_one, &plan_two, "one"), (&two, &plan_two, &plan_one, "two")] {
        assert_eq!(it.await_end(id, SOON).await?["status"], "completed");
        let plans = it.get("/v1/plans").await?;
        assert!(plans.to_string().contains(id.as_str()) && !plans.to_string().contains(other.as_str()), "{plans}");
        let results = it.get(&format!("/v1/plans/{id}/results")).await?;
        assert_eq!(results["results"]["c"]["x"], name, "{results}");
        assert!(it.broker.summary(other).await?.is_empty());
        assert_eq!(it.broker.workers(60_000).await?.len(), 1);
        assert_eq!(
            it.broker.record_scheduler_heartbeat("probe", LOG_FORMAT, 60_000).await?.sharing.len(),
            2,
            "its own scheduler and this one"
        );
    }
    let keys: Vec<String> = ::redis::cmd("KEYS").arg("*").query_async(&mut server.connection().await?).await?;
    assert!(keys.iter().all(|key| key.starts_with("one:") || key.starts_with("two:")), "{keys:?}");
    one.stop().await;
    two.stop().await;
    Ok(())
}
