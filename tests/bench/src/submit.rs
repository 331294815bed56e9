//! Submits plans to a cluster whose processes are replaced.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Result, bail};
use goalmill_broker::Broker;
use goalmill_common::id::PlanId;
use serde_json::Value;
use tokio::time::Instant;

use goalmill_tests::cluster::Cluster;
use goalmill_tests::wait::until_some;

/// Timeout of one API call.
const CALL_LIMIT: Duration = Duration::from_mins(1);
/// Time after which an accepted plan without an end is submitted again.
const RESUBMIT_AFTER: Duration = Duration::from_secs(5);

/// Submits to any scheduler that answers; usable while the [`Cluster`] is changed.
pub struct Submitter {
    urls: Arc<RwLock<Vec<String>>>,
    http: reqwest::Client,
    broker: Arc<dyn Broker>,
}

impl Submitter {
    pub fn new(cluster: &Cluster) -> Self {
        let submitter = Self { urls: Arc::default(), http: cluster.http.clone(), broker: cluster.broker.clone() };
        submitter.update_urls(cluster);
        submitter
    }

    /// Reads the addresses of the running schedulers.
    pub fn update_urls(&self, cluster: &Cluster) {
        let urls = cluster.schedulers.iter().map(|node| node.url.clone()).collect();
        *self.urls.write().unwrap_or_else(PoisonError::into_inner) = urls;
    }

    /// Submits a plan under a key, and again when it shows no end, until it ends. Returns its id and status.
    ///
    /// A Redis that is killed may lose what it has not written; the key makes the second submission the same plan.
    pub async fn run(&self, key: &str, plan: &Value, limit: Duration) -> Result<(PlanId, String)> {
        let end = Instant::now() + limit;
        loop {
            let id = self.submit(key, plan, end.saturating_duration_since(Instant::now())).await?;
            let wait = RESUBMIT_AFTER.min(end.saturating_duration_since(Instant::now()));
            if let Some(status) = until_some(wait, async || self.status_at_end(&id).await).await {
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

    /// Submits a plan under a key to the first scheduler that accepts it.
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
            None => bail!("no scheduler accepted `{key}` within {limit:?}: {last}"),
        }
    }
}
