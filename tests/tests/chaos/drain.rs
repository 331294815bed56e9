//! Workers that are asked to end under load.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use goalmill_common::id::PlanId;
use goalmill_common::number::to_u32;
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::wait::{SOON, until};
use goalmill_tests::workload::sleeps;
use serde_json::{Value, json};

use crate::machine;

const LIMIT: Duration = Duration::from_mins(2);
const STEPS: usize = 8;

/// Two workers with long steps that may fail not even once, and the place of the one that runs more of them; the
/// other one has room for all.
async fn loaded(drain_ms: &str) -> Result<(Cluster, PlanId, usize)> {
    // A lease that a slow machine cannot lose.
    let lease = ("GOALMILL__SCHEDULER__TASK_LEASE_MS", "30000".to_owned());
    let environment = vec![("GOALMILL__WORKER__DRAIN_MS", drain_ms.to_owned()), lease];
    let options = Options { workers: 2, slots: to_u32(STEPS), environment, ..Options::default() };
    let cluster = Cluster::start(options).await?;
    let mut document = sleeps("drained", STEPS, 6.0);
    for step in document["steps"].as_array_mut().into_iter().flatten() {
        step["retry"] = json!({"max": 0});
    }
    let plan = cluster.submit("drained", &document, LIMIT).await?;
    until(LIMIT, async || started(&cluster, &plan).await.len() == STEPS).await;
    let started = started(&cluster, &plan).await;
    let runs = |place: &usize| started.iter().filter(|worker| **worker == cluster.workers[*place].id).count();
    let most = (0..cluster.workers.len()).max_by_key(runs).context("there are workers")?;
    Ok((cluster, plan, most))
}

/// The workers of the steps that run or ran.
async fn started(cluster: &Cluster, plan: &PlanId) -> Vec<String> {
    let lines = cluster.lines(plan).await.unwrap_or_default();
    let of = |line: &&Value| line["type"] == "step_started";
    lines.iter().filter(of).map(|line| line["data"]["worker"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn released_and_completed(cluster: &Cluster, plan: &PlanId, worker: &str, held: usize) -> Result<()> {
    cluster.await_end(plan, LIMIT).await?;
    cluster.verify_completed(plan).await?;
    let lines = cluster.lines(plan).await?;
    let released: Vec<&Value> = lines.iter().filter(|line| line["type"] == "step_released").collect();
    // On a machine that stood still for long, some may have ended meanwhile.
    let starts = |line: &&Value| line["type"] == "step_started" && line["data"]["worker"] == worker;
    let kept = |step: &Value| !released.iter().any(|line| line["step_id"] == *step);
    let ended = lines.iter().filter(starts).filter(|line| kept(&line["step_id"])).count();
    ensure!(released.len() + ended == held, "{} of {held} steps were handed back, {ended} ended", released.len());
    ensure!(!released.is_empty(), "nothing was handed back");
    ensure!(released.iter().all(|line| line["data"]["worker"] == worker), "{released:?}");
    let consumed = |line: &&Value| line["type"] == "step_retrying" || line["type"] == "step_failed";
    let consumed: Vec<&Value> = lines.iter().filter(consumed).collect();
    ensure!(consumed.is_empty(), "handing back counted as a failure: {consumed:?}\n{}", cluster.log_tails());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_worker_hands_back_what_it_cannot_finish_and_no_attempt_is_lost() -> Result<()> {
    let _machine = machine().await;
    let (mut cluster, plan, place) = loaded("500").await?;
    let id = cluster.workers[place].id.clone();
    let held = started(&cluster, &plan).await.iter().filter(|worker| **worker == id).count();
    ensure!(held > 0, "the worker runs nothing");
    cluster.workers[place].process.terminate()?;
    let status = cluster.workers[place].process.wait_exit(SOON).await?;
    ensure!(status.code() == Some(0), "{status}\n{}", cluster.log_tails());
    released_and_completed(&cluster, &plan, &id, held).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_hands_everything_back_at_once() -> Result<()> {
    let _machine = machine().await;
    let (mut cluster, plan, place) = loaded("600000").await?;
    let id = cluster.workers[place].id.clone();
    let held = started(&cluster, &plan).await.iter().filter(|worker| **worker == id).count();
    let worker = &mut cluster.workers[place].process;
    worker.terminate()?;
    worker.wait_line("a second signal", SOON).await?;
    worker.terminate()?;
    let status = worker.wait_exit(SOON).await?;
    ensure!(status.code() == Some(0), "{status}\n{}", cluster.log_tails());
    released_and_completed(&cluster, &plan, &id, held).await
}
