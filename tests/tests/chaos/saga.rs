//! `kill -9` of the owner, the worker and Redis at every stage of a saga: nothing that was booked stays booked, and nothing
//! is taken back twice.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use goalmill_common::id::PlanId;
use goalmill_demo::agents::{self, DemoServer};
use goalmill_engine::replay;
use goalmill_tests::audit::{Expect, audit};
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::redis_server::{self, Fsync};
use goalmill_tests::wait::until_some;
use serde_json::{Value, json};

use crate::machine;

const LIMIT: Duration = Duration::from_mins(3);
const PLAN: &str = include_str!("../../../docs/examples/saga.yaml");
/// How long the agency takes for an answer after it has done its work, in milliseconds.
const LATENCY_MS: u64 = 150;

/// An event, and its step.
type Stage = (&'static str, &'static str);

/// When a process is killed: when the event is in the log.
const STAGES: [Stage; 15] = [
    ("plan_validated", ""),
    ("step_queued", "trip"),
    ("step_expanded", "hotels"),
    ("step_queued", "hotel"),
    ("step_started", "hotel"),
    ("step_completed", "hotel"),
    ("step_wait_started", "payment"),
    ("event_received", ""),
    ("step_failed", "pay"),
    ("cleanup_started", ""),
    ("step_queued", "flight:undo"),
    ("step_started", "flight:undo"),
    ("step_completed", "flight:undo"),
    ("step_started", "hotel:undo"),
    ("plan_failed", ""),
];

/// Events that are always in one commit with another one that is a stage: `plan_validated`, `step_queued`.
const BESIDE: [&str; 3] = ["goal_accepted", "plan_created", "step_ready"];

#[derive(Clone, Copy, Debug)]
enum Victim {
    Owner,
    Worker,
    Redis,
}

