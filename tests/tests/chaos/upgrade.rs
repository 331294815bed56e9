//! A rolling upgrade under load: each process is replaced in turn, the new one first, the old one by SIGTERM.

use std::time::Duration;

use anyhow::{Result, ensure};
use goalmill_common::id::PlanId;
use goalmill_tests::cluster::{Cluster, Node, Options};
use goalmill_tests::workload::{Shape, workflow};
use serde_json::Value;

use crate::machine;

const LIMIT: Duration = Duration::from_mins(3);
const SHAPE: Shape = Shape { steps: 60, width: 8, parents_max: 3, seconds_max: 0.3 };

#[tokio::test(flavor = "multi_thread")]
async fn every_process_is_replaced_under_load_and_no_attempt_is_lost() -> Result<()> {
    let _machine = machine().await;
    // A lease that a slow machine cannot lose.
    let environment = vec![("GOALMILL__SCHEDULER__TASK_LEASE_MS", "30000".to_owned())];
    let mut cluster = Cluster::start(Options { workers: 3, environment, ..Options::default() }).await?;
    let mut plans = vec![submit(&cluster, 0).await?];
    for place in 0..cluster.workers.len() {
        let new = started_worker(&mut cluster).await?;
        let old = std::mem::replace(&mut cluster.workers[place], new);
        retire(old).await?;
        plans.push(submit(&cluster, plans.len() as u64).await?);
    }
    for place in 0..cluster.schedulers.len() {
        let new = cluster.start_scheduler().await?;
        let old = std::mem::replace(&mut cluster.schedulers[place], new);
        retire(old).await?;
        plans.push(submit(&cluster, plans.len() as u64).await?);
    }
    for plan in &plans {
        cluster.await_end(plan, LIMIT).await?;
        cluster.verify_completed(plan).await?;
        let lines = cluster.lines(plan).await?;
        let is_lost = |line: &&Value| line["type"] == "step_retrying" || line["type"] == "step_failed";
        let lost: Vec<&Value> = lines.iter().filter(is_lost).collect();
        ensure!(lost.is_empty(), "attempts were lost: {lost:?}\n{}", cluster.log_tails());
    }
    Ok(())
}

async fn started_worker(cluster: &mut Cluster) -> Result<Node> {
    let mut worker = cluster.start_worker().await?;
    let url = worker.url.clone();
    worker.process.wait_ready(&url, LIMIT).await?;
    Ok(worker)
}

async fn retire(mut old: Node) -> Result<()> {
    old.process.terminate()?;
    let status = old.process.wait_exit(LIMIT).await?;
    ensure!(status.success(), "{} ended with {status}:\n{}", old.id, old.process.output());
    Ok(())
}

async fn submit(cluster: &Cluster, seed: u64) -> Result<PlanId> {
    let name = format!("upgrade-{seed}");
    cluster.submit(&name, &workflow(SHAPE, seed).plan(&name), LIMIT).await
}
