//! Ten events for each of many waiting plans, while schedulers are killed: each wait gets the first event of its key, once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::stream::{self, StreamExt};
use goalmill_common::id::{PlanId, ShardId};
use goalmill_tests::cluster::{Cluster, Options, SHARDS};
use goalmill_tests::redis_server::{self, Fsync};
use goalmill_tests::wait::{until, until_some};
use serde_json::{Value, json};
use tokio::sync::RwLock;

use crate::{machine, number};

const LIMIT: Duration = Duration::from_mins(10);
const WAITS: u64 = 100;
const EVENTS_OF_ONE: u64 = 10;
/// Requests at a time.
const PARALLEL: usize = 16;
/// A scheduler is killed each time that so many parts of all events are sent.
const KILLS: u64 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_waits_gets_the_first_event_of_its_key_once_while_schedulers_are_killed() -> Result<()> {
    let _machine = machine().await;
    let waits = number("GOALMILL_CHAOS_WAITS").unwrap_or(WAITS);
    let begun = tokio::time::Instant::now();
    let redis = redis_server::Options { fsync: Fsync::Always, ..redis_server::Options::default() };
    let settings = format!("[events]\nkept_max = {}\n", waits * EVENTS_OF_ONE);
    let cluster = Cluster::start(Options { workers: 1, redis, settings, ..Options::default() }).await?;
    let cluster = Arc::new(RwLock::new(cluster));
    let plans = submit(&cluster, waits).await?;
    let submitted = begun.elapsed();
    // The first events of all keys, then the second ones, …: all waits end while the first tenth is sent.
    let events: Vec<(u64, u64)> = (0..EVENTS_OF_ONE).flat_map(|n| (0..waits).map(move |key| (key, n))).collect();
    let mut killed = 0;
    for part in events.chunks(events.len().div_ceil(usize::try_from(KILLS)?)) {
        let (first, rest) = part.split_at(part.len() / 2);
        send(&cluster, first).await?;
        // Half of a part is on its way while a scheduler is killed and another one starts.
        let (sent, replaced) = tokio::join!(send(&cluster, rest), replace(&cluster, killed));
        sent?;
        replaced?;
        killed += 1;
    }
    let sent = begun.elapsed();
    let cluster = cluster.read().await;
    for (key, plan) in &plans {
        cluster.await_end(plan, LIMIT).await?;
        verify(&cluster, *key, plan).await?;
    }
    let told = [submitted, sent, begun.elapsed()].map(|took| took.as_millis());
    eprintln!("{waits} waits, {} events, {killed} kills: submitted, sent, verified at {told:?} ms", events.len());
    Ok(())
}

fn waiting_plan(key: u64) -> Value {
    json!({"name": "storm", "steps": [
        {"id": "wait", "kind": "wait", "wait": {"event": "storm", "key": format!("key-{key}")}},
        {"id": "after", "kind": "finish", "depends_on": ["wait"], "inputs": {"n": "{{ steps.wait.outputs.n }}"}},
    ]})
}

async fn submit(cluster: &RwLock<Cluster>, waits: u64) -> Result<BTreeMap<u64, PlanId>> {
    let cluster = cluster.read().await;
    let submitted = stream::iter(0..waits).map(|key| {
        let cluster = &cluster;
        async move { Ok((key, cluster.submit(&format!("storm-{key}"), &waiting_plan(key), LIMIT).await?)) }
    });
    let submitted: Vec<Result<(u64, PlanId)>> = submitted.buffer_unordered(PARALLEL).collect().await;
    submitted.into_iter().collect()
}

/// Sends events, each until it is taken, as a sender does that got no answer.
async fn send(cluster: &RwLock<Cluster>, events: &[(u64, u64)]) -> Result<()> {
    let sent = stream::iter(events).map(|(key, n)| async move {
        let id = format!("{key}-{n}");
        let body = json!({"name": "storm", "key": format!("key-{key}"), "data": {"n": n}, "id": id});
        let mut place = usize::try_from(*key).unwrap_or_default();
        let taken = until_some(LIMIT, async || {
            let cluster = cluster.read().await;
            place = (place + 1) % cluster.schedulers.len();
            let answer = cluster.post_to(place, "/v1/events", &id, &body).await;
            answer.is_ok_and(|(status, _)| status < 300).then_some(())
        });
        taken.await.with_context(|| format!("nobody takes event {id}"))
    });
    let sent: Vec<Result<()>> = sent.buffered(PARALLEL).collect().await;
    sent.into_iter().collect()
}

/// Kills one scheduler, and starts another in its place once its shards have another owner.
async fn replace(cluster: &RwLock<Cluster>, n: usize) -> Result<()> {
    let mut held = cluster.write().await;
    let place = n % held.schedulers.len();
    let id = held.schedulers[place].id.clone();
    held.schedulers[place].process.kill9();
    drop(held);
    until(LIMIT, async || {
        let held = cluster.read().await;
        for shard in (0..SHARDS).map(ShardId) {
            if !held.broker.owner(shard).await.is_ok_and(|owner| owner.is_some_and(|owner| owner.holder != id)) {
                return false;
            }
        }
        true
    })
    .await;
    cluster.write().await.replace_scheduler(place).await
}

/// The wait was ended by its first event, and by no other.
async fn verify(cluster: &Cluster, key: u64, plan: &PlanId) -> Result<()> {
    let lines = cluster.lines(plan).await?;
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).collect::<Vec<_>>();
    let first = format!("{key}-0");
    let received: Vec<&Value> = of("event_received").iter().map(|line| &line["data"]["id"]).collect();
    ensure!(received == [&json!(first)], "plan {plan} received {received:?}");
    let ended: Vec<&Value> = of("step_completed").into_iter().filter(|line| line["step_id"] == "wait").collect();
    ensure!(ended.len() == 1, "the wait of plan {plan} ended {} times", ended.len());
    ensure!(ended[0]["data"]["event"] == json!(first), "{}", ended[0]);
    let after = of("step_completed").into_iter().find(|line| line["step_id"] == "after").context("a step follows")?;
    ensure!(after["data"]["outputs"]["n"] == 0, "{after}");
    ensure!(of("plan_completed").len() == 1, "plan {plan} did not complete");
    Ok(())
}
