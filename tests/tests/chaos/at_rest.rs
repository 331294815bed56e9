//! Counts of waiting tasks are zero when nothing is left to do: the API, autoscaling numbers, Redis itself.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_common::id::AgentType;
use goalmill_common::keys::{self, Keys};
use goalmill_tests::cluster::Cluster;
use goalmill_tests::wait::until_some;
use redis::Value as Reply;
use serde_json::Value;

const LIMIT: Duration = Duration::from_mins(2);

/// Waits until all counts are 0; `redis` is the URL of the primary.
pub async fn verify_counts_at_rest(cluster: &Cluster, redis: &str) -> Result<()> {
    let mut last = String::new();
    let settled = until_some(LIMIT, async || {
        last = wrong_counts(cluster, redis).await.unwrap_or_else(|error| format!("{error:#}"));
        last.is_empty().then_some(())
    });
    settled.await.with_context(|| format!("counts at rest: {last}\n{}", cluster.log_tails()))
}

/// The counts that are not 0.
async fn wrong_counts(cluster: &Cluster, redis: &str) -> Result<String> {
    let url = &cluster.schedulers[0].url;
    let get = async |path: String| -> Result<Value> {
        Ok(cluster.http.get(format!("{url}{path}")).send().await?.error_for_status()?.json().await?)
    };
    let queues = get("/v1/queues".into()).await?;
    let queues = queues["items"].as_array().context("a list")?;
    let mut wrong = Vec::new();
    let client = redis::Client::open(redis)?;
    let mut line = client.get_multiplexed_async_connection().await?;
    let mut groups = vec![(Keys::default().goals(), keys::SCHEDULERS)];
    for queue in queues {
        let name = queue["agent_type"].as_str().context("a name")?;
        groups.push((Keys::default().steps(&AgentType::from(name)), keys::WORKERS_GROUP));
        let scaling = get(format!("/v1/scaling/{name}")).await?;
        if queue["waiting"] != 0 || scaling["waiting"] != 0 || scaling["desired_slots"] != 0 {
            wrong.push(format!("{queue}, {scaling}"));
        }
    }
    for (stream, name) in groups {
        let asked = redis::cmd("XINFO").arg("GROUPS").arg(&stream).query_async(&mut line).await;
        let states: Vec<BTreeMap<String, Reply>> = asked.unwrap_or_default();
        for state in states.iter().filter(|state| state["name"] == Reply::BulkString(name.into())) {
            if state["lag"] != Reply::Int(0) {
                wrong.push(format!("`{stream}`: {state:?}"));
            }
        }
    }
    Ok(wrong.join("; "))
}
