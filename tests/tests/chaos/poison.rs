//! Plans that kill the scheduler that works on them, one after the other: quarantine.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::wait::until_some;
use goalmill_tests::workload::sleeps;
use serde_json::{Value, json};

use crate::machine;

const LIMIT: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_aborts_its_scheduler_is_in_quarantine_and_all_others_end() -> Result<()> {
    quarantines("abort-here").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_makes_its_scheduler_hang_is_in_quarantine_and_all_others_end() -> Result<()> {
    quarantines("hang-here").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_exhausts_its_schedulers_memory_is_in_quarantine_and_all_others_end() -> Result<()> {
    quarantines("exhaust-memory-here").await
}

/// Three schedulers, none of which is started again: one must be left.
async fn quarantines(fault: &str) -> Result<()> {
    let _machine = machine().await;
    let dir = tempfile::tempdir()?;
    let faulty = dir.path().join("faulty");
    // What takes all memory takes two gigabytes.
    std::fs::write(&faulty, format!("#!/bin/sh\nulimit -v 2097152\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_faulty")))?;
    std::fs::set_permissions(&faulty, std::fs::Permissions::from_mode(0o755))?;
    let options = Options {
        schedulers: 3,
        workers: 0,
        binary: Some(faulty),
        environment: vec![("GOALMILL__SCHEDULER__WATCHDOG_MS", "2000".into())],
        ..Options::default()
    };
    let mut cluster = Cluster::start(options).await?;
    cluster.options.binary = None;
    let worker = cluster.start_worker().await?;
    cluster.workers.push(worker);
    let mut healthy = Vec::new();
    for n in 0..20 {
        healthy.push(cluster.submit(&format!("healthy-{n}"), &sleeps(&format!("healthy-{n}"), 3, 0.3), LIMIT).await?);
    }
    let poison = json!({"name": "poison", "steps": [
        {"id": "first", "agent_type": "sleep", "inputs": {"seconds": 0.2}},
        {"id": fault, "agent_type": "sleep", "dependencies": ["first"], "inputs": {"seconds": 0.0}},
    ]});
    let poison = cluster.submit("poison", &poison, LIMIT).await?;
    for plan in &healthy {
        cluster.await_end(plan, LIMIT).await?;
    }
    let recorded = until_some(LIMIT, async || {
        cluster.lines(&poison).await.ok()?.into_iter().find(|line| line["type"] == "plan_quarantined")
    });
    let recorded = recorded.await.with_context(|| format!("no quarantine\n{}", cluster.log_tails()))?;
    ensure!(recorded["data"]["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{recorded}");
    let after = cluster.submit("after", &sleeps("after", 4, 0.1), LIMIT).await?;
    cluster.await_end(&after, LIMIT).await?;
    let explained = asked(&cluster, &format!("/v1/plans/{poison}/explain")).await?;
    ensure!(explained["summary"].as_str().is_some_and(|said| said.contains("in quarantine")), "{explained}");
    let ready = asked(&cluster, "/readyz").await?;
    let is_told = |warning: &Value| warning.as_str().is_some_and(|said| said.contains(poison.as_str()));
    ensure!(ready["warnings"].as_array().is_some_and(|warnings| warnings.iter().any(is_told)), "{ready}");
    Ok(())
}

/// What a scheduler that lives answers.
async fn asked(cluster: &Cluster, path: &str) -> Result<Value> {
    let said = until_some(LIMIT, async || {
        for node in &cluster.schedulers {
            if let Ok(answer) = cluster.http.get(format!("{}{path}", node.url)).send().await
                && answer.status() == 200
            {
                return answer.json().await.ok();
            }
        }
        None
    });
    said.await.context("some scheduler is left")
}