/// One plan, and what is killed at which stage of it.
#[derive(Debug)]
struct Saga {
    plan: PlanId,
    stage: Stage,
    victim: Victim,
    is_killed: bool,
    is_paid: bool,
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_killed_at_any_stage_of_a_saga_nothing_stays_booked_and_nothing_is_undone_twice() -> Result<()> {
    let _machine = machine().await;
    let agency = agents::serve().await?;
    let mut cluster = start(&agency).await?;
    let mut sagas: Vec<Saga> = Vec::new();
    for stage in STAGES {
        for victim in [Victim::Owner, Victim::Worker, Victim::Redis] {
            let plan = cluster.submit(&format!("{}-{}-{victim:?}", stage.0, stage.1), &plan()?, LIMIT).await?;
            sagas.push(Saga { plan, stage, victim, is_killed: false, is_paid: false });
        }
        let reached = until_kills(&mut cluster, &mut sagas).await;
        reached.with_context(|| format!("{stage:?}\n{}", cluster.log_tails()))?;
    }
    let mut types = BTreeSet::from(BESIDE.map(String::from));
    types.extend(STAGES.map(|(kind, _)| kind.to_owned()));
    for saga in &mut sagas {
        let told = format!("{saga:?}");
        let paid = until_some(LIMIT, async || pay(&cluster, saga).await.then_some(()));
        paid.await.with_context(|| format!("{told} never waits\n{}", cluster.log_tails()))?;
        cluster.await_end(&saga.plan, LIMIT).await.context(told.clone())?;
        let seen = verify(&cluster, &agency, &saga.plan).await.context(told)?;
        // What only faults bring has no stage of its own.
        let new: Vec<&String> = seen.difference(&types).filter(|kind| *kind != "step_retrying").collect();
        ensure!(new.is_empty(), "events without a stage: {new:?}");
    }
    Ok(())
}

async fn start(agency: &DemoServer) -> Result<Cluster> {
    let url = format!("http://{}/booking_agent", agency.address());
    // A worker that is killed loses the tasks of all sagas that it has: that must not end them.
    let lost_max = 3 * STAGES.len();
    let settings =
        format!("[limits]\nlost_max = {lost_max}\n[worker.agents.booking_agent]\nkind = \"http\"\nurl = \"{url}\"\n");
    let redis = redis_server::Options { fsync: Fsync::Always, ..redis_server::Options::default() };
    Cluster::start(Options { workers: 1, redis, settings, ..Options::default() }).await
}

/// The plan of the documentation, with an agency that takes its time after it has done something.
fn plan() -> Result<Value> {
    let mut plan: Value = serde_yaml_ng::from_str(PLAN)?;
    for step in plan["steps"].as_array_mut().into_iter().flatten() {
        if step["action"] == "book" {
            step["inputs"]["latency_ms"] = LATENCY_MS.into();
            step["undo"]["inputs"]["latency_ms"] = LATENCY_MS.into();
        }
    }
    Ok(plan)
}

/// Kills what each saga says, as soon as it is at its stage.
async fn until_kills(cluster: &mut Cluster, sagas: &mut [Saga]) -> Result<()> {
    let end = tokio::time::Instant::now() + LIMIT;
    while let Some(open) = sagas.iter().find(|saga| !saga.is_killed) {
        ensure!(tokio::time::Instant::now() < end, "{open:?} does not get there");
        for saga in sagas.iter_mut().filter(|saga| !(saga.is_killed && saga.is_paid)) {
            pay(cluster, saga).await;
            if !saga.is_killed && is_at(cluster, saga).await {
                kill(cluster, saga).await?;
                saga.is_killed = true;
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

async fn is_at(cluster: &Cluster, saga: &Saga) -> bool {
    let (kind, step) = saga.stage;
    let is_it = |line: &Value| line["type"] == kind && line["step_id"].as_str().unwrap_or_default() == step;
    cluster.lines(&saga.plan).await.is_ok_and(|lines| lines.iter().any(is_it))
}

async fn kill(cluster: &mut Cluster, saga: &Saga) -> Result<()> {
    match saga.victim {
        Victim::Owner => {
            // Nobody owns the shard for a moment after another kill.
            let owner = until_some(LIMIT, async || cluster.owner(&saga.plan).await).await;
            cluster.replace_scheduler(owner.context("the shard has no owner")?).await
        }
        Victim::Worker => cluster.replace_worker(0).await,
        Victim::Redis => {
            cluster.redis.kill9();
            cluster.redis.restart().await
        }
    }
}

/// Sends the payment once the plan waits for it; returns whether it was taken.
async fn pay(cluster: &Cluster, saga: &mut Saga) -> bool {
    if saga.is_paid {
        return true;
    }
    let Ok(lines) = cluster.lines(&saga.plan).await else { return false };
    let wait = lines.iter().find(|line| line["type"] == "step_wait_started");
    let Some(key) = wait.and_then(|line| line["data"]["key"].as_str()) else { return false };
    let body = json!({"name": "payment", "key": key, "data": {"status": "declined"}, "id": saga.plan});
    for place in 0..cluster.schedulers.len() {
        let sent = cluster.post_to(place, "/v1/events", saga.plan.as_str(), &body).await;
        saga.is_paid |= sent.is_ok_and(|(status, _)| status < 300);
    }
    saga.is_paid
}

/// Checks a saga that has ended; returns the types of its events.
async fn verify(cluster: &Cluster, agency: &DemoServer, plan: &PlanId) -> Result<BTreeSet<String>> {
    let mut state = None;
    for record in &cluster.log(plan).await? {
        replay(&mut state, record)?;
    }
    let state = state.context("the log is empty")?;
    let lines = cluster.lines(plan).await?;
    let found = audit(state.plan(), &lines, Expect::Lawful);
    ensure!(found.is_empty(), "{}", found.join("\n"));
    let last = lines.last().context("there are events")?;
    ensure!(last["type"] == "plan_failed", "the end is {last}");
    ensure!(last["data"]["reason"].as_str().is_some_and(|why| why.contains("the payment is declined")), "{last}");
    let places = |step: &str| -> Vec<usize> {
        let is_it = |line: &&Value| line["type"] == "step_completed" && line["step_id"] == step;
        lines.iter().filter(is_it).filter_map(|line| line["seq"].as_u64()?.try_into().ok()).collect()
    };
    let (flight, hotel, report) = (places("flight:undo"), places("hotel:undo"), places("report"));
    ensure!([flight.len(), hotel.len(), report.len()] == [1, 1, 1], "{flight:?} {hotel:?} {report:?}");
    ensure!(flight < hotel && hotel < report, "{flight:?} {hotel:?} {report:?}");
    let trip = lines.iter().find(|line| line["type"] == "step_completed" && line["step_id"] == "trip");
    let trip = trip.and_then(|line| line["data"]["outputs"]["trip"].as_str()).context("the trip has a name")?;
    let book = agency.book().entries(trip);
    ensure!(book.len() == 2, "{book:?}");
    for (reference, entry) in &book {
        ensure!(entry.booked_by.is_some() && !entry.is_booked(), "{reference}: {entry:?}");
        ensure!(entry.cancelled_by.len() == 1, "{reference} was cancelled under several keys: {entry:?}");
    }
    Ok(lines.iter().filter_map(|line| line["type"].as_str().map(String::from)).collect())
}
