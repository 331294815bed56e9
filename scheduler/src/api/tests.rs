use std::collections::BTreeMap;

use async_trait::async_trait;
use axum::body::{Bytes, to_bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use goalmill_broker::{BrokerError, LogEntry, embedded};
use goalmill_common::clock::Clock;
use goalmill_common::config::Settings;
use goalmill_common::id::{Namespace, PlanId, ShardId};
use goalmill_common::random::Random;
use serde_json::Value;

use super::principal::Principal;
use super::*;
use crate::app::{SchedulerOptions, SchedulerStart, assemble};
use crate::plan_reader::PlanReader;
use crate::shard::Membership;

const PLAN: &str = r#"{"steps": [{"id": "a", "agent_type": "w"}]}"#;

/// A scheduler over an empty store; nothing runs.
async fn scheduler() -> Scheduler {
    let broker = embedded::open(None, Clock::system()).expect("an empty store opens");
    let mut settings = Settings::default();
    settings.api.listen = String::new();
    settings.metrics.listen = String::new();
    let options = SchedulerOptions { settings, broker, clock: Clock::system(), random: Random::seeded(1) };
    Box::pin(assemble(options, Vec::new(), Vec::new(), None, &SchedulerStart::default()))
        .await
        .expect("the scheduler is assembled")
        .0
}

fn api(scheduler: Scheduler) -> Api {
    let (scheduler, shards) = (Arc::new(scheduler), Arc::new(OwnedShards::default()));
    let access = Arc::new(AccessGuard::new(&scheduler, super::ApiCredentials { environment: Vec::new(), oidc: None }));
    let (streams, scans, census) = (Arc::default(), Arc::new(Semaphore::new(1)), Arc::default());
    let bodies = BodyReader::new(&scheduler.settings);
    Api { scheduler, shards, access, streams, scans, bodies, census, tls: None, mcp: None }
}

/// Submits a plan under the key `k` and returns its id.
async fn submit(api: &Api, namespace: &str) -> String {
    let principal = Principal { namespace: Namespace::from(namespace), ..Principal::default() };
    let headers = HeaderMap::from_iter([("idempotency-key".parse().expect("a name"), "k".parse().expect("a value"))]);
    let body = Ok(Bytes::from_static(PLAN.as_bytes()));
    let response = submit::submit_plan(State(api.clone()), principal, headers, body).await;
    let response = response.expect("the plan is accepted");
    let text = to_bytes(response.into_body(), usize::MAX).await.expect("the body is in memory");
    let accepted: Value = serde_json::from_slice(&text).expect("the body is JSON");
    accepted["plan_id"].as_str().expect("it has the plan's id").to_owned()
}

#[tokio::test]
async fn one_key_in_two_namespaces_is_two_plans() {
    let api = api(scheduler().await);
    api.scheduler.tasks.spawn(Membership::new(api.scheduler.clone(), api.shards.clone()).run());
    let (default, other) = (submit(&api, "default").await, submit(&api, "other").await);
    assert_ne!(default, other);
    assert_eq!(submit(&api, "default").await, default);
    assert_eq!(submit(&api, "other").await, other);
    assert_eq!(default, PlanId::derive(api.scheduler.shards, &Namespace::default(), "k").as_str());
    let ids = ["k".to_owned(), "other/k".to_owned()];
    let answers = api.scheduler.broker.answers(&ids).await.expect("the store answers");
    assert!(answers.iter().all(Option::is_some), "{answers:?}");
    api.scheduler.stop.cancel();
}

/// Plans in memory.
#[derive(Default)]
struct MemoryPlans {
    logs: BTreeMap<PlanId, Vec<LogEntry>>,
    summaries: BTreeMap<PlanId, BTreeMap<String, String>>,
}

#[async_trait]
impl PlanReader for MemoryPlans {
    async fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<LogEntry>, BrokerError> {
        let log = self.logs.get(plan).into_iter().flatten();
        Ok(log.filter(|entry| entry.last_seq > after_seq).take(limit).cloned().collect())
    }

    async fn summary(&self, plan: &PlanId) -> Result<BTreeMap<String, String>, BrokerError> {
        Ok(self.summaries.get(plan).cloned().unwrap_or_default())
    }

    async fn list(&self, shard: ShardId, _before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>, BrokerError> {
        let plans = self.logs.keys().filter(|plan| plan.shard() == Some(shard));
        Ok(plans.take(limit).map(|plan| (plan.clone(), 1)).collect())
    }

    async fn payload(&self, _: &PlanId, _: &str) -> Result<Option<String>, BrokerError> {
        Ok(None)
    }
}

#[tokio::test]
async fn handlers_read_plans_only_through_the_plan_reader() {
    goalmill_http::install_tls();
    let live = api(scheduler().await);
    live.scheduler.tasks.spawn(Membership::new(live.scheduler.clone(), live.shards.clone()).run());
    let plan = PlanId::from(submit(&live, "default").await);
    let mut plans = MemoryPlans::default();
    plans.logs.insert(plan.clone(), live.scheduler.plans.log(&plan, 0, 100).await.expect("the log is there"));
    plans.summaries.insert(plan.clone(), live.scheduler.plans.summary(&plan).await.expect("the summary is there"));
    live.scheduler.stop.cancel();

    let mut empty = scheduler().await;
    empty.plans = Arc::new(plans);
    let api = api(empty);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let served = api.scheduler.tasks.spawn(serve(
        api.scheduler.clone(),
        api.shards.clone(),
        super::ApiCredentials { environment: Vec::new(), oidc: None },
        listener,
        None,
    ));
    let get = async |path: String| -> Value {
        let response = reqwest::get(format!("http://{address}{path}")).await.expect("the API answers");
        let text = response.text().await.expect("the body is read");
        serde_json::from_str(&text).expect("the body is JSON")
    };
    assert_eq!(get(format!("/v1/plans/{plan}")).await["plan_id"], plan.as_str());
    assert_eq!(get("/v1/plans".into()).await["items"][0]["plan_id"], plan.as_str());
    assert_eq!(get(format!("/v1/plans/{plan}/events")).await["items"][0]["seq"], 1);
    assert_eq!(get(format!("/v1/events?since_ms=0&plan={plan}")).await["items"][0]["plan_id"], plan.as_str());
    api.scheduler.stop.cancel();
    served.await.expect("the API stops");
}
