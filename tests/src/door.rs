//! Clients of an installation whose processes come and go.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Result, bail};
use goalmill_broker::Broker;
use goalmill_common::id::PlanId;
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::wait::until_some;

/// Until one call of the API has answered.
const CALL_LIMIT: Duration = Duration::from_mins(1);
/// How long an accepted plan may show no end before it is submitted again.
const PATIENCE: Duration = Duration::from_secs(5);

/// The way in: asks whichever scheduler answers. Unlike the [`Cluster`], it can be used while that one is changed.
pub struct Door {
    urls: Arc<RwLock<Vec<String>>>,
    http: reqwest::Client,
    broker: Arc<dyn Broker>,
}

impl Door {
    pub fn to(cluster: &Cluster) -> Self {
        let door = Self { urls: Arc::default(), http: cluster.http.clone(), broker: cluster.broker.clone() };
        door.renew(cluster);
        door
    }

    /// Learns the addresses of the schedulers that run.
    pub fn renew(&self, cluster: &Cluster) {
        let urls = cluster.schedulers.iter().map(|node| node.url.clone()).collect();
        *self.urls.write().unwrap_or_else(PoisonError::into_inner) = urls;
    }

    /// Submits a plan under a key, and again when nothing is heard of it, until it has ended: its id and status.
    ///
    /// A Redis that is killed may lose what it has not written; the key makes the second submission the same plan.
    pub async fn run(&self, key: &str, plan: &Value, limit: Duration) -> Result<(PlanId, String)> {
        let end = Instant::now() + limit;
        loop {
            let id = self.submit(key, plan, end.saturating_duration_since(Instant::now())).await?;
            let patience = PATIENCE.min(end.saturating_duration_since(Instant::now()));
            if let Some(status) = until_some(patience, async || self.status_at_end(&id).await).await {
                return Ok((id, status));
            }
            if Instant::now() >= end {
                bail!("plan {id} has not ended within {limit:?}");
            }
        }
    }

    /// The status with which a plan has ended, if it has.
    pub async fn status_at_end(&self, plan: &PlanId) -> Option<String> {
        let summary = self.broker.summary(plan).await.ok()?;
        summary.contains_key("finished").then(|| summary.get("status").cloned().unwrap_or_default())
    }

    /// Submits a plan under a key to whichever scheduler takes it.
    pub async fn submit(&self, key: &str, plan: &Value, limit: Duration) -> Result<PlanId> {
        let mut turn = 0;
        let mut last = String::new();
        let accepted = until_some(limit, async || {
            turn += 1;
            let url = {
                let urls = self.urls.read().unwrap_or_else(PoisonError::into_inner);
                urls.get(turn % urls.len().max(1)).cloned()?
            };
            let request = self.http.post(format!("{url}/v1/plans")).timeout(CALL_LIMIT).header("idempotency-key", key);
            let answer = match request.json(plan).send().await {
                Ok(answer) => answer,
                Err(error) => {
                    last = error.to_string();
                    return None;
                }
            };
            let status = answer.status().as_u16();
            let body: Value = answer.json().await.unwrap_or_default();
            match status {
                202 => body["plan_id"].as_str().map(|id| Ok(PlanId::from(id))),
                0..500 => Some(Err(format!("refused with {status}: {body}"))),
                _ => {
                    last = format!("{status}: {body}");
                    None
                }
            }
        });
        match accepted.await {
            Some(Ok(id)) => Ok(id),
            Some(Err(why)) => bail!(why),
            None => bail!("nobody took `{key}` within {limit:?}: {last}"),
        }
    }
}
